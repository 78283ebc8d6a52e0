// A part with any bytes changed is refused, or attributed to a ledger that adds up; unchanged, it
// gives what its trace gives. Text is read as a trace; any other bytes are drawn as one. The last
// bytes say what is changed.
#include <cstdint>
#include <cstdlib>

#include "attribution/attribute.h"
#include "attribution/drawn_trace.h"
#include "attribution/part_bytes.h"
#include "mfu/mfu.h"

namespace {

mfu::AttributionOptions asked() {
  mfu::AttributionOptions options;
  options.peak = mfu::FlopRate{1e12};
  options.timeline = true;
  options.window.policy = mfu::WindowPolicy::all;
  return options;
}

// What the packed bytes come to; empty: refused.
std::string merged(std::string_view outline_bytes, std::string_view rank_bytes) {
  auto outline = mfu::unpack_outline(outline_bytes);
  if (!outline.has_value()) return {};
  auto ranks = mfu::unpack_ranks(rank_bytes, *outline);
  if (!ranks.has_value()) return {};
  const mfu::TraceOutline* outlines[] = {&*outline, &*outline};
  auto found = mfu::attribute(
      outlines, [&](std::size_t) -> mfu::Result<std::vector<mfu::RankPart>> { return *ranks; },
      asked());
  if (!found.has_value()) return {};
  for (const mfu::RankAttribution& rank : found->ranks) {
    if (rank.ledger.total_ns() != rank.window.duration_ns()) std::abort();
  }
  return mfu::to_json(mfu::report_explanation(std::move(found).value()));
}

void change(std::string& bytes, const std::uint8_t* data, std::size_t size) {
  for (std::size_t i = 0; i + 3 <= size && !bytes.empty(); i += 3) {
    std::size_t at = (std::size_t{data[i]} << 8 | data[i + 1]) % bytes.size();
    bytes[at] = static_cast<char>(data[i + 2]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 16) return 0;
  std::size_t head = size - 12;
  std::string_view text(reinterpret_cast<const char*>(data), head);
  bool is_text = text[0] == '{' || text[0] == '[';
  auto trace = is_text ? mfu::read_trace_bytes(text, "fuzz.json", {.threads = 1})
                       : mfu::drawn_trace({data, head}).read();
  if (!trace.has_value()) return 0;
  auto part = mfu::condense(*trace, asked());
  if (!part.has_value()) return 0;
  std::string outline = mfu::pack_outline(part->outline);
  std::string ranks = mfu::pack_ranks(part->ranks);
  mfu::TracePart other = std::move(mfu::condense(*trace, asked())).value();
  const mfu::TraceOutline* outlines[] = {&part->outline, &other.outline};
  auto found = mfu::attribute(
      outlines,
      [&](std::size_t i) -> mfu::Result<std::vector<mfu::RankPart>> {
        return i == 0 ? part->ranks : other.ranks;
      },
      asked());
  if (!found.has_value()) return 0;
  if (merged(outline, ranks) != mfu::to_json(mfu::report_explanation(std::move(found).value()))) {
    std::abort();
  }
  change(outline, data + head, 3);
  change(ranks, data + head + 3, 9);
  merged(outline, ranks);
  return 0;
}
