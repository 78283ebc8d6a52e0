// Every sentence that a person reads of findings and notes, by kind and code, with places for the
// values that words.cc fills in.
#pragma once

#include <span>
#include <string_view>

namespace mfu {

struct Sentence {
  std::string_view kind, code, text;
};
std::span<const Sentence> note_sentences();  // of notes; the others are in sentences.cc

// Kinds: title, evidence, fix, note, suspect, of; option and python, as each voice names options.
// Empty where there is none.
std::string_view sentence_of(std::string_view kind, std::string_view code);

}  // namespace mfu
