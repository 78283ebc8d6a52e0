#include "unobserved.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace mfu::app {

namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 4u << 20;  // read at most this much of one file in /proc
constexpr std::size_t kMostProcesses = 4096;  // look at no more processes at a time
constexpr auto kLongestPause = std::chrono::milliseconds(5000);
// Torch is mapped seconds before its import ends. A process that ends in between is not reported.
constexpr auto kTimeToStart = std::chrono::seconds(10);

std::string read_proc(std::uint32_t pid, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  std::string text;
  char block[65536];
  while (text.size() < kMostBytes && (file.read(block, sizeof block), file.gcount() > 0)) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

std::vector<std::uint32_t> children_of(std::uint32_t pid) {
  std::vector<std::uint32_t> children;
  std::error_code error;
  fs::directory_iterator threads(fmt::format("/proc/{}/task", pid), error), end;
  for (; !error && threads != end; threads.increment(error)) {
    std::ifstream file(threads->path() / "children");
    std::copy(std::istream_iterator<std::uint32_t>(file), {}, std::back_inserter(children));
  }
  return children;
}

struct Descendant {
  std::uint32_t pid, parent;
};

std::vector<Descendant> descendants() {
  std::vector<Descendant> all;
  auto add_children_of = [&](std::uint32_t parent) {
    for (std::uint32_t child : children_of(parent)) all.push_back({child, parent});
  };
  add_children_of(static_cast<std::uint32_t>(getpid()));
  for (std::size_t i = 0; i < all.size() && all.size() < kMostProcesses; ++i) {
    add_children_of(all[i].pid);
  }
  return all;
}

// Field 22 of /proc/PID/stat; the name in parentheses may have spaces and parentheses.
std::uint64_t start_of(std::uint32_t pid) {
  std::string text = read_proc(pid, "stat");
  std::size_t at = text.rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

// The process's pid in its own namespace, which is the one in the name of its counters' file.
std::uint32_t inner_pid_of(std::uint32_t pid) {
  std::string text = read_proc(pid, "status");
  std::size_t line = text.find("\nNSpid:");
  if (line == std::string::npos) return pid;
  std::string numbers = text.substr(line + 7, text.find('\n', line + 1) - line - 7);
  std::size_t last = numbers.find_last_of(" \t");
  return static_cast<std::uint32_t>(std::strtoul(numbers.c_str() + last + 1, nullptr, 10));
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    std::size_t end = std::min(text.find('\0', from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

// The flag that makes Python ignore PYTHONPATH or the module site: "-I" for `python -uI train.py`.
// Empty if there is none.
std::string flag_in_the_way(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word.size() < 2 || word[0] != '-' || word[1] == '-') return "";
    for (std::size_t at = 1; at < word.size(); ++at) {
      char letter = word[at];
      if (letter == 'I' || letter == 'E' || letter == 'S') return std::string("-") + letter;
      if (letter == 'c' || letter == 'm') return "";
      if (letter == 'W' || letter == 'X') {  // takes the rest of the word, or the next one
        if (at + 1 == word.size()) ++i;
        break;
      }
    }
  }
  return "";
}

// Why the process is not observed, and what helps. Empty if no reason can be seen.
std::string why_not(std::uint32_t pid, const std::string& inject_folder) {
  std::error_code error;
  std::string program = fs::read_symlink(fmt::format("/proc/{}/exe", pid), error).filename();
  if (error) return "it belongs to another user, so mfu run cannot reach it. Run mfu as that user";
  if (!program.starts_with("python") && !program.starts_with("pypy")) {
    return fmt::format(
        "{} is not Python. Preload the observer into it: LD_PRELOAD=…/libmfu_torch.so "
        "(docs/python.md says where it is)",
        program);
  }
  std::string flag = flag_in_the_way(parts_of(read_proc(pid, "cmdline")));
  if (flag == "-S") {
    return "python -S does not load the module site, which mfu run needs. Leave -S out";
  }
  if (!flag.empty()) {
    return fmt::format(
        "python {} ignores PYTHONPATH, which mfu run needs. Leave {} out, or install openmfu into "
        "that Python: then it is observed anyway",
        flag, flag);
  }
  std::vector<std::string> environment = parts_of(read_proc(pid, "environ"));
  auto value_of = [&](const std::string& name) -> const std::string* {
    for (const std::string& each : environment) {
      if (each.starts_with(name + "=")) return &each;
    }
    return nullptr;
  };
  const std::string* path = value_of("PYTHONPATH");
  if (value_of("MFU_REGION_DIR") == nullptr) {
    return "it was started without the environment of mfu run (env -i, or a launcher that passes "
           "no variables on). Pass PYTHONPATH and MFU_REGION_DIR on, or install openmfu into that "
           "Python: then it is observed anyway";
  }
  if (path == nullptr || path->find(inject_folder) == std::string::npos) {
    return "its PYTHONPATH was replaced. Add to it instead (PYTHONPATH=mine:$PYTHONPATH), or "
           "install openmfu into that Python: then it is observed anyway";
  }
  return "";
}

// Whether the process is a worker of Inductor. These compile, and try kernels and instruction sets,
// which is not the program's work.
bool is_compilers(const std::string& command) {
  return command.find("/torch/_inductor/") != std::string::npos ||
         command.find("from ctypes import cdll\ncdll.LoadLibrary(") != std::string::npos;
}

// The pids in the names of counters' files (HOST-PID-NUMBER.region or .steps) and of notes
// (note-PID.txt).
std::set<std::uint32_t> pids_that_spoke(const std::string& folder) {
  std::set<std::uint32_t> pids;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    std::string name = each->path().filename();
    std::size_t at = name.find('-');
    if (at == std::string::npos) continue;
    pids.insert(static_cast<std::uint32_t>(std::strtoul(name.c_str() + at + 1, nullptr, 10)));
  }
  return pids;
}

}  // namespace

Unobserved::Unobserved(const RunPlaces& places, std::string inject_folder)
    : region_folder_(places.region_folder),
      directory_(places.directory),
      inject_folder_(std::move(inject_folder)) {}

void Unobserved::look() {
  steady_clock::time_point now = steady_clock::now();
  if (now < next_) return;
  next_ = now + pause_;
  pause_ = std::min(pause_ * 5 / 4, kLongestPause);
  std::set<std::uint32_t> spoke = pids_that_spoke(region_folder_);
  for (auto [pid, parent] : descendants()) {
    if (spoke.contains(pid)) continue;
    auto known = with_torch_.find({pid, start_of(pid)});
    if (known != with_torch_.end()) {
      known->second.last = now;
      continue;
    }
    if (read_proc(pid, "maps").find("/libtorch_cpu.so") == std::string::npos) continue;
    // A forked worker inherits torch from an observed process. It gets counters once it computes.
    std::string command = read_proc(pid, "cmdline");
    if (spoke.contains(parent) && command == read_proc(parent, "cmdline")) continue;
    if (is_compilers(command)) continue;
    Process process{why_not(pid, inject_folder_), inner_pid_of(pid), now, now};
    with_torch_.emplace(std::pair{pid, start_of(pid)}, std::move(process));
  }
  std::erase_if(with_torch_,
                [&](const auto& each) { return spoke.contains(each.second.inner_pid); });
}

std::vector<std::string> Unobserved::sentences() const {
  // The counters of a process that has ended are only in the run directory.
  std::set<std::uint32_t> spoke = pids_that_spoke(region_folder_);
  spoke.merge(pids_that_spoke(directory_));
  std::map<std::string, std::vector<std::uint32_t>> by_reason;
  for (const auto& [key, process] : with_torch_) {
    if (spoke.contains(process.inner_pid)) continue;
    bool had_time = process.last - process.first >= kTimeToStart;
    if (process.why.empty() && !had_time) continue;
    std::string why = process.why.empty() ? "it never began to count. Set MFU_DEBUG=1 in its "
                                            "environment to see why on standard error"
                                          : process.why;
    by_reason[why].push_back(key.first);
  }
  std::vector<std::string> sentences;
  for (const auto& [why, pids] : by_reason) {
    std::string which = fmt::format("process {}", pids[0]);
    if (pids.size() > 1) which = fmt::format("{} processes, such as {}", pids.size(), pids[0]);
    sentences.push_back(fmt::format("torch is not observed in {}: {}", which, why));
  }
  return sentences;
}

}  // namespace mfu::app
