#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "record/codec.h"
#include "record/frames.h"

namespace mfu {

namespace {

// Times of day and clocks are far below this. A larger value is damage and must not overflow.
constexpr std::uint64_t kMostNs = std::uint64_t{1} << 62;

std::chrono::nanoseconds time_of(std::uint64_t count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(count, kMostNs)));
}

std::optional<std::uint32_t> rank_of(FrameDecoder& decoder) {
  std::uint64_t shifted = decoder.count();
  if (shifted == 0 || shifted > (1u << 30)) return std::nullopt;
  return static_cast<std::uint32_t>(shifted - 1);
}

FlopCount wide_of(FrameDecoder& decoder) {
  std::uint64_t high = decoder.count();
  return FlopCount::from_halves(high, decoder.count());
}

bool decode_identity(FrameDecoder decoder, ProcessRecord& process) {
  ProcessRecord read;
  read.host = decoder.text();
  read.pid = static_cast<std::uint32_t>(decoder.count());
  read.parent_pid = static_cast<std::uint32_t>(decoder.count());
  decoder.count();  // start in ticks, which only the drainer needs
  read.started = time_of(decoder.count());
  read.realtime_offset = time_of(decoder.count()) - read.started;
  std::uint64_t words = decoder.count();
  for (std::uint64_t i = 0; i < words && decoder.good(); ++i) {
    std::uint64_t word = decoder.count();
    for (std::uint32_t bit = 0; bit < 64 && i < 1024; ++bit) {
      if (word >> bit & 1) read.affinity.push_back(static_cast<std::uint32_t>(i) * 64 + bit);
    }
  }
  if (!decoder.done()) {  // mfu 0.1.0 ends here
    read.run = decoder.text();
    read.attempt = static_cast<std::uint32_t>(decoder.count());
  }
  if (!decoder.good()) return false;
  process.run = read.run;
  process.attempt = read.attempt;
  process.host = read.host;
  process.pid = read.pid;
  process.parent_pid = read.parent_pid;
  process.started = read.started;
  process.realtime_offset = read.realtime_offset;
  process.affinity = read.affinity;
  process.last = std::max(process.last, process.started);
  return true;
}

void decode_host(FrameDecoder& decoder, std::chrono::nanoseconds (&host)[kHostParts]) {
  std::uint64_t parts = decoder.count();
  for (std::uint64_t i = 0; i < parts && decoder.good(); ++i) {
    auto duration = time_of(decoder.count());
    if (i < kHostParts) host[i] = duration;
  }
}

RunPhase phase_of(std::uint64_t number) {
  return static_cast<RunPhase>(std::min<std::uint64_t>(number, kRunPhases - 1));
}

bool decode_status(FrameDecoder decoder, ProcessRecord& process) {
  auto rank = rank_of(decoder), world_size = rank_of(decoder), local_rank = rank_of(decoder);
  bool ended = decoder.count() != 0;
  auto last = time_of(decoder.count());
  std::uint64_t rows = decoder.count(), tokens = decoder.count(), samples = decoder.count();
  std::uint64_t dropped = decoder.count();
  std::chrono::nanoseconds phase[kStepPhases] = {};
  std::uint64_t phases = decoder.count();
  for (std::uint64_t i = 0; i < phases && decoder.good(); ++i) {
    auto duration = time_of(decoder.count());
    if (i < kStepPhases) phase[i] = duration;
  }
  if (!decoder.done()) {  // mfu 0.1.0 ends here
    decode_host(decoder, process.host_time);
    process.collectives = decoder.count();
    process.collective_bytes = decoder.count();
  }
  if (!decoder.good()) return false;
  process.rank = rank;
  process.world_size = world_size;
  process.local_rank = local_rank;
  process.ended = ended;
  process.last = std::max(process.last, last);
  process.token_rows = rows;
  process.tokens = tokens;
  process.samples = samples;
  process.steps_dropped = dropped;
  std::copy(std::begin(phase), std::end(phase), std::begin(process.phase));
  return true;
}

