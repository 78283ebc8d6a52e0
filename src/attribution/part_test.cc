#include <gtest/gtest.h>

#include <random>

#include "attribution/attribute.h"
#include "attribution/drawn_trace.h"
#include "attribution/part_bytes.h"

namespace mfu {
namespace {

AttributionOptions plain() {
  AttributionOptions options;
  options.timeline = true;
  return options;
}

std::string written(const std::vector<TracePart>& parts, const AttributionOptions& options) {
  std::vector<const TraceOutline*> outlines;
  for (const TracePart& part : parts) outlines.push_back(&part.outline);
  Result<Attribution> found = attribute(
      outlines,
      [&](std::size_t trace) -> Result<std::vector<RankPart>> { return parts[trace].ranks; },
      options);
  if (!found.has_value()) return found.error().message;
  std::string sums;
  for (const RankAttribution& rank : found->ranks) {
    EXPECT_EQ(rank.ledger.total_ns(), rank.window.duration_ns());
    for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
      sums += std::to_string(rank.ledger[static_cast<LedgerLine>(i)]) + " ";
    }
    for (const Finding& finding : rank.findings) sums += finding.code + " ";
    sums += std::to_string(rank.mfu.value_or(-1)) + "\n";
  }
  return sums;
}

TracePart again(const TracePart& part) {
  Result<TraceOutline> outline = unpack_outline(pack_outline(part.outline));
  EXPECT_TRUE(outline.has_value());
  Result<std::vector<RankPart>> ranks = unpack_ranks(pack_ranks(part.ranks), *outline);
  EXPECT_TRUE(ranks.has_value());
  return {*outline, *ranks};
}

Result<Trace> drawn(std::mt19937& dice, std::size_t events) {
  std::vector<std::uint8_t> bytes(5 * events);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(dice());
  return drawn_trace(bytes).read();
}

TEST(Part, packed_and_unpacked_it_gives_the_same_with_any_peak) {
  std::mt19937 dice(21);
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<TracePart> parts, packed;
    for (int rank = 0; rank < 1 + i % 3; ++rank) {
      Result<Trace> trace = drawn(dice, 5 + dice() % 60);
      if (!trace.has_value()) continue;
      Result<TracePart> part = condense(*trace, plain());
      if (!part.has_value()) continue;
      packed.push_back(again(*part));
      ASSERT_EQ(pack_ranks(packed.back().ranks), pack_ranks(part->ranks));
      ASSERT_EQ(pack_outline(packed.back().outline), pack_outline(part->outline));
      parts.push_back(std::move(part).value());
    }
    AttributionOptions with_peak = plain();
    with_peak.peak = FlopRate{1e12};
    for (const AttributionOptions& options : {plain(), with_peak}) {
      ASSERT_EQ(written(parts, options), written(packed, options)) << i;
    }
    seen += parts.empty() ? 0 : 1;
  }
  EXPECT_GT(seen, 200);
}

TEST(Part, any_number_of_threads_gives_the_same_result) {
  std::mt19937 dice(3);
  int seen = 0;
  for (int i = 0; i < 200; ++i) {
    Result<Trace> trace = drawn(dice, 5 + dice() % 200);
    if (!trace.has_value()) continue;
    Result<TracePart> alone = condense(*trace, plain());
    for (unsigned threads : {2u, 3u, 7u}) {
      Result<TracePart> shared = condense(*trace, plain(), threads);
      ASSERT_EQ(shared.has_value(), alone.has_value());
      if (!shared.has_value()) continue;
      ASSERT_EQ(pack_outline(shared->outline), pack_outline(alone->outline));
      ASSERT_EQ(pack_ranks(shared->ranks), pack_ranks(alone->ranks)) << i;
      ++seen;
    }
  }
  EXPECT_GT(seen, 300);
}

TEST(Part, cut_or_changed_bytes_are_refused_or_add_up) {
  std::mt19937 dice(4);
  int refused = 0, taken = 0;
  for (int i = 0; i < 3000; ++i) {
    Result<Trace> trace = drawn(dice, 20);
    if (!trace.has_value()) continue;
    Result<TracePart> part = condense(*trace, plain());
    if (!part.has_value() || part->ranks.empty()) continue;
    std::string bytes = pack_ranks(part->ranks);
    if (i % 5 == 0) {
      bytes.resize(dice() % bytes.size());
    } else {
      bytes[dice() % bytes.size()] ^= static_cast<char>(1u << (dice() % 8));
    }
    Result<std::vector<RankPart>> ranks = unpack_ranks(bytes, part->outline);
    if (!ranks.has_value()) {
      ++refused;
      continue;
    }
    ++taken;
    written({{part->outline, *ranks}}, plain());  // asserts that the ledger adds up
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 100);
}

TEST(Part, an_outline_that_points_beyond_its_texts_is_refused) {
  TraceOutline outline;
  outline.ranks = 1;
  outline.communication.events.resize(1);
  outline.communicating = {0};
  EXPECT_FALSE(unpack_outline(pack_outline(outline)).has_value());
  outline.communication.texts = {"allreduce"};
  EXPECT_TRUE(unpack_outline(pack_outline(outline)).has_value());
  outline.communicating = {1};
  EXPECT_FALSE(unpack_outline(pack_outline(outline)).has_value());
}

}  // namespace
}  // namespace mfu
