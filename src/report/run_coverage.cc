#include "report/run_coverage.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace mfu {
namespace {

std::vector<std::string> fields_of(std::string_view text) {
  std::vector<std::string> fields;
  while (true) {
    std::size_t tab = text.find('\t');
    fields.emplace_back(text.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    text.remove_prefix(tab + 1);
  }
}

// The fact "library" holds name, version, "counted" or "unknown", and why. The last one of a
// process is valid. If one process could not count the library, it counts as uncounted.
void add_libraries(const RunRecord& record, RunReport& report) {
  std::map<std::string, RunLibrary> all;
  for (const ProcessRecord& process : record.processes) {
    std::map<std::string, RunLibrary> own;
    for (const Fact& fact : process.facts) {
      if (fact.key != "library") continue;
      std::vector<std::string> fields = fields_of(fact.value);
      if (fields.size() < 3) continue;
      own[fields[0]] = {.name = fields[0],
                        .version = fields[1],
                        .counted = fields[2] == "counted",
                        .why = fields.size() > 3 ? fields[3] : ""};
    }
    for (auto& [name, library] : own) {
      auto [place, is_new] = all.emplace(name, library);
      if (!is_new && !library.counted) place->second = library;
    }
  }
  for (auto& [name, library] : all) report.libraries.push_back(std::move(library));
}

// The fact "unseen" names a function of autograd whose gradients are those of a matrix product,
// although no counted operator ran in it. It holds the function, its module, rows and columns.
void add_unseen(const RunRecord& record, RunReport& report) {
  for (const ProcessRecord& process : record.processes) {
    for (const Fact& fact : process.facts) {
      if (fact.key != "unseen") continue;
      std::vector<std::string> fields = fields_of(fact.value);
      if (fields.size() < 3) continue;
      Note note{"products_unseen",
                {{"function", fields[0]}, {"module", fields[1]}, {"shape", fields[2]}}};
      auto& all = report.contradictions;
      if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(std::move(note));
    }
  }
}

// The fact "opaque" (function, module): no operator wrote the function's result, although it was
// given tensors that are usually multiplied.
bool add_opaque(const RunRecord& record, RunReport& report) {
  bool any = false;
  for (const ProcessRecord& process : record.processes) {
    for (const Fact& fact : process.facts) {
      if (fact.key != "opaque") continue;
      any = true;
      std::vector<std::string> fields = fields_of(fact.value);
      fields.resize(2);
      Note note{"function_opaque", {{"function", fields[0]}, {"module", fields[1]}}};
      auto& all = report.notes;
      if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(std::move(note));
    }
  }
  return any;
}

// The fact "doubt": why it is not known what was computed.
bool add_doubts(const RunRecord& record, RunReport& report) {
  bool any = false;
  for (const ProcessRecord& process : record.processes) {
    const std::string* doubt = process.fact("doubt");
    if (doubt == nullptr) continue;
    any = true;
    Note note{"coverage_doubt", {{"why", *doubt}}};
    auto& all = report.notes;
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(std::move(note));
  }
  return any;
}

}  // namespace

void add_coverage(const RunRecord& record, RunReport& report) {
  add_libraries(record, report);
  add_unseen(record, report);
  bool doubted = add_opaque(record, report);
  doubted = add_doubts(record, report) || doubted;
  if (!report.uncounted.empty() || !report.contradictions.empty() || !record.unobserved.empty()) {
    report.complete = false;
    return;
  }
  bool known = std::all_of(report.libraries.begin(), report.libraries.end(),
                           [](const RunLibrary& each) { return each.counted; });
  bool counted = report.flop && report.counted_calls != 0;
  if (known && counted && !doubted) report.complete = true;
}

}  // namespace mfu
