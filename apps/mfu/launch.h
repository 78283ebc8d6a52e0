// A command run as if we were not there: its terminal, input, output, signals and exit status are
// its own.
#pragma once

#include <mfu/record.h>
#include <mfu/result.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mfu::app {

// Set in the command's environment, beside what is there.
using Environment = std::map<std::string, std::string>;

// A command that could not be started.
struct NotStarted {
  int status = 127;  // as a shell says: 127 not found, 126 found and not runnable
  std::string message;
};

class GroupEar;

class Launch {
 public:
  // From here on this thread, and those it starts, leave signals to finish().
  Launch();
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // None: it runs.
  std::optional<NotStarted> start(const std::vector<std::string>& command,
                                  const Environment& environment);

  // Waits, handing on the signals that are sent to us alone; those of the terminal, and those sent
  // to our whole group, reach the command by themselves. `before_stop` is called before a Ctrl-Z
  // stops us too.
  RunEnd finish(const std::function<void()>& before_stop);

  int pid() const { return child_; }

 private:
  int child_ = -1;
  std::unique_ptr<GroupEar> ear_;
};

// The folder of sitecustomize.py that goes before PYTHONPATH: in $MFU_PYTHON_DIR, beside this
// program in a build tree, an installation or a wheel. Empty: not there.
std::string inject_folder();

}  // namespace mfu::app
