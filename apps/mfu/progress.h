// Shows progress on standard error: a bar on a terminal, elsewhere one line every ten seconds.
#pragma once

#include <mfu/units.h>

#include <chrono>
#include <string>
#include <string_view>

namespace mfu::app {

class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(Fraction done, std::string_view what);

 private:
  std::string title_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace mfu::app
