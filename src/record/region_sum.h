// The blocks of a region added up. Also for a region read from a file that may be damaged: every
// index in it is checked.
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

// Every pair (operator, type) that was called. Exact for threads at rest; of one that counts
// meanwhile, some call may be in one field and not yet in another.
std::vector<CellSum> sum_cells(const Region& region);

// The same by data type alone, into `sums` (kRegionTypes of them), without an allocation.
struct TypeSum {
  Uint128 hardware_flop = 0, model_flop = 0, recomputed_flop = 0;
};
void sum_types(const Region& region, TypeSum* sums);

// Both halves of a sum whose writer brackets a carry by `carries`.
Uint128 wide_sum(const RegionWord& carries, const RegionWord& low, const RegionWord& high);

}  // namespace mfu
