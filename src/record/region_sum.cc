#include "record/region_sum.h"

#include <algorithm>

namespace mfu {

namespace {

// A carry takes two stores, so a few tries are enough. If a process was killed during one, the mark
// stays odd; then the sum is taken as it is.
constexpr int kTries = 64;

Uint128 wide(const RegionBlock& block, const RegionWord& low, const RegionWord& high) {
  return wide_sum(block.carries, low, high);
}

// Calls `visit(block, cell)` for all used blocks of the cell, including the shared one.
template <typename Visit>
void visit_blocks(const Region& region, std::size_t cell, const Visit& visit) {
  std::size_t used =
      std::min<std::size_t>(region.header.blocks.load(std::memory_order_acquire), kRegionBlocks);
  for (std::size_t i = 0; i < used; ++i) visit(region.blocks[i], region.blocks[i].cells[cell]);
  visit(region.blocks[kRegionBlocks], region.blocks[kRegionBlocks].cells[cell]);
}

// Gives operator and type of a cell. False if it is unused, or nonsense in a damaged file.
bool key_of(const Region& region, std::size_t cell, unsigned& operator_id, unsigned& type_id) {
  std::uint32_t key = region.keys[cell].load(std::memory_order_acquire);
  if (key == 0) return false;
  operator_id = (key - 1) >> 8;
  type_id = (key - 1) & 0xFF;
  return operator_id < kRegionOperators && type_id < kRegionTypes;
}

}  // namespace

Uint128 wide_sum(const RegionWord& carries, const RegionWord& low, const RegionWord& high) {
  Uint128 value = 0;
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t before = carries.load(std::memory_order_acquire);
    std::uint64_t low_half = low.load(std::memory_order_acquire);
    std::uint64_t high_half = high.load(std::memory_order_acquire);
    value = (static_cast<Uint128>(high_half) << 64) | low_half;
    if (before % 2 == 0 && carries.load(std::memory_order_relaxed) == before) break;
  }
  return value;
}

std::vector<CellSum> sum_cells(const Region& region) {
  std::vector<CellSum> sums;
  for (std::size_t i = 0; i < kRegionCells; ++i) {
    CellSum sum;
    if (!key_of(region, i, sum.operator_id, sum.type_id)) continue;
    visit_blocks(region, i, [&](const RegionBlock& block, const RegionCell& cell) {
      sum.calls += cell.calls.load(std::memory_order_relaxed);
      sum.bytes += cell.bytes.load(std::memory_order_relaxed);
      sum.hardware_flop += wide(block, cell.hardware_low, cell.hardware_high);
      sum.model_flop += wide(block, cell.model_low, cell.model_high);
      sum.recomputed_flop += wide(block, cell.recomputed_low, cell.recomputed_high);
    });
    if (sum.calls != 0) sums.push_back(sum);
  }
  return sums;
}

void sum_types(const Region& region, TypeSum* sums) {
  std::fill(sums, sums + kRegionTypes, TypeSum{});
  for (std::size_t i = 0; i < kRegionCells; ++i) {
    unsigned operator_id = 0, type_id = 0;
    if (!key_of(region, i, operator_id, type_id)) continue;
    TypeSum& sum = sums[type_id];
    visit_blocks(region, i, [&](const RegionBlock& block, const RegionCell& cell) {
      sum.hardware_flop += wide(block, cell.hardware_low, cell.hardware_high);
      sum.model_flop += wide(block, cell.model_low, cell.model_high);
      sum.recomputed_flop += wide(block, cell.recomputed_low, cell.recomputed_high);
    });
  }
}

}  // namespace mfu
