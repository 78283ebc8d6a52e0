#include <algorithm>
#include <bit>

#include "trace/link.h"

namespace mfu {

void IdIndex::prepare() {
  std::uint64_t count = 0;
  for (std::int64_t id : ids_) {
    if (id == kNoId) continue;
    lowest_ = count == 0 ? id : std::min(lowest_, id);
    highest_ = count == 0 ? id : std::max(highest_, id);
    ++count;
  }
  if (count == 0) return;
  std::uint64_t range = static_cast<std::uint64_t>(highest_) - static_cast<std::uint64_t>(lowest_);
  dense_ = range < 8 * count + 1024;
  paged_ = !dense_ && number_pages(8 * count / kPage);
  slots_.resize(dense_   ? range + 1
                : paged_ ? pages_.size() * kPage
                         : std::bit_ceil(2 * count),
                kNone);
}

// Numbers the pages that the ids are on. False if there are more than `most`.
bool IdIndex::number_pages(std::uint64_t most) {
  std::int64_t last = 0;
  for (std::int64_t id : ids_) {
    if (id == kNoId || (!pages_.empty() && (id >> kPageBits) == last)) continue;
    last = id >> kPageBits;
    pages_.try_emplace(last, pages_.size() * kPage);
    if (pages_.size() > most) {
      pages_.clear();
      return false;
    }
  }
  return true;
}

std::size_t IdIndex::page_of(std::int64_t id) const {
  std::int64_t page = id >> kPageBits;
  if (page == last_page_ && last_place_ != kNowhere) return last_place_;
  auto found = pages_.find(page);
  last_page_ = page;
  return last_place_ = found == pages_.end() ? kNowhere : found->second;
}

std::size_t IdIndex::slot_of(std::int64_t id) const {
  if (dense_) return static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(lowest_);
  if (paged_) return page_of(id) + static_cast<std::size_t>(id & (kPage - 1));
  std::uint64_t hash = static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15;
  std::size_t mask = slots_.size() - 1;
  std::size_t slot = (hash ^ hash >> 32) & mask;
  while (slots_[slot] != kNone && ids_[slots_[slot]] != id) slot = (slot + 1) & mask;
  return slot;
}

void IdIndex::add(std::uint32_t row) {
  if (ids_[row] == kNoId) return;
  std::size_t slot = slot_of(ids_[row]);
  if (slots_[slot] == kNone) slots_[slot] = row;
}

std::uint32_t IdIndex::find(std::int64_t id) const {
  if (id == kNoId || slots_.empty() || id < lowest_ || id > highest_) return kNone;
  if (paged_ && page_of(id) == kNowhere) return kNone;
  return slots_[slot_of(id)];
}

}  // namespace mfu