bool decode_totals(FrameDecoder decoder, ProcessRecord& process) {
  std::vector<OperatorTotal> totals;
  while (!decoder.done()) {
    OperatorTotal total;
    total.name = decoder.text();
    total.reason = decoder.text();
    total.type = decoder.text();
    total.calls = decoder.count();
    total.flop.hardware_flop = wide_of(decoder);
    total.flop.model_flop = wide_of(decoder);
    total.flop.recomputed_flop = wide_of(decoder);
    total.bytes = decoder.count();
    if (!decoder.good()) return false;
    totals.push_back(std::move(total));
  }
  process.totals = std::move(totals);
  return true;
}

std::vector<Occurrence> decode_spread(FrameDecoder& decoder) {
  std::vector<Occurrence> spread;
  std::uint64_t used = decoder.count();
  for (std::uint64_t i = 0; i < used && decoder.good(); ++i) {
    Occurrence each;
    each.value = decoder.count();
    each.count = decoder.count();
    if (each.count != 0) spread.push_back(each);
  }
  return spread;
}

PhaseTotal::Line decode_line(FrameDecoder& decoder) {
  PhaseTotal::Line line;
  line.device = decoder.text();
  line.identity = decoder.text();
  line.type = decoder.text();
  line.calls = decoder.count();
  line.flop.hardware_flop = wide_of(decoder);
  line.flop.model_flop = wide_of(decoder);
  line.flop.recomputed_flop = wide_of(decoder);
  line.bytes = decoder.count();
  return line;
}

bool decode_phases(FrameDecoder decoder, ProcessRecord& process) {
  std::vector<PhaseTotal> phases;
  while (!decoder.done()) {
    PhaseTotal total;
    total.phase = phase_of(decoder.count());
    std::uint64_t model = decoder.count();
    total.mixed = model != kIdleModel && (model & kMixed) != 0;
    total.model = static_cast<std::uint32_t>(total.mixed ? model & ~kMixed : model);
    total.model_name = decoder.text();
    total.passes = decoder.count();
    total.tokens = decoder.count();
    total.padded_tokens = decoder.count();
    total.samples = decoder.count();
    total.time = time_of(decoder.count());
    total.weight_read_bytes = decoder.count();
    total.cache_read_bytes = decoder.count();
    total.cache_written_bytes = decoder.count();
    total.largest_batch = decoder.count();
    total.durations_ns = decode_spread(decoder);
    total.batches = decode_spread(decoder);
    std::uint64_t lines = decoder.count();
    for (std::uint64_t i = 0; i < lines && decoder.good(); ++i) {
      total.lines.push_back(decode_line(decoder));
    }
    if (!decoder.good()) return false;
    if (model == kIdleModel) {
      process.idle = total.time;
    } else {
      phases.push_back(std::move(total));
    }
  }
  process.phases = std::move(phases);
  return true;
}

bool decode_window(FrameDecoder decoder, ProcessRecord& process) {
  WindowRecord window;
  window.start = time_of(decoder.count());
  window.end = std::max(time_of(decoder.count()), window.start);
  while (!decoder.done()) {
    StepPhaseTotal pass;
    std::uint64_t key = decoder.count();
    pass.phase = phase_of(key >> 8);
    pass.passes = decoder.count();
    pass.tokens = decoder.count();
    pass.padded_tokens = decoder.count();
    pass.time = time_of(decoder.count());
    pass.moved_bytes = decoder.count();
    pass.hardware_flop = wide_of(decoder);
    pass.model_flop = wide_of(decoder);
    if (!decoder.good()) return false;
    if ((key & 0xFF) == kIdleModel) {
      window.idle = pass.time;
      continue;
    }
    pass.model = static_cast<std::uint32_t>(key & 0xFF & ~kMixed);
    window.passes.push_back(pass);
  }
  process.windows.push_back(std::move(window));
  return decoder.good();
}

