#include "sinks/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sinks/sentences.h"

namespace mfu {

namespace {

const NoteValue* value_named(const NoteValues& values, std::string_view name) {
  auto found = std::find_if(values.begin(), values.end(),
                            [&](const auto& each) { return each.first == name; });
  return found == values.end() ? nullptr : &found->second;
}

std::string text_named(const NoteValues& values, std::string_view name) {
  const NoteValue* value = value_named(values, name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}

double number_of(const NoteValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&value);
  return number == nullptr ? 0 : *number;
}

std::string list_text(const std::vector<NotedItem>& items) {
  std::string list;
  for (const NotedItem& each : items) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", each.name,
                        duration_text(static_cast<double>(each.duration_ns)));
    if (each.calls > 0) list += fmt::format(" ({}×)", each.calls);
  }
  return list;
}

std::string shown(const NoteValue& value, std::string_view as) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* items = std::get_if<std::vector<NotedItem>>(&value)) return list_text(*items);
  double number = number_of(value);
  if (as == "time") return duration_text(number);
  if (as == "plain") return fmt::format("{:.3g}", number);
  if (as == "four_digits") return fmt::format("{:.4g}", number);
  if (as == "percent") return fmt::format("{:.1f}%", 100 * number);
  if (as == "whole_percent") return fmt::format("{:.0f}%", 100 * number);
  if (as == "tera") return fmt::format("{:.1f}", number / 1e12);
  if (as == "steps") return fmt::format("{:.0f} step{}", number, number == 1 ? "" : "s");
  return std::holds_alternative<std::int64_t>(value) ? fmt::format("{:.0f}", number)
                                                     : fmt::format("{:g}", number);
}

// Fills in the places of a sentence: {name}, {name:time}, {@option}, {#sentence}.
std::string filled(std::string_view sentence, const NoteValues& values, Voice voice) {
  std::string text;
  while (!sentence.empty()) {
    std::size_t open = sentence.find('{');
    text += sentence.substr(0, open);
    if (open == std::string_view::npos) break;
    std::size_t close = sentence.find('}', open);
    std::string_view place = sentence.substr(open + 1, close - open - 1);
    sentence.remove_prefix(close + 1);
    if (place.starts_with('@')) {
      text += sentence_of(voice == Voice::python ? "python" : "option", place.substr(1));
    } else if (place.starts_with('#')) {
      text +=
          filled(sentence_of(place.substr(1), text_named(values, place.substr(1))), values, voice);
    } else {
      std::size_t colon = std::min(place.find(':'), place.size());
      const NoteValue* value = value_named(values, place.substr(0, colon));
      if (value != nullptr) {
        text += shown(*value, colon == place.size() ? "" : place.substr(colon + 1));
      }
    }
  }
  return text;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || c == '-';
}

// Where the command begins that an option belongs to, as people type it: "mfu peak --list".
std::size_t command_before(std::string_view text, std::size_t option) {
  std::size_t verb = option < 2 ? std::string_view::npos : text.rfind(' ', option - 2);
  bool ours = verb != std::string_view::npos && text.substr(0, verb).ends_with("mfu");
  return ours ? verb - 3 : std::string_view::npos;
}

void write_values(JsonWriter& json, const NoteValues& values) {
  json.key("values").begin_object();
  for (const auto& [name, value] : values) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      json.member(name, *text);
    } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      json.member(name, *whole);
    } else if (const auto* number = std::get_if<double>(&value)) {
      json.member(name, *number);
    } else {
      json.objects(name, std::get<std::vector<NotedItem>>(value), [&](const NotedItem& each) {
        json.member("name", each.name);
        json.member("duration_ns", each.duration_ns);
        if (each.calls > 0) json.member("calls", each.calls);
      });
    }
  }
  json.end_object();
}

}  // namespace

std::string in_voice(std::string_view text, Voice voice) {
  std::string spoken;
  while (voice == Voice::python) {
    std::size_t at = text.find("--");
    if (at == std::string_view::npos) break;
    std::size_t end = at + 2;
    while (end < text.size() && is_name(text[end])) ++end;
    bool begins =
        at == 0 || std::string_view(" ('\"`").find(text[at - 1]) != std::string_view::npos;
    std::string name(text.substr(at + 2, end - at - 2));
    std::size_t command = command_before(text, at);
    if (!begins || name.empty() || name[0] == '-' || command != std::string_view::npos) {
      std::string_view same = text.substr(0, end), known;
      if (command != std::string_view::npos) {
        std::string typed(same.substr(command));
        std::replace(typed.begin(), typed.end(), ' ', '_');
        known = sentence_of("python", typed);
      }
      spoken += known.empty() ? same : same.substr(0, command);
      spoken += known;
      text.remove_prefix(end);
      continue;
    }
    std::replace(name.begin(), name.end(), '-', '_');
    spoken.append(text.substr(0, at)).append(name).append("=");
    text.remove_prefix(end);
    // The name of the value as in --help: " FLOP_PER_S".
    std::size_t word = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", 1);
    bool names_value = text.starts_with(' ') && word != 1 && text.size() > 1;
    if (names_value) text.remove_prefix(std::min(word, text.size()));
  }
  return spoken.append(text);
}

