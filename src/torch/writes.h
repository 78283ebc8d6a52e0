// Finds out whether operators of the dispatcher wrote a tensor's memory. If a function returns
// memory that no operator wrote, it was computed past the dispatcher. Writes are watched on one
// thread while one function runs, or one step whose gradients nobody saw being made. At other times
// this costs nothing.
#pragma once

#include <cstdint>

namespace mfu::observer {

// `change` is +1 where a watch begins and -1 where it ends; nested ones are part of it.
void watch_writes(int change) noexcept;

// What wrote a storage (c10::StorageImpl) while this thread was watched.
enum class Writer : int {
  not_seen = 0,   // no operator made it
  an_operator,    // at least one operator wrote to it
  nobody,         // an operator allocated it, and none wrote to it
  only_constant,  // it was only filled with a constant
  brought_in,     // an operator only moved numbers there that came from Python (numpy, lists)
};
Writer writer_of(std::uint64_t storage) noexcept;
// Whether an operator read memory that nobody had written, since the innermost watch began.
bool read_unwritten() noexcept;
// Whether somebody other than torch allocated it: numpy, or a library that passed it on through
// DLPack. If numpy() merely shares a tensor's memory, the memory is torch's own.
bool is_outside(std::uint64_t storage) noexcept;

}  // namespace mfu::observer
