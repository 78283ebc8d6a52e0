#include "status_row.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "sinks/table.h"

namespace mfu::app {

namespace {

using std::chrono::steady_clock;

constexpr unsigned short kFewestRows = 4, kFewestColumns = 20;

// ESC 7 and ESC 8 save and restore the cursor, because setting the scroll region moves it.
constexpr std::string_view kWholeRegion = "\0337\033[r\0338";

// In the whole region: if the cursor is in the last row, this scrolls by one row and keeps the
// cursor in its line. Elsewhere it changes nothing. Afterwards there is a row below the cursor.
constexpr std::string_view kFreeRow = "\033D\033[1A";

// Erases what is below the cursor's row. A resized terminal may have moved our line anywhere there.
constexpr std::string_view kEraseBelow = "\0337\033[1B\r\033[0m\033[J\0338";

// Goes to the last row, wherever it is, and erases it.
constexpr std::string_view kLastRow = "\033[9999;1H\033[0m\033[2K";

// A terminal that is being dragged tells its size late: tmux at most every 250 ms. During that time
// we draw only when we are told of a size.
constexpr auto kSettling = std::chrono::milliseconds(400);

// The escape codes that give the terminal back. They are kept ready because a signal handler may
// not make text. The second ones are for a window whose size has changed since we drew.
struct Restore {
  std::array<char, 64> same, resized;
  std::size_t same_size = 0, resized_size = 0;
  std::atomic<std::uint32_t> window = 0;  // what size_of() said when we drew; 0: nothing drawn
} restoring;

void put(std::string_view text) {
  // One write call, so that the program's output cannot fall in between. If the terminal is gone,
  // the error does not matter.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

winsize window() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

std::uint32_t size_of(const winsize& window) {
  return std::uint32_t{window.ws_row} << 16 | window.ws_col;
}

// Signal handlers call it too.
void restore() {
  std::uint32_t drawn = restoring.window.exchange(0);
  if (drawn == 0) return;
  if (drawn == size_of(window())) {
    put({restoring.same.data(), restoring.same_size});
  } else {
    put({restoring.resized.data(), restoring.resized_size});
  }
}

template <std::size_t N>
std::size_t keep(std::array<char, N>& place, std::string_view text) {
  return text.copy(place.data(), N);
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

// Whether this signal would end the process. Launch has blocked the usual ones and handles them.
bool would_end_us(int number) {
  for (int harmless :
       {SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG, SIGWINCH}) {
    if (number == harmless) return false;
  }
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

void arrange_for_crashes() {
  static const bool kArranged = [] {
    std::atexit(restore);
    for (int number = 1; number <= SIGRTMAX; ++number) {
      if (number != SIGABRT && !would_end_us(number)) continue;
      struct sigaction action = {};
      action.sa_handler = on_crash;
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      ::sigaction(number, &action, number == SIGABRT ? &abort_before : nullptr);
    }
    return true;
  }();
  static_cast<void>(kArranged);
}

// Whether a program reads the terminal key by key. Such a program draws on the screen itself.
bool read_by_key() {
  termios mode = {};
  return ::tcgetattr(STDERR_FILENO, &mode) == 0 && (mode.c_lflag & ICANON) == 0;
}

bool in_foreground() {
  return ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

std::string region(unsigned short rows) {
  return fmt::format("\0337\033[1;{}r\0338", rows);
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
  if (rows_ == 0 || steady_clock::now() - resized_ >= kSettling) draw();
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

void StatusRow::pause() {
  std::lock_guard lock(mutex_);
  paused_ = true;
  release(true);
}

void StatusRow::resume() {
  std::lock_guard lock(mutex_);
  paused_ = false;
}

void StatusRow::draw() {
  if (!able_ || paused_ || !in_foreground()) return;
  if (read_by_key()) {
    release(false);  // the row belongs to the other program: only undo the scroll region
    return;
  }
  winsize now = window();
  if (now.ws_row < kFewestRows || now.ws_col < kFewestColumns) {
    release(true);
    return;
  }
  // Do all of it each time, because the program may have reset the terminal. The cursor must be
  // inside the region, or the program's lines would overwrite each other in the last row.
  std::string out = fmt::format("{}{}", kWholeRegion, kFreeRow);
  if (rows_ != 0 && (rows_ != now.ws_row || columns_ != now.ws_col)) {
    out += kEraseBelow;
    resized_ = steady_clock::now();
  }
  rows_ = now.ws_row;
  columns_ = now.ws_col;
  out += region(static_cast<unsigned short>(rows_ - 1));
  // Without automatic wrapping (?7): a terminal that is already narrower than it has told us would
  // wrap our line and scroll.
  out += fmt::format("\0337{}\033[?7l{}\033[?7h\0338", kLastRow,
                     cut(text_, static_cast<std::size_t>(columns_) - 1));
  restoring.window = 0;
  restoring.same_size = keep(restoring.same, fmt::format("\0337{}\033[r\0338", kLastRow));
  restoring.resized_size =
      keep(restoring.resized, fmt::format("{}{}{}", kWholeRegion, kFreeRow, kEraseBelow));
  restoring.window = size_of(now);
  put(out);
}

void StatusRow::release(bool erase) {
  if (rows_ == 0) return;
  rows_ = columns_ = 0;
  if (erase) {
    restore();
  } else {
    restoring.window = 0;
    put(kWholeRegion);
  }
}

}  // namespace mfu::app
