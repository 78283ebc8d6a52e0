// A part with changed bytes is refused, or gives a ledger that adds up; an unchanged part gives
// what its trace gives. Input that is text is read as a trace. Otherwise the first byte chooses: in
// one of 64 cases the rest draws a trace, which is checked as above. In the other cases the rest
// changes bytes of a part that was made once, because making a part takes a thousand times as long
// as reading it.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <span>

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

// The result of the packed bytes; no value if they are refused.
std::optional<mfu::Attribution> merged(std::string_view outline_bytes,
                                       std::string_view rank_bytes) {
  auto outline = mfu::unpack_outline(outline_bytes);
  if (!outline.has_value()) return std::nullopt;
  auto ranks = mfu::unpack_ranks(rank_bytes, *outline);
  if (!ranks.has_value()) return std::nullopt;
  const mfu::TraceOutline* outlines[] = {&*outline, &*outline};
  auto found = mfu::attribute(
      outlines, [&](std::size_t) -> mfu::Result<std::vector<mfu::RankPart>> { return *ranks; },
      asked());
  if (!found.has_value()) return std::nullopt;
  for (const mfu::RankAttribution& rank : found->ranks) {
    if (rank.ledger.total_ns() != rank.window.duration_ns()) std::abort();
  }
  return std::move(found).value();
}

std::string written(std::optional<mfu::Attribution> found) {
  return found ? mfu::to_json(mfu::report_explanation(*std::move(found))) : "";
}

struct Packed {
  std::string outline, ranks;
};

std::optional<Packed> packed(std::span<const std::uint8_t> drawing) {
  auto trace = mfu::drawn_trace(drawing).read();
  if (!trace.has_value()) return std::nullopt;
  auto part = mfu::condense(*trace, asked());
  if (!part.has_value()) return std::nullopt;
  return Packed{mfu::pack_outline(part->outline), mfu::pack_ranks(part->ranks)};
}

// A few parts of drawn traces that differ in size and content.
const std::vector<Packed>& some_parts() {
  static const std::vector<Packed> parts = [] {
    std::vector<Packed> made;
    std::mt19937 random(1);
    while (made.size() < 32) {
      std::vector<std::uint8_t> drawing(5 + 5 * (random() % 24));
      for (std::uint8_t& byte : drawing) byte = static_cast<std::uint8_t>(random());
      if (auto part = packed(drawing)) made.push_back(*std::move(part));
    }
    return made;
  }();
  return parts;
}

// Three bytes make one change: the place and the new value.
void change(std::string& bytes, std::span<const std::uint8_t> changes) {
  for (std::size_t i = 0; i + 3 <= changes.size() && !bytes.empty(); i += 3) {
    std::size_t at = (std::size_t{changes[i]} << 8 | changes[i + 1]) % bytes.size();
    bytes[at] = static_cast<char>(changes[i + 2]);
  }
}

// Merging two parts of the same trace gives the same whether or not they were packed and unpacked
// before.
void hold_law(const mfu::Trace& trace) {
  auto part = mfu::condense(trace, asked());
  if (!part.has_value()) return;
  mfu::TracePart other = std::move(mfu::condense(trace, asked())).value();
  const mfu::TraceOutline* outlines[] = {&part->outline, &other.outline};
  auto found = mfu::attribute(
      outlines,
      [&](std::size_t i) -> mfu::Result<std::vector<mfu::RankPart>> {
        return i == 0 ? part->ranks : other.ranks;
      },
      asked());
  if (!found.has_value()) return;
  std::string expected = mfu::to_json(mfu::report_explanation(std::move(found).value()));
  if (written(merged(mfu::pack_outline(part->outline), mfu::pack_ranks(part->ranks))) != expected) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::span<const std::uint8_t> rest(data + 1, size - 1);
  bool is_text = data[0] == '{' || data[0] == '[';
  if (is_text || data[0] % 64 == 1) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    auto trace = is_text ? mfu::read_trace_bytes(text, "fuzz.json", {.threads = 1})
                         : mfu::drawn_trace(rest).read();
    if (trace.has_value()) hold_law(*trace);
    return 0;
  }
  Packed part = some_parts()[data[0] % some_parts().size()];
  std::size_t of_outline = std::min<std::size_t>(rest.size(), 3 * (data[0] / 64));
  change(part.outline, rest.first(of_outline));
  change(part.ranks, rest.subspan(of_outline));
  std::optional<mfu::Attribution> found = merged(part.outline, part.ranks);
  if (data[0] % 64 == 2) written(std::move(found));
  return 0;
}
