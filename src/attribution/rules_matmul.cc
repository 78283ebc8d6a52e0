#include <algorithm>

#include "attribution/rules.h"
#include "attribution/settled.h"
#include "base/text.h"

namespace mfu {

namespace {

// Matrix times vector in fp32 does half an operation per byte; a batch of sixteen does about eight.
// Processors need ten or more to be bound by compute.
constexpr double kLeastFlopPerByte = 4;
constexpr double kBeyondCacheBytes = 1 << 20;  // smaller operands fit into a core's caches

struct Loss {
  const OperatorLine* line = nullptr;
  double ns = 0;  // how much longer it takes than at peak
};

std::vector<Loss> losses_of(const RankAttribution& rank) {
  std::vector<Loss> losses;
  for (const OperatorLine& line : rank.operators) {
    if (!line.flop || !line.peak || line.duration_ns <= 0) continue;
    double ideal = ideal_seconds(*line.flop, *line.peak) * 1e9;
    losses.push_back({&line, static_cast<double>(line.duration_ns) - ideal});
  }
  std::sort(losses.begin(), losses.end(), [](const Loss& a, const Loss& b) { return a.ns > b.ns; });
  return losses;
}

// Whether a dimension of the matmul cannot be tiled evenly by tensor cores.
bool is_uneven(const OperatorLine& line) {
  bool matrix = line.name == "aten::mm" || line.name == "aten::addmm" || line.name == "aten::bmm" ||
                line.name == "aten::baddbmm";
  bool tensor_cores = line.dtype == "bf16" || line.dtype == "fp16" || line.dtype == "fp8";
  if (!matrix || !tensor_cores) return false;
  for (std::string_view shape : split(line.shapes, ' ')) {
    std::size_t comma = shape.rfind(',');
    if (comma == std::string_view::npos || !shape.ends_with(']')) continue;
    std::size_t start = shape.find_last_of(",[", comma - 1) + 1;
    for (std::string_view size :
         {shape.substr(start, comma - start), shape.substr(comma + 1, shape.size() - comma - 2)}) {
      std::optional<std::uint64_t> count = parse_count(size);
      if (count && *count > 8 && *count % 8 != 0) return true;
    }
  }
  return false;
}

// Bound by memory: fewer operations per byte than the device can do in the same time.
bool is_memory_bound(const Situation& situation, double flop, double bytes, FlopRate peak) {
  const std::optional<Device>& device = situation.rank.device;
  if (bytes <= 0) return false;
  if (device && device->bandwidth) {
    return flop / bytes < ridge_flop_per_byte(peak, *device->bandwidth);
  }
  // Nobody measured this processor's memory. With so few operations per byte, every processor is
  // bound by it.
  return situation.rank.cpu && bytes > kBeyondCacheBytes && flop / bytes < kLeastFlopPerByte;
}

bool is_memory_bound(const Situation& situation, const OperatorLine& line) {
  if (!line.bytes || !line.peak) return false;
  auto calls = static_cast<double>(std::max<std::uint64_t>(line.calls, 1));
  return is_memory_bound(situation, line.flop->to_double() / calls,
                         static_cast<double>(*line.bytes) / calls, *line.peak);
}

bool is_memory_bound(const Situation& situation, const SettledCall& call) {
  const std::optional<FlopRate>& peak = situation.peaks.of(situation.part, call).rate;
  if (!peak) return false;
  const PartCost& cost = situation.part.costs[call.cost];
  return is_memory_bound(situation, cost.hardware_flop.to_double(),
                         static_cast<double>(cost.moved_bytes), *peak);
}

struct Advice {
  bool uneven = false, small = false, memory = false, convolution = false;
};

Advice advice_of(const Situation& situation, const std::vector<Loss>& losses) {
  Advice advice;
  double whole = 0;
  for (const Loss& loss : losses) whole += std::max(0.0, loss.ns);
  double uneven = 0;
  double memory = 0;
  double tiny = 0;
  double convolution = 0;
  for (const Loss& loss : losses) {
    const OperatorLine& line = *loss.line;
    if (is_uneven(line)) uneven += loss.ns;
    if (is_memory_bound(situation, line)) memory += loss.ns;
    double each_ns = static_cast<double>(line.duration_ns) / static_cast<double>(line.calls);
    if (each_ns < 20e3) tiny += loss.ns;
    if (line.name.find("conv") != std::string::npos) convolution += loss.ns;
  }
  advice.uneven = uneven > 0.2 * whole;
  advice.memory = memory > 0.3 * whole;
  advice.small = tiny > 0.3 * whole;
  advice.convolution = convolution > 0.3 * whole;
  return advice;
}

}  // namespace

namespace {

// How long the matmuls of that type took. Matmul time without a type is divided in proportion.
std::int64_t time_in(const RankAttribution& rank, Precision precision) {
  double all = 0;
  double wanted = 0;
  for (const OperatorLine& line : rank.operators) {
    if (line.dtype.empty()) continue;
    all += static_cast<double>(line.duration_ns);
    if (line.dtype == name_of(precision)) wanted += static_cast<double>(line.duration_ns);
  }
  std::int64_t matmul =
      rank.ledger[LedgerLine::matmul_at_peak] + rank.ledger[LedgerLine::matmul_below_peak];
  return all <= 0 ? 0 : static_cast<std::int64_t>(wanted / all * static_cast<double>(matmul));
}

struct Narrower {
  Precision from = Precision::fp32;
  FasterPeak to;
  std::int64_t took_ns = 0, gain_ns = 0;
};

// The wide type whose matmuls would gain most from a narrower type. On a processor, only fp64 is
// considered: narrow units there help some programs and slow others down, but two fp32 numbers
// always fit into the space of one fp64 number.
std::optional<Narrower> narrower_type(const RankAttribution& rank) {
  std::optional<Narrower> best;
  for (Precision from : {Precision::fp64, Precision::fp32, Precision::tf32}) {
    if (rank.cpu && from != Precision::fp64) continue;
    std::optional<FasterPeak> to = faster_peak(*rank.device, from);
    if (!to || (rank.cpu && to->peak.against != Precision::fp32)) continue;
    std::int64_t took = time_in(rank, from);
    auto gain = static_cast<std::int64_t>(static_cast<double>(took) * (1 - to->time_fraction));
    if (gain > 0 && (!best || gain > best->gain_ns)) best = Narrower{from, *to, took, gain};
  }
  return best;
}

const char* fix_of(Precision narrow) {
  if (narrow == Precision::fp32) return "use_fp32";
  return narrow == Precision::bf16 ? "use_bf16" : "use_fp16";
}

}  // namespace

std::optional<Finding> precision_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  if (!rank.device || situation.peak_given) return std::nullopt;
  std::optional<Narrower> found = narrower_type(rank);
  const Peak* now = found ? rank.device->peak(found->from) : nullptr;
  if (now == nullptr) return std::nullopt;
  Finding finding = finding_of(situation, "precision", Cause::precision, found->took_ns);
  finding.gain_ceiling_ns = found->gain_ns;
  std::string dtype(name_of(found->from)), faster(name_of(*found->to.peak.against));
  finding.values.emplace_back("dtype", dtype);
  finding.evidence.push_back({"peaks_by_type",
                              {{"device", rank.device->name},
                               {"dtype", dtype},
                               {"peak_flop_per_s", now->rate.per_s},
                               {"faster_dtype", faster},
                               {"faster_flop_per_s", found->to.peak.rate->per_s}}});
  finding.evidence.push_back({"against_the_higher_peak", {{"faster_dtype", faster}}});
  finding.fixes = {fix_of(*found->to.peak.against)};
  if (found->from == Precision::fp32 && rank.device->peak(Precision::tf32) != nullptr) {
    finding.fixes.emplace_back("use_tf32");
  }
  return finding;
}

