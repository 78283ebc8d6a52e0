// Who wrote a tensor's memory: an operator of the dispatcher, or somebody past it. A function that
// returns memory which no operator wrote had it computed elsewhere. Watched on one thread, for as
// long as one function runs; it costs nothing else.
#pragma once

#include <cstdint>

namespace mfu::observer {

// `change` is +1 where a function begins and -1 where it ends; nested functions are part of it.
void watch_writes(int change) noexcept;

// Of a storage (c10::StorageImpl), in the watched time of this thread.
enum class Writer : int {
  not_seen = 0,   // no operator made it
  an_operator,    // at least one operator wrote to it
  nobody,         // an operator allocated it, and none wrote to it
  only_constant,  // it was only filled with a constant
};
Writer writer_of(std::uint64_t storage) noexcept;
// Whether an operator read memory that nobody had written.
bool read_unwritten() noexcept;

}  // namespace mfu::observer
