// Continuous batching: one pass decodes some sequences and prefills others. FLOPs are split by
// sequence, exactly. How long each part took cannot be seen. So the decoding part keeps all the
// time, and the report divides it: each part gets what it would need at the device's limits.
#include <algorithm>
#include <array>

#include "torch/pass_table.h"

namespace mfu::observer {
namespace {

// Every token costs the same, except in attention and in the product that makes logits. That
// product may take only one row per sequence. False if the numbers contradict this.
bool decode_share(const Entry& entry, std::array<PassFlop, kPassFlops>& parts) {
  const Packed& packed = entry.packed;
  std::uint64_t rows = entry.tokens.tokens;
  if (rows == 0 || packed.rows > rows) return false;
  std::uint64_t head = entry.head_rows == rows ? 0 : entry.head_flop;
  // A sequence whose prompt is not complete may have no row of logits. Each that decodes has one.
  std::uint64_t heads = std::min(packed.decode.rows, entry.head_rows);
  bool found = false;
  for (std::uint32_t i = 0; i < entry.lines; ++i) {
    const PassFlop& all = entry.flop[i];
    bool attends = all.type == packed.type && !found;
    found = found || attends;
    std::uint64_t own_head = attends ? head : 0;
    std::uint64_t needed = (attends ? packed.model_flop : 0) + own_head;
    std::uint64_t executed = (attends ? packed.hardware_flop : 0) + own_head;
    if (all.model_flop < needed || all.hardware_flop < executed) return false;
    std::uint64_t rest = all.model_flop - needed;
    if (rest % rows != 0 || all.hardware_flop - executed != rest) return false;
    std::uint64_t shared = rest / rows * packed.decode.rows;
    if (own_head != 0) shared += own_head / entry.head_rows * heads;
    parts[i] = all;
    parts[i].calls = parts[i].bytes = 0;
    parts[i].model_flop = shared + (attends ? packed.decode.model_flop : 0);
    parts[i].hardware_flop = shared + (attends ? packed.decode.hardware_flop : 0);
  }
  return found;
}

}  // namespace

bool book_parts(const Entry& entry) {
  const Packed& packed = entry.packed;
  std::uint64_t prompts = packed.sequences - std::min(packed.decode.sequences, packed.sequences);
  std::array<PassFlop, kPassFlops> decoded{}, prompted = entry.flop;
  if (packed.decode.rows == 0 || prompts == 0 || !decode_share(entry, decoded)) return false;
  for (std::uint32_t i = 0; i < entry.lines; ++i) {
    prompted[i].model_flop -= decoded[i].model_flop;
    prompted[i].hardware_flop -= decoded[i].hardware_flop;
  }
  std::uint64_t weights = entry.bytes.unknown ? 0 : entry.bytes.weight_read;
  std::uint64_t decode_weights = weights / entry.tokens.tokens * packed.decode.rows;
  PassEnd part{.phase = PassPhase::decode,
               .model = static_cast<std::uint8_t>(entry.model | kMixed),
               .tokens = packed.decode.rows,
               .token_rows = entry.tokens.rows,
               .duration_ns = entry.duration_ns,
               .batch = packed.decode.sequences,
               .weight_read_bytes = decode_weights,
               .cache_read_bytes = packed.decode.read,
               .cache_written_bytes = packed.decode.written,
               .flop = {decoded.data(), entry.lines}};
  Recorder& recorder = Recorder::process();
  recorder.add_pass(part);
  part.phase = PassPhase::prefill;
  part.tokens = entry.tokens.tokens - packed.decode.rows;
  part.padded_tokens = std::min(packed.empty_rows, part.tokens);
  part.samples = packed.cached ? packed.begun : entry.first ? prompts : 0;
  part.duration_ns = 0;
  part.batch = prompts;
  part.weight_read_bytes = weights - decode_weights;
  part.cache_read_bytes =
      entry.bytes.cache_read - std::min(entry.bytes.cache_read, packed.decode.read);
  part.cache_written_bytes =
      entry.bytes.cache_written - std::min(entry.bytes.cache_written, packed.decode.written);
  part.flop = {prompted.data(), entry.lines};
  recorder.add_pass(part);
  return true;
}

}  // namespace mfu::observer