namespace {

// The large matmuls of a processor are as fast as its libraries and clock allow, and nobody can
// change that. The time of a small one is mostly overhead, which tiny_rule covers. So only matmuls
// that memory holds back count here, without their overhead and without the effect of other
// processes.
std::int64_t winnable_on_cpu(const Situation& situation) {
  double ns = 0;
  for (const SettledCall& call : situation.host.calls) {
    if (call.recomputed || !is_memory_bound(situation, call)) continue;
    double work = situation.peaks.ideal_ns(situation.part, call).value_or(0) / kReachable;
    double overhead = static_cast<double>(situation.host.most_overhead_ns);
    ns += std::max(0.0, static_cast<double>(call.own_ns) - overhead - work);
  }
  return situation.host.stretched(static_cast<std::int64_t>(ns));
}

std::int64_t winnable_on_device(const RankAttribution& rank) {
  std::int64_t at_peak = rank.ledger[LedgerLine::matmul_at_peak];
  std::int64_t matmul = at_peak + rank.ledger[LedgerLine::matmul_below_peak];
  return matmul - static_cast<std::int64_t>(static_cast<double>(at_peak) / kReachable);
}

}  // namespace

std::optional<Finding> matmul_rule(const Situation& situation) {
  const RankAttribution& rank = situation.rank;
  std::int64_t at_peak = rank.ledger[LedgerLine::matmul_at_peak];
  std::int64_t matmul = at_peak + rank.ledger[LedgerLine::matmul_below_peak];
  std::int64_t ns =
      rank.cpu ? std::min(matmul, winnable_on_cpu(situation)) : winnable_on_device(rank);
  if (ns <= 0 || at_peak <= 0) return std::nullopt;
  std::vector<Loss> losses = losses_of(rank);
  Advice advice = advice_of(situation, losses);
  if (rank.cpu && !advice.memory) return std::nullopt;
  Finding finding = finding_of(situation, "matmul_below_peak", Cause::implementation, matmul);
  finding.gain_ceiling_ns = ns;
  finding.values.emplace_back("reached_fraction",
                              static_cast<double>(at_peak) / static_cast<double>(matmul));
  finding.evidence.push_back({"winnable", {{"fraction", kReachable}}});
  for (std::size_t i = 0; i < std::min<std::size_t>(3, losses.size()); ++i) {
    const OperatorLine& line = *losses[i].line;
    finding.evidence.push_back(
        {line.code.empty() ? "slow_matmul" : "slow_matmul_at",
         {{"operator", line.name},
          {"shapes", line.shapes.substr(0, 60)},
          {"dtype", line.dtype},
          {"calls", static_cast<std::int64_t>(line.calls)},
          {"duration_ns", line.duration_ns},
          {"peak_fraction", line.peak_fraction ? line.peak_fraction->value : 0},
          {"code", line.code}}});
  }
  if (advice.small || advice.memory) finding.fixes.emplace_back("larger_matmuls");
  if (advice.uneven) finding.fixes.emplace_back("even_shapes");
  if (advice.convolution) {
    finding.fixes.emplace_back("channels_last");
    finding.fixes.emplace_back("cudnn_benchmark");
  }
  if (!rank.cpu) finding.fixes.emplace_back("autotune");
  return finding;
}

}  // namespace mfu
