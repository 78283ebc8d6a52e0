#include "progress.h"

#include <fmt/format.h>
#include "sinks/table.h"

#include <algorithm>
#include <cstdio>

#include "terminal.h"

namespace mfu::app {

namespace {

constexpr auto kLineEvery = std::chrono::seconds(10);

}  // namespace

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)), terminal_(stderr_is_terminal()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(Fraction done, std::string_view what) {
  if (!terminal_) {
    // Lines in a log stay, so there are few of them, and none for quick work.
    auto now = std::chrono::steady_clock::now();
    if (now - last_ < kLineEvery) return;
    last_ = now;
    std::fputs(fmt::format("{}: {}\n", title_, terminal_text(what, {})).c_str(), stderr);
    return;
  }
  constexpr int kWidth = 24;
  int filled = std::clamp(static_cast<int>(done.value * kWidth), 0, kWidth);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  std::fputs(fmt::format("\r\x1b[K{} {} {:3.0f}%  {}", title_, bar, done.value * 100,
                         terminal_text(what, {}))
                 .c_str(),
             stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace mfu::app
