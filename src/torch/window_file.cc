#include "torch/window_file.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace mfu::observer {
namespace {

std::string line(const char* key, std::uint64_t value) {
  return std::string(key) + "=" + std::to_string(value) + "\n";
}

std::uint64_t cores_available() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return static_cast<std::uint64_t>(CPU_COUNT(&set));
}

std::string text_of(const WindowFacts& facts, const std::string& trace) {
  std::string text = "mfu.window/1\n";
  if (facts.rank >= 0) text += line("rank", static_cast<std::uint64_t>(facts.rank));
  text += line("pid", static_cast<std::uint64_t>(getpid())) + line("number", facts.number);
  text += "trace=" + trace + "\n";
  text += line("wanted_steps", facts.wanted_steps) + line("steps", facts.steps);
  text += line("first_step", facts.first_step);
  text += line("start_ns", facts.start_ns) + line("end_ns", facts.end_ns);
  text += line("on_device", facts.device ? 1 : 0);
  text += line("cores_available", cores_available());
  text += line("threads", static_cast<std::uint64_t>(std::max(at::get_num_threads(), 1)));
  text += line("wall_ns", facts.use.wall_ns) + line("cpu_ns", facts.use.cpu_ns);
  text += line("waited_ns", facts.use.waited_ns) + line("loop_cpu_ns", facts.use.loop_cpu_ns);
  text += line("loading_ns", facts.use.loading_ns);
  text += line("loading_cpu_ns", facts.use.loading_cpu_ns);
  text += line("children", facts.use.children);
  text += line("children_ready_ns", facts.use.children_ready_ns);
  text += line("busiest_child_ns", facts.use.busiest_child_ns);
  for (const Recorder::Total& each : facts.operators) {
    text += "operator=" + each.name + "\t" + each.type + "\t" + each.reason + "\t" +
            std::to_string(each.calls) + "\t" + each.hardware_flop.to_string() + "\t" +
            each.model_flop.to_string() + "\t" + each.recomputed_flop.to_string() + "\n";
  }
  return text + "end\n";
}

// A name that no other process of the run has taken: "rank0", or one made from the process.
std::string take_name(const std::string& directory, const WindowFacts& facts) {
  std::string name = "rank" + std::to_string(std::max(facts.rank, 0));
  if (facts.number > 1) name += "-" + std::to_string(facts.number);
  std::string taken = directory + "/window-" + name + ".txt.part";
  int file = open(taken.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0 && errno == EEXIST) {
    name = "pid" + std::to_string(getpid());
    if (facts.number > 1) name += "-" + std::to_string(facts.number);
  }
  if (file >= 0) close(file);
  return name;
}

}  // namespace

std::vector<Recorder::Total> difference(const std::vector<Recorder::Total>& now,
                                        const std::vector<Recorder::Total>& before) {
  std::vector<Recorder::Total> left;
  for (Recorder::Total each : now) {
    for (const Recorder::Total& old : before) {
      if (old.name != each.name || old.type != each.type || old.reason != each.reason) continue;
      each.calls -= std::min(each.calls, old.calls);
      each.hardware_flop = each.hardware_flop - old.hardware_flop;
      each.model_flop = each.model_flop - old.model_flop;
      each.recomputed_flop = each.recomputed_flop - old.recomputed_flop;
    }
    if (each.calls != 0) left.push_back(std::move(each));
  }
  return left;
}

std::string write_window_files(const WriteTrace& write, const std::string& directory,
                               const WindowFacts& facts) {
  std::string name = take_name(directory, facts);
  std::string trace = "trace-" + name + ".json";
  std::string problem = write(directory + "/" + trace);
  if (problem.empty() && access((directory + "/" + trace).c_str(), R_OK) != 0) {
    problem = "the trace could not be written";
  }
  std::string path = directory + "/window-" + name + ".txt", part = path + ".part";
  std::string text = text_of(facts, trace);
  if (!problem.empty()) text.insert(text.find('\n') + 1, "problem=" + problem + "\n");
  std::FILE* file = std::fopen(part.c_str(), "w");
  if (file == nullptr) return std::strerror(errno);
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fclose(file) == 0 && good;
  if (!good || std::rename(part.c_str(), path.c_str()) != 0) return "the disk refused it";
  return problem;
}

}  // namespace mfu::observer
