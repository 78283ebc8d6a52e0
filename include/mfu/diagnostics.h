// Where the library puts what is worth a warning. The library never prints: apps and python do,
// from here.
//
//   mfu::Diagnostics diagnostics;
//   auto machine = mfu::detect_machine(diagnostics);
//   for (const std::string& line : diagnostics.warnings()) std::cerr << line << '\n';
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace mfu {

class Diagnostics {
 public:
  // Keeps the first of equal warnings.
  void warn(std::string message) {
    if (std::find(warnings_.begin(), warnings_.end(), message) == warnings_.end()) {
      warnings_.push_back(std::move(message));
    }
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::string> warnings_;
};

}  // namespace mfu
