// The words that people read, made of what the library found. Text, JSON and pages share them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {

// Notes, and what is worth saying of the peak: nothing where it is the type's own and sure.
std::vector<Note> with_peak(std::vector<Note> notes, const ChosenPeak& peak);

std::vector<std::string> all_words(const std::vector<Note>& notes,
                                   Voice voice = Voice::command_line);

// A line of the ledger, as people read it.
std::string_view label_of(LedgerLine line);

// Why an operator's rate is above the peak, as a code: a convolution's algorithm may multiply less
// than is counted; anything else contradicts the peak. Empty where it is not above.
std::string_view above_peak(const OperatorLine& line);

// "findings" with code, cause, values and words; "notes" with words, "note_codes" with codes and
// values (or "assumptions" and "assumption_codes").
void write_findings(JsonWriter& json, std::string_view key, const std::vector<Finding>& findings,
                    Voice voice);
void write_notes(JsonWriter& json, const std::vector<Note>& notes, Voice voice,
                 std::string_view kind = "note");

}  // namespace mfu
