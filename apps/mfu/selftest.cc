#include "selftest.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "launch.h"
#include "mfu/machine.h"

extern char** environ;

namespace mfu::app {

namespace {

std::vector<char*> words_of(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& each : command) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  return words;
}

}  // namespace

Result<int> become_selftest(Context& context, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path script = fs::path(inject_folder()).parent_path() / "_selftest.py";
  if (!fs::exists(script, ignored)) {
    return fail(ErrorCode::not_found,
                "the self-test is part of the Python package mfu, which was not found beside this "
                "program. Set MFU_PYTHON_DIR to the folder of the package");
  }
  std::string self = fs::read_symlink("/proc/self/exe", ignored);
  const char* named = std::getenv("MFU_SELFTEST_SUBJECT");  // our tests name a broken mfu here
  std::vector<std::string> command = {context.python(), script, "--mfu", named ? named : self};
  if (!output.empty()) command.insert(command.end(), {"--output", output});
  if (context.json()) command.emplace_back("--json");
  std::vector<char*> words = words_of(command);
  ::execvp(words[0], words.data());
  return fail(ErrorCode::io, fmt::format("cannot start {}. Give --python PATH or set MFU_PYTHON",
                                         context.python()));
}

Result<int> count_retired(Context& context, const std::vector<std::string>& command) {
  FlopCounters counters = MFU_TRY(FlopCounters::open({}));
  std::vector<char*> words = words_of(command);
  pid_t child = 0;
  if (::posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ) != 0) {
    return fail(ErrorCode::not_found, fmt::format("cannot start {}", command[0]));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  RetiredFlop retired = MFU_TRY(counters.read());
  context.print(fmt::format("{{\"flop\":{},\"counted_fraction\":{}}}\n", retired.flop.to_string(),
                            retired.counted.value));
  return WIFEXITED(status) ? WEXITSTATUS(status) : kThreshold;
}

}  // namespace mfu::app
