// Decides which operators are watched. The most used ones have their own kernels (kernels_*.cc).
// Every other operator of the table, and whatever looks like a matrix multiply, gets the boxed
// kernel, also if its library is loaded later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

// For a forked child: its parent may have held the locks.
void reset_locks() noexcept;

// The slow check of `mode`. True if counting is on.
bool refresh_mode() noexcept;

}  // namespace mfu::observer
