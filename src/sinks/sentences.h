// Every sentence that a person reads of findings and notes, by kind and code, with places for the
// values that words.cc fills in (sentences.txt).
#pragma once

#include <string_view>

namespace mfu {

// Empty where there is none.
std::string_view sentence_of(std::string_view kind, std::string_view code);

}  // namespace mfu
