// How device names are compared: folded, word by word, never by substring.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"

namespace mfu {

// Lower case, punctuation to single blanks; '.' and '+' stay (1g.10gb, Max+).
std::string folded(std::string_view name);

// The device's own name and its aliases, folded.
std::vector<std::string> names_of(const Device& device);

// The words that tell which device it is, without its maker and what every device is called: none
// of "AMD Radeon Graphics".
std::vector<std::string> model_words(std::string_view name);

bool share_a_name(const Device& a, const Device& b);

}  // namespace mfu