bool decode_facts(std::string_view text, ProcessRecord& process) {
  process.facts.clear();
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return false;
    process.facts.push_back(
        {std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

// The values of the previous record in the frame, because records are written as differences.
struct Before {
  std::uint64_t sequence = 0, end_ns = 0;
};

void decode_passes(FrameDecoder& decoder, Step& step) {
  std::uint64_t profiled = decoder.count();
  step.profiled = profiled != 0;
  step.explained = profiled == 1;
  std::uint64_t kinds = decoder.count();
  for (std::uint64_t i = 0; i < kinds && decoder.good(); ++i) {
    StepPhaseTotal pass;
    std::uint64_t key = decoder.count();
    pass.phase = phase_of(key >> 8);
    bool idle = (key & 0xFF) == kIdleModel;
    pass.model = static_cast<std::uint32_t>(idle ? kIdleModel : key & 0xFF & ~kMixed);
    pass.passes = decoder.count();
    pass.tokens = decoder.count();
    pass.padded_tokens = decoder.count();
    pass.hardware_flop = decoder.count();
    pass.model_flop = decoder.count();
    pass.time = time_of(decoder.count());
    pass.moved_bytes = decoder.count();
    step.passes.push_back(pass);
  }
  decode_host(decoder, step.host_time);
}

// Sets how long steps took on the device. `last` is the number of the last one.
void set_device_times(ProcessRecord& process, std::uint64_t last,
                      const std::vector<std::uint64_t>& durations_ns) {
  if (durations_ns.size() > last + 1) return;
  std::uint64_t first = last + 1 - durations_ns.size();
  for (auto step = process.steps.rbegin(); step != process.steps.rend(); ++step) {
    if (step->sequence > last) continue;
    if (step->sequence < first) break;
    step->device_time = time_of(durations_ns[step->sequence - first]);
  }
}

// A record of times (StepKind::device_times).
constexpr std::uint64_t kDeviceTimes = 3;
void take_device_times(const Step& step, ProcessRecord& process) {
  std::uint64_t ago = step.tokens, count = step.samples;
  if (ago > step.sequence || count > kStepPhases) return;
  std::vector<std::uint64_t> durations_ns;
  for (std::size_t i = 0; i < count; ++i) {
    durations_ns.push_back(static_cast<std::uint64_t>(step.phase[i].count()));
  }
  set_device_times(process, step.sequence - ago, durations_ns);
}

// The times that became known only when the program had ended: "1 20000000 21000000".
void apply_last_times(ProcessRecord& process) {
  for (const Fact& fact : process.facts) {
    if (fact.key != "device_steps" || process.steps.empty()) continue;
    std::vector<std::uint64_t> values;
    const char *at = fact.value.data(), *end = at + fact.value.size();
    while (at < end) {
      std::uint64_t value = 0;
      auto [after, error] = std::from_chars(at, end, value);
      if (error != std::errc()) break;
      values.push_back(value);
      at = after < end ? after + 1 : end;
    }
    std::uint64_t next = process.steps.back().sequence + 1;
    if (values.size() < 2 || values[0] > next || values[0] == 0) continue;
    set_device_times(process, next - values[0], {values.begin() + 1, values.end()});
  }
}

Step decode_step(FrameDecoder& decoder, const std::vector<std::string>& types, Before& before,
                 std::uint64_t& kind) {
  Step step;
  step.sequence = before.sequence + static_cast<std::uint64_t>(decoder.number());
  std::uint64_t start = before.end_ns + static_cast<std::uint64_t>(decoder.number());
  std::uint64_t end = start + static_cast<std::uint64_t>(decoder.number());
  before = {step.sequence, end};
  step.end = time_of(end);
  step.start = std::min(time_of(start), step.end);
  step.index = step.sequence + static_cast<std::uint64_t>(decoder.number());
  kind = decoder.count();
  step.kind = static_cast<Step::Kind>(std::min<std::uint64_t>(kind, 2));
  step.tokens = decoder.count();
  step.samples = decoder.count();
  for (auto& duration : step.phase) duration = time_of(decoder.count());
  std::uint64_t used = decoder.count();
  for (std::uint64_t i = 0; i < used && decoder.good(); ++i) {
    std::uint64_t type = decoder.count();
    TypedFlop flop;
    flop.type = type < types.size() ? types[type] : "other";
    flop.flop.hardware_flop = decoder.count();
    flop.flop.model_flop = decoder.count();
    flop.flop.recomputed_flop = decoder.count();
    step.flop.push_back(std::move(flop));
  }
  return step;
}

bool decode_steps(FrameDecoder decoder, bool with_passes, ProcessRecord& process,
                  const std::function<void(Step)>& give) {
  std::vector<std::string> types;
  std::uint64_t named = decoder.count();
  for (std::uint64_t i = 0; i < named && decoder.good(); ++i) types.emplace_back(decoder.text());
  std::uint64_t steps = decoder.count();
  Before before;
  for (std::uint64_t i = 0; i < steps && decoder.good(); ++i) {
    std::uint64_t kind = 0;
    Step step = decode_step(decoder, types, before, kind);
    if (with_passes) decode_passes(decoder, step);
    if (!decoder.good()) break;
    if (kind == kDeviceTimes) {
      take_device_times(step, process);
    } else {
      give(std::move(step));
    }
  }
  return decoder.good();
}

bool decode_frame(FrameKind kind, std::string_view payload, ProcessRecord& process,
                  const std::function<void(Step)>& give) {
  switch (kind) {
    case FrameKind::process:
      return decode_identity(FrameDecoder(payload), process);
    case FrameKind::status:
      return decode_status(FrameDecoder(payload), process);
    case FrameKind::totals:
      return decode_totals(FrameDecoder(payload), process);
    case FrameKind::facts:
      return decode_facts(payload, process);
    case FrameKind::steps:
      return decode_steps(FrameDecoder(payload), false, process, give);
    case FrameKind::steps_with_passes:
      return decode_steps(FrameDecoder(payload), true, process, give);
    case FrameKind::phases:
      return decode_phases(FrameDecoder(payload), process);
    case FrameKind::window:
      return decode_window(FrameDecoder(payload), process);
  }
  return true;  // written by a newer version: skipped
}

void order_steps(ProcessRecord& process) {
  auto earlier = [](const Step& a, const Step& b) { return a.sequence < b.sequence; };
  auto same = [](const Step& a, const Step& b) { return a.sequence == b.sequence; };
  std::vector<Step>& steps = process.steps;
  std::stable_sort(steps.begin(), steps.end(), earlier);
  // A drainer that was killed between writing a record and marking it as drained leaves it twice.
  steps.erase(std::unique(steps.begin(), steps.end(), same), steps.end());
  if (!steps.empty()) process.last = std::max(process.last, steps.back().end);
}

}  // namespace

void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage) {
  decode_process(bytes, name, process, damage,
                 [&](Step step) { process.steps.push_back(std::move(step)); });
  order_steps(process);
  apply_last_times(process);
}

void decode_process(std::string_view bytes, const std::string& name, ProcessRecord& process,
                    std::vector<std::string>& damage, const std::function<void(Step)>& give) {
  if (bytes.substr(0, kFileMagic.size()) != kFileMagic.substr(0, bytes.size())) {
    damage.push_back(fmt::format("{}: byte 0: not a file of a run (or of another version)", name));
  }
  FrameReader reader(bytes);
  FrameKind kind = FrameKind::process;
  std::string_view payload;
  std::size_t strange = 0;
  while (reader.next(kind, payload)) {
    if (!decode_frame(kind, payload, process, give)) ++strange;
  }
  if (reader.damaged_bytes() != 0) {
    damage.push_back(fmt::format("{}: {} damaged bytes were passed over, the first at byte {}",
                                 name, reader.damaged_bytes(), reader.damaged_at()));
  }
  if (reader.cut_bytes() != 0) {
    damage.push_back(
        fmt::format("{}: the last {} bytes are an unfinished frame (cut off or still "
                    "being written)",
                    name, reader.cut_bytes()));
  }
  if (strange != 0) {
    damage.push_back(
        fmt::format("{}: {} frames do not hold what their kind promises", name, strange));
  }
}

const std::string* ProcessRecord::fact(std::string_view key) const {
  auto found =
      std::find_if(facts.rbegin(), facts.rend(), [&](const Fact& each) { return each.key == key; });
  return found == facts.rend() ? nullptr : &found->value;
}

}  // namespace mfu
