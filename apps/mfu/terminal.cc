#include "terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli.h"

namespace mfu::app {

namespace {

constexpr std::size_t kNarrowest = 40;
constexpr std::size_t kWidest = 160;
constexpr std::size_t kPiped = 100;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t width_of_output(int descriptor) {
  long columns = std::strtol(std::string(environment("COLUMNS")).c_str(), nullptr, 10);
  winsize size = {};
  if (columns <= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns <= 0) return kPiped;
  return std::clamp(static_cast<std::size_t>(columns), kNarrowest, kWidest);
}

bool wants_color(const std::string& color, int descriptor) {
  if (color == "always") return true;
  if (color == "never" || !environment("NO_COLOR").empty()) return false;
  if (!environment("CLICOLOR_FORCE").empty() && environment("CLICOLOR_FORCE") != "0") return true;
  return ::isatty(descriptor) == 1 && environment("TERM") != "dumb";
}

bool speaks_utf8(int descriptor) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string_view value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  }
  return ::isatty(descriptor) != 1;  // files are UTF-8, but a terminal without a locale may not be
}

// MFU_ASSERT, or the C++ library for an uncaught exception, has already printed what failed.
void on_abort(int) {
  constexpr std::string_view kTold =
      "mfu: this is a bug in mfu, not in your input. Please report it with the command you "
      "typed.\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, kTold.data(), kTold.size());
  ::_exit(kBug);
}

void on_interrupt(int number) {
  constexpr std::string_view kClear = "\r\x1b[K";
  if (::isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, kClear.data(), kClear.size());
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// A write beyond the limit of file sizes (ulimit -f) then fails like one to a full disk. The
// command of mfu run gets the signal as it was, because exec forgets handlers.
void on_file_too_large(int) {}

}  // namespace

TextStyle terminal_style(const std::string& color, int descriptor) {
  return {width_of_output(descriptor), wants_color(color, descriptor), speaks_utf8(descriptor)};
}

bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

void hold_standard_descriptors() {
  for (int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(each, F_GETFD) >= 0) continue;
    // A descriptor that we open gets the lowest free number, which is this one.
    [[maybe_unused]] int opened =
        ::open("/dev/null", (each == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
}

void set_signal_manners() {
  ::signal(SIGABRT, on_abort);
  struct sigaction action = {};
  ::sigaction(SIGXFSZ, nullptr, &action);
  if (action.sa_handler == SIG_DFL) ::signal(SIGXFSZ, on_file_too_large);
  ::sigaction(SIGINT, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;  // started in the background: keep ignoring it
  action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace mfu::app
