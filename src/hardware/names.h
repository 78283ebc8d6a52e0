// How device names are compared: in a folded form, word by word, never by substring.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"

namespace mfu {

// Converts to lower case and punctuation to single blanks. '.' and '+' stay (1g.10gb, Max+).
std::string folded(std::string_view name);

// The device's own name and its aliases in folded form.
std::vector<std::string> names_of(const Device& device);

// The words that tell which device it is, without its maker and without what every device is
// called. "AMD Radeon Graphics" has none.
std::vector<std::string> model_words(std::string_view name);

bool share_a_name(const Device& a, const Device& b);

}  // namespace mfu
