// Continuous batching: one pass decodes some sequences and prefills others. FLOPs are split by
// sequence, exactly. How long each part took cannot be seen, so the time stays with the decoding
// part, and the report divides it by the roof of the device.
#include <algorithm>

#include "torch/pass_table.h"

namespace mfu::observer {
namespace {

struct Share {
  std::uint64_t model_flop = 0, hardware_flop = 0;
};

// Every token costs the same, except in attention and in the product that makes logits, which may
// take one row per sequence only. False if the numbers do not fit.
bool decode_share(const Entry& entry, Share& part) {
  const Packed& packed = entry.packed;
  if (entry.lines != 1 || packed.rows != entry.tokens.tokens) return false;
  const PassFlop& all = entry.flop[0];
  std::uint64_t head = entry.head_rows == packed.rows ? 0 : entry.head_flop;
  std::uint64_t apart = packed.model_flop + head;
  std::uint64_t apart_executed = packed.hardware_flop + head;
  if (all.model_flop < apart || all.hardware_flop < apart_executed) return false;
  std::uint64_t each = (all.model_flop - apart) / packed.rows;
  if (each * packed.rows != all.model_flop - apart) return false;
  if (all.hardware_flop - apart_executed != all.model_flop - apart) return false;
  // Sequences whose prompt is not complete have no row there. Those that decode all have one.
  std::uint64_t heads = std::min(packed.decode_rows, entry.head_rows);
  std::uint64_t head_part = head == 0 ? 0 : head / entry.head_rows * heads;
  part.model_flop = each * packed.decode_rows + packed.decode_model_flop + head_part;
  part.hardware_flop = each * packed.decode_rows + packed.decode_hardware_flop + head_part;
  return true;
}

}  // namespace

bool book_parts(const Entry& entry) {
  const Packed& packed = entry.packed;
  std::uint64_t prompts = packed.sequences - std::min(packed.decode_rows, packed.sequences);
  Share decode;
  if (packed.decode_rows == 0 || prompts == 0 || !decode_share(entry, decode)) return false;
  const PassFlop& all = entry.flop[0];
  PassFlop decoded = all, prompted = all;
  decoded.calls = 0;
  decoded.bytes = 0;
  decoded.model_flop = decode.model_flop;
  decoded.hardware_flop = decode.hardware_flop;
  prompted.model_flop -= decode.model_flop;
  prompted.hardware_flop -= decode.hardware_flop;
  std::uint64_t weights = entry.bytes.unknown ? 0 : entry.bytes.weight_read;
  std::uint64_t decode_weights = weights / packed.rows * packed.decode_rows;
  PassEnd part{.phase = PassPhase::decode,
               .model = static_cast<std::uint8_t>(entry.model | kMixed),
               .tokens = packed.decode_rows,
               .token_rows = entry.tokens.rows,
               .duration_ns = entry.duration_ns,
               .batch = packed.decode_rows,
               .weight_read_bytes = decode_weights,
               .cache_read_bytes = packed.decode_read,
               .cache_written_bytes = packed.decode_written,
               .flop = {&decoded, 1}};
  Recorder& recorder = Recorder::process();
  recorder.add_pass(part);
  part.phase = PassPhase::prefill;
  part.tokens = entry.tokens.tokens - packed.decode_rows;
  part.padded_tokens = std::min(packed.empty_rows, part.tokens);
  part.samples = entry.first ? prompts : 0;
  part.duration_ns = 0;
  part.batch = prompts;
  part.weight_read_bytes = weights - decode_weights;
  part.cache_read_bytes =
      entry.bytes.cache_read - std::min(entry.bytes.cache_read, packed.decode_read);
  part.cache_written_bytes =
      entry.bytes.cache_written - std::min(entry.bytes.cache_written, packed.decode_written);
  part.flop = {&prompted, 1};
  recorder.add_pass(part);
  return true;
}

}  // namespace mfu::observer
