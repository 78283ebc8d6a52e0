#include "base/fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mfu {
namespace {

int status_of_child(int (*work)(int), int given) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(work(given));
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, a_child_knows_that_it_is_one_and_lacks_what_is_its_parents) {
  int mine = ::open("/dev/null", O_RDONLY), shared = ::open("/dev/null", O_RDONLY);
  close_in_children(mine);
  close_in_children(shared);
  forget_descriptor(shared);
  unsigned before = forks();
  EXPECT_EQ(status_of_child([](int fd) { return ::fcntl(fd, F_GETFD) < 0 ? 1 : 0; }, mine), 1);
  EXPECT_EQ(status_of_child([](int fd) { return ::fcntl(fd, F_GETFD) < 0 ? 1 : 0; }, shared), 0);
  EXPECT_EQ(status_of_child([](int) { return static_cast<int>(forks()); }, 0),
            static_cast<int>(before + 1));
  EXPECT_EQ(forks(), before);
  EXPECT_GE(::fcntl(mine, F_GETFD), 0);
  forget_descriptor(mine);
  ::close(mine);
  ::close(shared);
}

TEST(Fork, a_quiet_thread_takes_no_signals) {
  sigset_t blocked;
  quiet_thread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); }).join();
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGPROF), 1);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
}

}  // namespace
}  // namespace mfu
