#include "base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace mfu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Process, isolated_work_hands_over_its_text) {
  ProcessEnd end = IsolatedWork([] { return std::string(200000, 'x'); }, seconds(20)).finish();
  EXPECT_TRUE(end.good());
  EXPECT_EQ(end.output.size(), 200000u);
}

TEST(Process, a_crash_in_there_stays_in_there) {
  IsolatedWork work(
      []() -> std::string {
        ::kill(::getpid(), SIGKILL);
        return "";
      },
      seconds(20));
  ProcessEnd end = work.finish();
  EXPECT_EQ(end.kind, ProcessEnd::Kind::signalled);
  EXPECT_EQ(end.number, SIGKILL);
}

TEST(Process, a_hang_is_ended) {
  IsolatedWork work(
      []() -> std::string {
        for (;;) ::pause();
      },
      milliseconds(50));
  ProcessEnd end = work.finish();
  EXPECT_EQ(end.kind, ProcessEnd::Kind::timed_out);
}

TEST(Process, a_command_gets_input_and_gives_lines) {
  std::vector<std::string> lines;
  ProcessEnd end = run_command({"cat"}, "a\nb\n", seconds(20),
                               [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_TRUE(end.good());
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run_command({"no-such-command-here"}, "", seconds(20)).kind,
            ProcessEnd::Kind::not_started);
}

}  // namespace
}  // namespace mfu
