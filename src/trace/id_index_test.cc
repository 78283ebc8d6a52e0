#include <gtest/gtest.h>

#include <map>
#include <random>

#include "trace/link.h"

namespace mfu {
namespace {

// With ids close together, in groups far apart, and anywhere, each id is found. Of two equal ids
// the first one is found. An id that is not there is not found.
TEST(IdIndex, finds_each_id_in_dense_grouped_and_scattered_columns) {
  std::mt19937_64 random(1);
  for (std::int64_t group : {0, 1, 4, 40, 4000}) {
    Column<std::int64_t> ids;
    std::map<std::int64_t, std::uint32_t> expected;
    for (std::uint32_t row = 0; row < 20000; ++row) {
      std::int64_t far = group == 0 ? static_cast<std::int64_t>(random() >> 8)
                                    : static_cast<std::int64_t>(random() % group) * 100'000'000;
      std::int64_t id = row % 100 == 7 ? kNoId : far - 5000 + static_cast<std::int64_t>(row % 9000);
      ids.push_back(id);
      if (id != kNoId) expected.try_emplace(id, row);
    }
    IdIndex index(ids);
    index.prepare();
    for (std::uint32_t row = 0; row < ids.size(); ++row) index.add(row);
    for (const auto& [id, row] : expected) ASSERT_EQ(index.find(id), row) << group << ' ' << id;
    for (int i = 0; i < 20000; ++i) {
      auto id = static_cast<std::int64_t>(random() % 400'000'000'000);
      auto found = expected.find(id);
      ASSERT_EQ(index.find(id), found == expected.end() ? kNone : found->second) << group;
    }
    EXPECT_EQ(index.find(kNoId), kNone);
  }
}

}  // namespace
}  // namespace mfu
