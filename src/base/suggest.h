// "Did you mean …": the names nearest to a mistyped one.
//
//   mfu::closest("paek", {"peak", "plan"}, 3);  // {"peak"}
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// The smallest number of single-letter insertions, deletions, substitutions and swaps of neighbours
// that turns one into the other.
std::size_t edit_distance(std::string_view from, std::string_view to);

// At most `most` candidates, the nearest first. None differs by more than a third of its length.
std::vector<std::string> closest(std::string_view name, const std::vector<std::string>& candidates,
                                 std::size_t most);

}  // namespace mfu
