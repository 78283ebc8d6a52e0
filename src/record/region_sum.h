// Adds up the blocks of a region. The region may come from a damaged file: every index is checked.
#pragma once

#include <cstdint>
#include <vector>

#include "mfu/units.h"
#include "record/region.h"

namespace mfu {

struct CellSum {
  unsigned operator_id = 0, type_id = 0;
  std::uint64_t calls = 0;
  Uint128 hardware_flop = 0, model_flop = 0, recomputed_flop = 0;
  std::uint64_t bytes = 0;
};

// Every pair (operator, type) that was called. It is exact for threads at rest. For a thread that
// is counting, a call may be in one field but not yet in another.
std::vector<CellSum> sum_cells(const Region& region);

// The same by data type alone, into `sums` (kRegionTypes of them), without an allocation.
struct TypeSum {
  Uint128 hardware_flop = 0, model_flop = 0, recomputed_flop = 0;
};
void sum_types(const Region& region, TypeSum* sums);

// A sum from its two halves. Its writer makes `carries` odd while it writes a carry.
Uint128 wide_sum(const RegionWord& carries, const RegionWord& low, const RegionWord& high);

}  // namespace mfu
