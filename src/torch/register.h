// Which operators are watched. The hot ones have kernels of their own (kernels_*.cc); every other
// one of the table, and whatever looks as if it multiplied matrices, gets the boxed one, also when
// its library comes later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch {
class Library;
}

namespace mfu::observer {

// An operator with a kernel of its own, by its schema's name: "mm", "mm.out".
using Taken = std::vector<std::string>;

void register_matmuls(torch::Library& aten, Taken& taken);
void register_rest(torch::Library& aten, Taken& taken);

// All kernels, once. Throws what torch throws.
void register_kernels();
// Operators that were defined since, if there are any; called where no lock of torch is held.
void register_pending() noexcept;

// An operator that was not wanted before, in all its overloads: it has a formula now.
void watch_operator(const std::string& name) noexcept;

// In a forked child, whose parent may have held them.
void reset_locks() noexcept;

// The slow look at `mode`: true where counting is on.
bool refresh_mode() noexcept;

}  // namespace mfu::observer
