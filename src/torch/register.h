// Decides which operators are watched. The most used ones have their own kernels (kernels_*.cc).
// Every other operator of the table, and whatever looks like a matrix multiply, gets the boxed
// kernel, also if its library is loaded later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "torch/thread.h"

namespace torch {
class Library;
}

namespace mfu::observer {

// Operators that have their own kernel, by the name in their schema: "mm", "mm.out".
using Taken = std::vector<std::string>;

void register_matmuls(torch::Library& aten, Taken& taken);
void register_rest(torch::Library& aten, Taken& taken);

// Registers all kernels, once. Throws what torch throws.
void register_kernels();
// Registers operators that were defined since. No lock of torch may be held.
void register_pending() noexcept;

// An operator that was not watched before now has a formula. All its overloads are watched.
void watch_operator(const std::string& name) noexcept;

// A compiled graph calls this operator ("vllm::attention") by its name. What runs inside the
// operator is counted by the dispatcher; the rest of the graph is counted by its description. False
// if its calls are not seen.
bool open_operator(const std::string& name) noexcept;

// While this object exists in such an operator, the thread counts as it does outside of the graph.
class Opening {
 public:
  Opening(Thread& thread, bool wanted)
      : thread_(thread), opens_(wanted && thread.opened && thread.quiet == 1) {
    if (opens_) set(0, false);
  }
  ~Opening() {
    if (opens_) set(1, true);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  void set(std::uint32_t quiet, bool opened) {
    thread_.quiet = quiet;
    thread_.opened = opened;
  }
  Thread& thread_;
  bool opens_;
};

// For a forked child: its parent may have held the locks.
void reset_locks() noexcept;

// The slow check of `mode`. True if counting is on.
bool refresh_mode() noexcept;

}  // namespace mfu::observer
