#include "base/suggest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/text.h"

namespace mfu {

// Optimal string alignment. Names are short; longer ones are cut, so that the table stays bounded.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  constexpr std::size_t kLongest = 128;
  from = from.substr(0, kLongest);
  to = to.substr(0, kLongest);
  // Only the last two rows of the table are needed.
  std::array<std::array<std::size_t, kLongest + 1>, 3> rows{};
  for (std::size_t j = 0; j <= to.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    const auto& twice_above = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t change = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], twice_above[j - 2] + 1);
      }
    }
  }
  return rows[from.size() % 3][to.size()];
}

namespace {

std::uint64_t letters_of(std::string_view name) {
  std::uint64_t letters = 0;
  for (char c : name) letters |= std::uint64_t{1} << (static_cast<unsigned char>(c) % 64);
  return letters;
}

}  // namespace

std::vector<std::string> closest(std::string_view name, const std::vector<std::string>& candidates,
                                 std::size_t most) {
  std::string wanted = to_lower(name);
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& candidate : candidates) {
    std::size_t longer = std::max(wanted.size(), candidate.size());
    std::size_t limit = std::max<std::size_t>(1, longer / 3);
    if (longer - std::min(wanted.size(), candidate.size()) > limit) continue;
    std::string other = to_lower(candidate);
    // Each letter that only one of them has costs at least one edit. This rules out most candidates
    // without a table.
    std::uint64_t here = letters_of(wanted), there = letters_of(other);
    auto missing = static_cast<std::size_t>(
        std::max(std::popcount(here & ~there), std::popcount(there & ~here)));
    if (missing > limit) continue;
    std::size_t distance = edit_distance(wanted, other);
    if (distance <= limit) near.emplace_back(distance, &candidate);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : near) {
    if (names.size() == most) break;
    names.push_back(*candidate);
  }
  return names;
}

}  // namespace mfu
