// Runs a command as if we were not there: it keeps its terminal, input, output, signals and exit
// status.
#pragma once

#include <mfu/result.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/drain.h"

namespace mfu::app {

// Variables to set in the command's environment, in addition to ours.
using Environment = std::map<std::string, std::string>;

// A command that could not be started.
struct NotStarted {
  int status = 127;  // as a shell says: 127 not found, 126 found and not runnable
  std::string message;
};

class GroupEar;

class Launch {
 public:
  // Blocks signals in this thread and in those that it starts later. finish() handles them.
  Launch();
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Starts the command. Returns nothing if it runs.
  std::optional<NotStarted> start(const std::vector<std::string>& command,
                                  const Environment& environment);

  // Waits until the command ends and passes on the signals that are sent to us alone. Signals from
  // the terminal or to our whole group reach the command without us. `told` is called with SIGTSTP
  // before Ctrl-Z stops this process, with SIGCONT when it runs again, and with SIGWINCH when the
  // terminal has another size.
  RunEnd finish(const std::function<void(int)>& told);

  int pid() const { return child_; }

 private:
  int child_ = -1;
  std::unique_ptr<GroupEar> ear_;
};

// The folder with our sitecustomize.py, which goes first on PYTHONPATH. It is looked for in
// $MFU_PYTHON_DIR, then beside this program in a wheel, a build tree or an installation. Empty if
// it is nowhere.
std::string inject_folder();

}  // namespace mfu::app
