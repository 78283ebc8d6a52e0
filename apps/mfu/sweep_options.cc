#include "sweep_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "model_options.h"

namespace mfu::app {

namespace {

constexpr std::size_t kMostPoints = 4096;

// "4096" is one value. "1..256" is the first value, doubled up to the last, and the last.
Result<void> add_values(const std::string& text, std::vector<std::uint64_t>& values) {
  std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    values.push_back(MFU_TRY(parse_whole_amount(text, "--sweep", 1e9)));
    return {};
  }
  std::uint64_t first = MFU_TRY(parse_whole_amount(text.substr(0, dots), "--sweep", 1e9));
  std::uint64_t last = MFU_TRY(parse_whole_amount(text.substr(dots + 2), "--sweep", 1e9));
  if (first > last) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--sweep {}: the first value must not be larger than the last", text));
  }
  for (std::uint64_t value = first; value < last; value *= 2) values.push_back(value);
  values.push_back(last);
  return {};
}

}  // namespace

Result<ServingQuestion> SweepOptions::question() const {
  ServingQuestion question;
  question.chunk = chunk;
  if (speculate.empty()) return question;
  std::size_t cut = std::min(speculate.find(':'), speculate.size());
  question.drafted = MFU_TRY(parse_whole_amount(speculate.substr(0, cut), "--speculate", 1e6));
  question.accepted = static_cast<double>(question.drafted);
  if (cut < speculate.size()) {
    question.accepted = MFU_TRY(parse_amount(speculate.substr(cut + 1), "--speculate"));
  }
  return question;
}

Result<std::vector<Workload>> SweepOptions::points(const Workload& work) const {
  std::vector<std::uint64_t> batches, contexts;
  for (const std::string& sweep : sweeps) {
    std::vector<std::uint64_t>* values = nullptr;
    for (std::string item : comma_parts(sweep)) {
      if (std::size_t equals = item.find('='); equals != std::string::npos) {
        std::string key = item.substr(0, equals);
        values = key == "batch" ? &batches : key == "context" ? &contexts : nullptr;
        item.erase(0, equals + 1);
      }
      if (values == nullptr) {
        return fail(
            ErrorCode::invalid_argument,
            fmt::format("--sweep {}: write it as batch=1..256 or context=1024,4096", sweep));
      }
      MFU_TRY(add_values(item, *values));
    }
  }
  if (batches.empty()) batches.push_back(work.batch);
  if (contexts.empty()) contexts.push_back(work.context);
  if (batches.size() * contexts.size() > kMostPoints) {
    return fail(ErrorCode::invalid_argument,
                "--sweep: these are more than 4096 points. Give fewer values");
  }
  std::vector<Workload> points;
  for (std::uint64_t context : contexts) {
    for (std::uint64_t batch : batches) {
      Workload& point = points.emplace_back(work);
      point.batch = batch;
      point.context = context;
    }
  }
  return points;
}

void SweepOptions::add_to(CLI::App& app) {
  add_value(
      app, "--sweep", "KEY=VALUES", sweeps,
      "Count many steps: batch=1..256 (doubling) or a list of values, and the same for context; "
      "with a device also the tokens/s at its roof and the batch from which compute binds")
      ->allow_extra_args(false);
  add_value(app, "--speculate", "K[:ACCEPTED]", speculate,
            "With --phase decode: each step verifies K drafted tokens and keeps ACCEPTED of "
            "them on average (default all)");
  add_count(app, "--chunk", chunk,
            "With --phase prefill: process the prompt in chunks of N tokens");
}

}  // namespace mfu::app
