#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace mfu {

namespace {

using Deadline = std::chrono::steady_clock::time_point;
constexpr std::size_t kMostOutput = 4u << 20;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      read_end = ends[0];
      write_end = ends[1];
    }
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

void write_fully(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Reads to the end of the stream. False if the deadline came first.
bool read_until(int file, Deadline deadline, std::string& output,
                const std::function<void(std::string_view)>& on_line) {
  std::size_t line_start = 0;
  char block[4096];
  while (true) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    // Read what has already arrived even after the deadline: other processes may have taken the
    // time.
    pollfd waiting = {file, POLLIN, 0};
    int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 1'000'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    ssize_t count = ::read(file, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (output.size() + static_cast<std::size_t>(count) > kMostOutput) return true;
    output.append(block, static_cast<std::size_t>(count));
    for (std::size_t end; on_line && (end = output.find('\n', line_start)) != std::string::npos;) {
      on_line(std::string_view(output).substr(line_start, end - line_start));
      line_start = end + 1;
    }
  }
}

// Waits for the child, which has closed its pipe. Kills it at the deadline.
void reap(pid_t child, Deadline deadline, ProcessEnd& end) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      end.kind = ProcessEnd::Kind::timed_out;
      return;
    }
    ::usleep(500);
  }
  bool exited = WIFEXITED(status);
  end.kind = exited ? ProcessEnd::Kind::exited : ProcessEnd::Kind::signalled;
  end.number = exited ? WEXITSTATUS(status) : WTERMSIG(status);
}

void redirect_to_null(int file, int mode) {
  int null = ::open("/dev/null", mode);
  if (null >= 0) ::dup2(null, file);
}

}  // namespace

std::string ProcessEnd::describe() const {
  switch (kind) {
    case Kind::exited:
      return fmt::format("ended with status {}", number);
    case Kind::signalled:
      return fmt::format("crashed ({})", ::strsignal(number));
    case Kind::timed_out:
      return "gave no answer in time and was stopped";
    case Kind::not_started:
      return "could not be started";
  }
  return {};
}

IsolatedWork::IsolatedWork(const std::function<std::string()>& work,
                           std::chrono::milliseconds patience)
    : deadline_(std::chrono::steady_clock::now() + patience) {
  Pipe pipe;
  if (pipe.read_end < 0) return;
  child_ = ::fork();
  if (child_ == 0) {
    // The library that we ask may print; drop that. Use default signals, so that a crash ends it.
    redirect_to_null(STDOUT_FILENO, O_WRONLY);
    redirect_to_null(STDERR_FILENO, O_WRONLY);
    for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE}) ::signal(number, SIG_DFL);
    write_fully(pipe.write_end, work());
    ::_exit(0);
  }
  if (child_ > 0) read_end_ = std::exchange(pipe.read_end, -1);
}

IsolatedWork::~IsolatedWork() {
  if (child_ > 0) finish();
}

ProcessEnd IsolatedWork::finish() {
  ProcessEnd end;
  if (child_ <= 0) return end;
  if (!read_until(read_end_, deadline_, end.output, {})) deadline_ = {};
  Pipe::close_end(read_end_);
  reap(std::exchange(child_, -1), deadline_, end);
  return end;
}

ProcessEnd run_command(const std::vector<std::string>& arguments, std::string_view input,
                       std::chrono::milliseconds patience,
                       const std::function<void(std::string_view)>& on_line) {
  ProcessEnd end;
  Pipe out;
  Pipe in;
  Deadline deadline = std::chrono::steady_clock::now() + patience;
  if (out.read_end < 0 || in.read_end < 0 || arguments.empty()) return end;
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  pid_t child = ::fork();
  if (child < 0) return end;
  if (child == 0) {
    ::dup2(in.read_end, STDIN_FILENO);
    ::dup2(out.write_end, STDOUT_FILENO);
    redirect_to_null(STDERR_FILENO, O_WRONLY);
    ::execvp(raw[0], raw.data());
    ::_exit(127);
  }
  Pipe::close_end(out.write_end);
  Pipe::close_end(in.read_end);
  // A script is far smaller than the pipe's buffer, so this does not wait for the child.
  auto before = ::signal(SIGPIPE, SIG_IGN);
  write_fully(in.write_end, input);
  ::signal(SIGPIPE, before);
  Pipe::close_end(in.write_end);
  if (!read_until(out.read_end, deadline, end.output, on_line)) deadline = {};
  reap(child, deadline, end);
  if (end.kind == ProcessEnd::Kind::exited && end.number == 127) {
    end.kind = ProcessEnd::Kind::not_started;
  }
  return end;
}

}  // namespace mfu
