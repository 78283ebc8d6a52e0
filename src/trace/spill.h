// The memory that the columns of one trace share.
#pragma once

#include <atomic>
#include <cstdint>

#include "trace/column.h"

namespace mfu {

struct Spill {
  explicit Spill(std::uint64_t budget) : budget_bytes(budget) {}
  std::uint64_t budget_bytes;
  std::atomic<std::uint64_t> in_memory_bytes{0};
  std::atomic<bool> spilled{false};
};

}  // namespace mfu
