#include "group_ear.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mfu::app {

namespace {

struct Heard {
  int number = 0;
  pid_t sender = 0;
};

constexpr int kPatienceMs = 100;

[[noreturn]] void listen(int pipe, const sigset_t& signals, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "mfu-signals");
  if (getppid() != parent) _exit(0);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  while (true) {
    siginfo_t info = {};
    if (sigwaitinfo(&signals, &info) <= 0 || info.si_signo == SIGCHLD) continue;
    Heard heard{info.si_signo, info.si_pid};
    if (write(pipe, &heard, sizeof heard) != sizeof heard) _exit(0);
  }
}

}  // namespace

GroupEar::GroupEar(const sigset_t& signals) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_t self = getpid();
  child_ = fork();
  if (child_ == 0) {
    // Otherwise a reader of our output would wait for this process to end as well.
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    listen(ends[1], signals, self);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

GroupEar::~GroupEar() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  if (pipe_ >= 0) close(pipe_);
}

bool GroupEar::heard(const siginfo_t& info) {
  if (child_ <= 0) return false;
  pollfd ready{pipe_, POLLIN, 0};
  while (poll(&ready, 1, kPatienceMs) > 0) {
    Heard heard;
    if (read(pipe_, &heard, sizeof heard) != sizeof heard) return false;
    if (heard.number == info.si_signo && heard.sender == info.si_pid) return true;
  }
  return false;
}

}  // namespace mfu::app
