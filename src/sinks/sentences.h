// Every sentence that a person reads about findings and notes, by kind and code (sentences.txt). It
// has places for the values, which words.cc fills in.
#pragma once

#include <string_view>

namespace mfu {

// Empty if there is no such sentence.
std::string_view sentence_of(std::string_view kind, std::string_view code);

}  // namespace mfu
