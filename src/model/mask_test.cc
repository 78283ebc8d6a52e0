#include "model/mask.h"

#include <gtest/gtest.h>

#include <random>

namespace mfu {
namespace {

bool sees(const Mask& mask, std::uint64_t query, std::uint64_t key, std::uint64_t end) {
  switch (mask.kind) {
    case MaskKind::causal:
      return key <= query;
    case MaskKind::window:
      return key <= query && query - key < mask.size;
    case MaskKind::chunked:
      return key <= query && key / mask.size == query / mask.size;
    case MaskKind::prefix:
      return key <= query || (key < mask.size && query < mask.size && key < end);
    case MaskKind::local:
      return (key > query ? key - query : query - key) <= mask.size;
    default:
      return true;
  }
}

// Counts cell by cell, straight from the definition.
std::uint64_t counted(const Mask& mask, const Span& span, std::uint64_t encoder) {
  std::uint64_t end = span.context + span.length, pairs = 0;
  for (std::uint64_t query = span.context; query < end; ++query) {
    if (mask.kind == MaskKind::cross) {
      pairs += encoder;
    } else if (mask.kind == MaskKind::joint) {
      pairs = (span.length + encoder) * (span.length + encoder);
    } else if (mask.kind == MaskKind::top_k) {
      pairs += std::min(query + 1, mask.size);
    } else {
      for (std::uint64_t key = 0; key < end; ++key) pairs += sees(mask, query, key, end);
    }
  }
  return pairs;
}

TEST(Mask, closed_forms_equal_cell_by_cell_counting) {
  std::mt19937_64 random(20260101);
  for (int trial = 0; trial < 4000; ++trial) {
    Mask mask{static_cast<MaskKind>(random() % 9), 1 + random() % 40};
    Span span{1 + random() % 50, random() % 60};
    if (mask.kind == MaskKind::local) span.context = 0;
    std::uint64_t encoder = 1 + random() % 30;
    ASSERT_EQ(static_cast<std::uint64_t>(attended_pairs(mask, span, encoder)),
              counted(mask, span, encoder))
        << "kind " << static_cast<int>(mask.kind) << " size " << mask.size << " length "
        << span.length << " context " << span.context;
  }
}

TEST(Mask, pairs_of_two_parts_add_up_where_the_second_finds_the_first_in_the_cache) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 1000; ++trial) {
    for (MaskKind kind : {MaskKind::causal, MaskKind::window, MaskKind::chunked, MaskKind::top_k}) {
      Mask mask{kind, 1 + random() % 1000};
      std::uint64_t first = 1 + random() % 5000, second = 1 + random() % 5000;
      EXPECT_EQ(attended_pairs(mask, {first, 0}, 0) + attended_pairs(mask, {second, first}, 0),
                attended_pairs(mask, {first + second, 0}, 0));
    }
  }
}

TEST(Mask, block_pairs_equal_cell_by_cell_counting) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    std::uint64_t height = 1 + random() % 12, width = 1 + random() % 12, side = 1 + random() % 9;
    std::uint64_t pairs = 0;
    for (std::uint64_t a = 0; a < height * width; ++a) {
      for (std::uint64_t b = 0; b < height * width; ++b) {
        pairs += a / width / side == b / width / side && a % width / side == b % width / side;
      }
    }
    ASSERT_EQ(static_cast<std::uint64_t>(block_pairs(height, width, side)), pairs);
  }
}

TEST(Mask, a_sliding_cache_holds_one_less_than_the_window_and_the_new_tokens) {
  EXPECT_EQ(held_keys({MaskKind::window, 128}, {1, 512}, 0), 128u);
  EXPECT_EQ(held_keys({MaskKind::window, 1024}, {1, 512}, 0), 513u);
  EXPECT_EQ(held_keys({MaskKind::causal, 0}, {1, 512}, 0), 513u);
  EXPECT_EQ(held_keys({MaskKind::window, 128}, {512, 0}, 0), 512u);
}

}  // namespace
}  // namespace mfu
