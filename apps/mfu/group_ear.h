// Tells a signal that was sent to us alone from one that was sent to all of our process group (or
// of a cgroup): a process of our own beside us hears the second kind too. The command has heard it
// then, and must not get it twice.
#pragma once

#include <signal.h>
#include <sys/types.h>

namespace mfu::app {

class GroupEar {
 public:
  // Starts the process. Call before there are threads.
  explicit GroupEar(const sigset_t& signals);
  ~GroupEar();
  GroupEar(const GroupEar&) = delete;
  GroupEar& operator=(const GroupEar&) = delete;

  // Whether the others heard it as well. Waits a moment for the answer.
  bool heard(const siginfo_t& info);

 private:
  pid_t child_ = -1;
  int pipe_ = -1;
};

}  // namespace mfu::app
