// Work done in another process, so that what crashes or hangs there does so there.
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

// `work` done in a forked child, begun at once; finish() waits and hands over the text it returned.
// Several may be under way side by side.
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

// Runs a command found on PATH, its standard output handed over line by line as it comes and whole
// at the end; `input` is its standard input; its standard error is dropped.
ProcessEnd run_command(const std::vector<std::string>& arguments, std::string_view input,
                       std::chrono::milliseconds patience,
                       const std::function<void(std::string_view line)>& on_line = {});

}  // namespace mfu
