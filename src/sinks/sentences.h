// Every sentence that a person reads of findings and notes, by kind and code, with places for the
// values that words.cc fills in.
#pragma once

#include <string_view>

namespace mfu {

// Kinds: title, evidence, fix, note, suspect, of; option and python, as each voice names options.
// Empty where there is none.
std::string_view sentence_of(std::string_view kind, std::string_view code);

}  // namespace mfu
