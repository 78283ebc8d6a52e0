#include "status_row.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "sinks/table.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mfu::app {

namespace {

constexpr unsigned short kFewestRows = 4, kFewestColumns = 20;

// The escape codes that give the terminal back. They are kept ready because a signal handler may
// not make text. Size 0 means that there is nothing to give back.
char restore_text[64];
std::atomic<std::size_t> restore_size = 0;

void put(std::string_view text) {
  // One write call, so that the program's output cannot fall in between. If the terminal is gone,
  // the error does not matter.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void restore() {
  std::size_t size = restore_size.exchange(0);
  if (size > 0) put({restore_text, size});
}

struct sigaction abort_before = {};  // the handler of main(), which reports a bug in mfu

void on_crash(int number) {
  restore();
  if (number == SIGABRT)
    ::sigaction(number, &abort_before, nullptr);
  else
    ::signal(number, SIG_DFL);
  ::raise(number);
}

void arrange_for_crashes() {
  static const bool kArranged = [] {
    std::atexit(restore);
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
      struct sigaction action = {};
      action.sa_handler = on_crash;
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      ::sigaction(number, &action, number == SIGABRT ? &abort_before : nullptr);
    }
    return true;
  }();
  static_cast<void>(kArranged);
}

winsize window() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

// Whether a program reads the terminal key by key. Such a program draws on the screen itself.
bool read_by_key() {
  termios mode = {};
  return ::tcgetattr(STDERR_FILENO, &mode) == 0 && (mode.c_lflag & ICANON) == 0;
}

bool in_foreground() {
  return ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

// ESC 7 and ESC 8 save and restore the cursor, because setting the scroll region moves it.
std::string region(unsigned short rows) {
  return fmt::format("\0337\033[1;{}r\0338", rows);
}

std::string erased_row(unsigned short row) {
  return fmt::format("\0337\033[{};1H\033[2K\0338", row);
}

// The first `columns` characters.
std::string_view cut(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  while (at < text.size()) {
    bool starts = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (starts && columns-- == 0) break;
    ++at;
  }
  return text.substr(0, at);
}

}  // namespace

StatusRow::StatusRow() {
  const char* term = std::getenv("TERM");
  able_ = ::isatty(STDERR_FILENO) == 1 && term != nullptr && *term != 0 &&
          std::strcmp(term, "dumb") != 0;
  if (able_) arrange_for_crashes();
}

StatusRow::~StatusRow() {
  clear();
}

void StatusRow::show(const std::string& text) {
  std::lock_guard lock(mutex_);
  text_ = terminal_text(text, {});
  draw();
}

void StatusRow::refresh() {
  std::lock_guard lock(mutex_);
  if (rows_ == 0) return;
  winsize now = window();
  if (now.ws_row != rows_ || now.ws_col != columns_ || read_by_key()) draw();
}

void StatusRow::clear() {
  std::lock_guard lock(mutex_);
  release(true);
}

void StatusRow::draw() {
  if (!able_ || !in_foreground()) return;
  if (read_by_key()) {
    release(false);  // the row belongs to the other program: only undo the scroll region
    return;
  }
  winsize now = window();
  if (now.ws_row < kFewestRows || now.ws_col < kFewestColumns) {
    release(true);
    return;
  }
  std::string out;
  if (rows_ == 0) {
    out += "\033D\033[1A";  // makes a free row below and keeps the cursor in its column
  } else if (rows_ != now.ws_row && rows_ < now.ws_row) {
    out += erased_row(rows_);  // the row of our line before the window grew
  }
  rows_ = now.ws_row;
  columns_ = now.ws_col;
  // Set it each time, because the program may have cleared the screen or reset the terminal.
  out += region(static_cast<unsigned short>(rows_ - 1));
  out += fmt::format("\0337\033[{};1H\033[0m\033[2K{}\0338", rows_,
                     cut(text_, static_cast<std::size_t>(columns_) - 1));
  std::string back = erased_row(rows_) + "\0337\033[r\0338";
  restore_size = 0;
  std::memcpy(restore_text, back.data(), std::min(back.size(), sizeof restore_text));
  restore_size = std::min(back.size(), sizeof restore_text);
  put(out);
}

void StatusRow::release(bool erase) {
  if (rows_ == 0) return;
  rows_ = columns_ = 0;
  if (erase) {
    restore();
  } else {
    restore_size = 0;
    put("\0337\033[r\0338");
  }
}

}  // namespace mfu::app
