// Makes the words that people read from what the library found. Text, JSON and pages share them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {

// Adds what is worth saying about the peak. Nothing is added if it is the peak of the type itself
// and certain.
std::vector<Note> with_peak(std::vector<Note> notes, const ChosenPeak& peak);

std::vector<std::string> all_words(const std::vector<Note>& notes,
                                   Voice voice = Voice::command_line);

// The same in short, for people. If more than three notes have the same code, it has only the first
// of them, with their number.
std::vector<std::string> few_words(const std::vector<Note>& notes);

// How people read a line of the ledger.
std::string_view label_of(LedgerLine line);

// The reason, as a code, why an operator's rate is above the peak: the algorithm of a convolution
// may multiply less than is counted. For anything else it is a contradiction. Empty if the rate is
// not above the peak.
std::string_view above_peak(const OperatorLine& line);

// Writes "findings" with code, cause, values and words, and "notes" with words and "note_codes"
// with codes and values (or "assumptions" and "assumption_codes").
void write_findings(JsonWriter& json, std::string_view key, const std::vector<Finding>& findings,
                    Voice voice);
void write_notes(JsonWriter& json, const std::vector<Note>& notes, Voice voice,
                 std::string_view kind = "note");

}  // namespace mfu
