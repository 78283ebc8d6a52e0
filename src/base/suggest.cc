#include "mfu/suggest.h"

#include <algorithm>

#include "base/text.h"

namespace mfu {

// Optimal string alignment; names are short, so the full table is fine. Longer ones are cut: nobody
// mistypes a page, and the table stays bounded.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  constexpr std::size_t kLongest = 128;
  from = from.substr(0, kLongest);
  to = to.substr(0, kLongest);
  std::vector<std::vector<std::size_t>> table(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) table[i][0] = i;
  for (std::size_t j = 0; j <= to.size(); ++j) table[0][j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t change = from[i - 1] == to[j - 1] ? 0 : 1;
      table[i][j] =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[from.size()][to.size()];
}

std::vector<std::string> closest(std::string_view name, const std::vector<std::string>& candidates,
                                 std::size_t most) {
  std::string wanted = to_lower(name);
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(wanted, to_lower(candidate));
    std::size_t limit = std::max<std::size_t>(1, std::max(wanted.size(), candidate.size()) / 3);
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
