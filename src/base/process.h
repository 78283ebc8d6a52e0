// Does work in another process, so that a crash or a hang does not affect this one.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

struct ProcessEnd {
  enum class Kind { exited, signalled, timed_out, not_started };
  Kind kind = Kind::not_started;
  int number = 0;      // exit status or signal
  std::string output;  // what it wrote, at most 4 MiB

  bool good() const { return kind == Kind::exited && number == 0; }
  std::string describe() const;  // "crashed (segmentation fault)", "gave no answer within 2.0 s", …
};

// Starts `work` in a forked child at once. finish() waits and returns the text that it returned.
// Several may run at the same time.
class IsolatedWork {
 public:
  IsolatedWork(const std::function<std::string()>& work, std::chrono::milliseconds patience);
  ~IsolatedWork();
  IsolatedWork(const IsolatedWork&) = delete;
  IsolatedWork& operator=(const IsolatedWork&) = delete;

  ProcessEnd finish();

 private:
  std::chrono::steady_clock::time_point deadline_;
  int read_end_ = -1;
  int child_ = -1;
};

// Runs a command found on PATH, with `input` as its standard input. Its standard output is passed
// on line by line as it comes, and returned as a whole at the end. Its standard error is dropped.
ProcessEnd run_command(const std::vector<std::string>& arguments, std::string_view input,
                       std::chrono::milliseconds patience,
                       const std::function<void(std::string_view line)>& on_line = {});

}  // namespace mfu
