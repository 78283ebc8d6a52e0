#include "report/run_generation_advice.h"

#include <algorithm>

#include "attribution/findings.h"
#include "mfu/utilization.h"

namespace mfu {

namespace {

constexpr double kWorthAWord = 0.10;  // share of the time from which generation gets advice
constexpr double kLargerBatch = 8;    // how much larger a batch the advice assumes

// Sums over the decode passes of all models.
struct Decoding {
  double seconds = 0;
  FlopCount flop;
  double weights = 0, cache = 0;  // bytes
  std::uint64_t passes = 0, tokens = 0;
  std::uint64_t largest_batch = 0;
};

Decoding decoding_of(const RunReport& report) {
  Decoding all;
  for (const RunPhaseReport& each : report.phases) {
    if (each.phase != RunPhase::decode || each.kept_time.count() <= 0) continue;
    double kept = static_cast<double>(each.kept_time.count()) /
                  static_cast<double>(std::max<std::int64_t>(each.time.count(), 1));
    all.seconds += static_cast<double>(each.kept_time.count()) / 1e9;
    all.flop += each.kept_model_flop;
    all.weights += static_cast<double>(each.weight_read_bytes) * kept;
    all.cache += static_cast<double>(each.cache_read_bytes + each.cache_written_bytes) * kept;
    all.passes += each.passes;
    all.tokens += each.tokens.value_or(0);
    all.largest_batch = std::max(all.largest_batch, each.largest_batch.value_or(0));
  }
  return all;
}

class GenerationFindings {
 public:
  GenerationFindings(RunReport& report, std::chrono::nanoseconds time)
      : report_(report), time_ns_(time.count()) {}

  // `won` is the time that could be won at most, in seconds.
  Finding* add(const char* code, const char* fix, double won) {
    double share = won * 1e9 / static_cast<double>(time_ns_);
    if (share < 0.02) return nullptr;
    Finding& finding = report_.findings.emplace_back();
    finding.code = code;
    finding.cause = Cause::generation;
    finding.fixes = {fix};
    finding.gain_ceiling_ns = static_cast<std::int64_t>(won * 1e9);
    std::optional<double> mfu = report_.mfu ? std::optional(report_.mfu->value) : std::nullopt;
    finding.gain_ceiling_mfu = mfu_gain(mfu, time_ns_, finding.gain_ceiling_ns);
    finding.values = {{"of", report_.steps > 0 ? "step_time" : "pass_time"}, {"fraction", share}};
    return &finding;
  }

 private:
  RunReport& report_;
  std::int64_t time_ns_;
};

// A pass reads the weights once, whatever its batch is, and the cache once per sequence. With a
// batch k times as large, the same tokens read the weights only 1/k as often.
void add_larger_batch(const RunReport& report, const Decoding& decode, GenerationFindings& all) {
  if (decode.weights <= 0 || decode.passes == 0 || decode.tokens == 0) return;
  Roof roof{.peak = report.peak, .bandwidth = report.bandwidth};
  if (!roof.peak || !roof.bandwidth) return;
  auto needed = [&](double larger) {
    auto bytes = static_cast<std::uint64_t>(decode.weights / larger + decode.cache);
    return roof_seconds(decode.flop, Bytes{bytes}, roof);
  };
  double now = needed(1), then = needed(kLargerBatch);
  if (now <= 0 || then >= now) return;
  double batch = static_cast<double>(decode.tokens) / static_cast<double>(decode.passes);
  Finding* finding =
      all.add("generation_batch", "larger_generation_batch", decode.seconds * (1 - then / now));
  if (finding == nullptr) return;
  finding->values.emplace_back("batch", batch);
  finding->values.emplace_back("larger", batch * kLargerBatch);
  finding->values.emplace_back("weights_fraction",
                               decode.weights / (decode.weights + decode.cache));
}

// A pass with fewer sequences costs about as much as one with the largest batch.
void add_thin_batches(const Decoding& decode, GenerationFindings& all) {
  if (decode.passes == 0 || decode.largest_batch < 2) return;
  double mean = static_cast<double>(decode.tokens) / static_cast<double>(decode.passes);
  double filled = mean / static_cast<double>(decode.largest_batch);
  if (filled > 0.8) return;
  Finding* finding =
      all.add("generation_thin", "continuous_batching", decode.seconds * (1 - filled));
  if (finding == nullptr) return;
  finding->values.emplace_back("batch", mean);
  finding->values.emplace_back("largest", static_cast<std::int64_t>(decode.largest_batch));
}

// Whether the program is already a serving engine: its attention ran over pages of a cache.
bool is_engine(const RunReport& report) {
  return std::any_of(report.by_operator.begin(), report.by_operator.end(), [](const auto& each) {
    return each.first.find("kv_cache") != std::string::npos;
  });
}

// Decoding takes longer than its roof because of launches, Python between tokens and copies of the
// cache.
void add_engine(const RunReport& report, const Decoding& decode, GenerationFindings& all) {
  Roof roof{.peak = report.peak, .bandwidth = report.bandwidth};
  if (!roof.peak || !roof.bandwidth || decode.weights <= 0) return;
  if (is_engine(report)) return;
  auto bytes = static_cast<std::uint64_t>(decode.weights + decode.cache);
  double needed = roof_seconds(decode.flop, Bytes{bytes}, roof) /
                  static_cast<double>(std::max<std::uint64_t>(report.devices, 1));
  if (needed > 0.5 * decode.seconds) return;
  Finding* finding = all.add("generation_engine", "serving_engine", decode.seconds - needed);
  if (finding == nullptr) return;
  finding->values.emplace_back("roof_fraction", needed / decode.seconds);
}

}  // namespace

void add_generation_notes(RunReport& report) {
  for (const RunPhaseReport& each : report.phases) {
    bool generates = each.phase == RunPhase::prefill || each.phase == RunPhase::decode;
    if (!generates || each.weight_read_bytes == 0) continue;
    if (!report.bandwidth && !report.device.empty()) {
      report.notes.push_back({"no_bandwidth", {{"device", report.device}}});
      return;
    }
    if (!each.mbu || each.mbu->value <= 1) continue;
    report.notes.push_back({"mbu_above_one",
                            {{"fraction", each.mbu->value},
                             {"phase", each.phase == RunPhase::decode ? "decode" : "prefill"}}});
  }
}

void add_generation_findings(RunReport& report, std::chrono::nanoseconds time) {
  auto generates = [](const RunShare& each) {
    return each.part == RunShare::Part::generation && each.of_time.value >= kWorthAWord;
  };
  if (std::none_of(report.shares.begin(), report.shares.end(), generates)) return;
  if (report.steps == 0) {
    time = {};
    for (const RunShare& each : report.shares) time += each.time;
  }
  if (time.count() <= 0) return;
  std::size_t before = report.findings.size();
  Decoding decode = decoding_of(report);
  GenerationFindings all(report, time);
  add_larger_batch(report, decode, all);
  add_thin_batches(decode, all);
  add_engine(report, decode, all);
  if (report.findings.size() == before) return;
  // The general finding about passes goes away, because these findings say which passes take the
  // time.
  std::erase_if(report.findings,
                [](const Finding& each) { return each.cause == Cause::implementation; });
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) {
                     double first = a.gain_ceiling_mfu.value_or(0);
                     double second = b.gain_ceiling_mfu.value_or(0);
                     if (first != second) return first > second;
                     return a.gain_ceiling_ns > b.gain_ceiling_ns;
                   });
}

}  // namespace mfu
