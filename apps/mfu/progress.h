// Progress on standard error: a bar on a terminal, a line a stage elsewhere, nothing for what is
// quick.
#pragma once

#include <mfu/units.h>

#include <chrono>
#include <string>
#include <string_view>

namespace mfu::app {

class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // leaves the line clean
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(Fraction done, std::string_view what);

 private:
  std::string title_;
  std::string last_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace mfu::app