std::string words_of(const Note& note, Voice voice) {
  std::string_view sentence = sentence_of("note", note.code);
  return in_voice(sentence.empty() ? note.code : filled(sentence, note.values, voice), voice);
}

FindingWords finding_words(const Finding& finding, Voice voice) {
  FindingWords words;
  std::string of = text_named(finding.values, "of");
  for (const std::string& code : {finding.code + "@" + text_named(finding.values, "on"),
                                  finding.code + "/" + of, finding.code}) {
    std::string_view title = sentence_of("title", code);
    if (title.empty()) continue;
    words.title = filled(title, finding.values, voice);
    break;
  }
  for (const Note& each : finding.evidence) {
    words.evidence.push_back(filled(sentence_of("evidence", each.code), each.values, voice));
  }
  std::vector<std::string> fixes;
  for (const std::string& each : finding.fixes) {
    fixes.push_back(filled(sentence_of("fix", each), finding.values, voice));
  }
  words.fix = fmt::format("{}.", fmt::join(fixes, "; "));
  return words;
}

std::vector<std::string> few_words(const std::vector<Note>& notes) {
  constexpr std::size_t kSameShown = 3;
  std::map<std::string_view, std::size_t> same;
  for (const Note& note : notes) ++same[note.code];
  std::vector<std::string> words;
  std::set<std::string_view> shortened;
  for (const Note& note : notes) {
    std::size_t count = same[note.code];
    if (count > kSameShown && note.code != "said") {
      if (!shortened.insert(note.code).second) continue;
      words.push_back(fmt::format("{} (the first of {} such notes)", words_of(note), count));
    } else {
      words.push_back(words_of(note));
    }
  }
  return words;
}

std::vector<std::string> all_words(const std::vector<Note>& notes, Voice voice) {
  std::vector<std::string> all;
  for (const Note& each : notes) all.push_back(words_of(each, voice));
  return all;
}

std::string_view above_peak(const OperatorLine& line) {
  if (!line.peak_fraction || line.peak_fraction->value <= 1) return {};
  bool convolution = line.name.find("conv") != std::string::npos;
  return convolution ? "fewer_multiplications" : "contradiction";
}

void write_findings(JsonWriter& json, std::string_view key, const std::vector<Finding>& findings,
                    Voice voice) {
  json.objects(key, findings, [&](const Finding& finding) {
    FindingWords words = finding_words(finding, voice);
    json.member("id", finding.code);
    json.member("code", finding.code);
    json.member("cause", name_of(finding.cause));
    write_values(json, finding.values);
    json.member("title", words.title);
    json.strings("evidence", words.evidence);
    json.member("fix", words.fix);
    json.strings("fixes", finding.fixes);
    json.member("gain_ceiling_mfu", finding.gain_ceiling_mfu);
    json.member("gain_ceiling_ns", finding.gain_ceiling_ns);
  });
}

void write_notes(JsonWriter& json, const std::vector<Note>& notes, Voice voice,
                 std::string_view kind) {
  json.strings(fmt::format("{}s", kind), all_words(notes, voice));
  json.objects(fmt::format("{}_codes", kind), notes, [&](const Note& note) {
    json.member("code", note.code);
    write_values(json, note.values);
  });
}

std::vector<Note> with_peak(std::vector<Note> notes, const ChosenPeak& peak) {
  if (peak.reason == PeakReason::wider_unit) {
    notes.push_back({"peak_is_wider",
                     {{"dtype", std::string(name_of(*peak.precision))},
                      {"against", std::string(name_of(*peak.against))}}});
  }
  if (peak.confidence == Confidence::unverified) notes.push_back({"peak_unverified", {}});
  return notes;
}

std::string_view label_of(LedgerLine line) {
  static constexpr std::string_view kLabels[] = {
      "matmul at peak", "matmul below peak",  "matmul, FLOPs unknown", "recomputation",
      "other kernels",  "waiting for a rank", "exposed communication", "exposed copies",
      "idle: data",     "idle: launch",       "idle: synchronisation", "idle: unknown"};
  return kLabels[static_cast<std::size_t>(line)];
}

}  // namespace mfu
