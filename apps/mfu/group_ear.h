// Tells a signal that was sent to us alone from one that was sent to our whole process group or
// cgroup. A small process of our own, in the same group, receives only the second kind. The command
// has then received it too, and must not get it twice.
#pragma once

#include <signal.h>
#include <sys/types.h>

namespace mfu::app {

class GroupEar {
 public:
  // Starts the small process. Call it before there are threads.
  explicit GroupEar(const sigset_t& signals);
  ~GroupEar();
  GroupEar(const GroupEar&) = delete;
  GroupEar& operator=(const GroupEar&) = delete;

  // Whether the whole group received this signal. Waits up to 100 ms for the answer.
  bool heard(const siginfo_t& info);

 private:
  pid_t child_ = -1;
  int pipe_ = -1;
};

}  // namespace mfu::app
