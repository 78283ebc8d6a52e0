#include "model/spec_json.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace mfu {
namespace {

void expect_same(const KeptModel& kept) {
  std::string text = keep_model(kept);
  Result<KeptModel> read = read_kept_model(text, "kept");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(keep_model(*read), text);
  Workload work{.batch = 3, .sequence = 777};
  auto flop = [&](const KeptModel& each) {
    return each.training ? flop_per_step(each.model, work, *each.training)
                         : flop_per_step(each.model, work);
  };
  EXPECT_EQ(flop(*read)->model_flop, flop(kept)->model_flop);
  EXPECT_EQ(count_parameters(read->model).total, count_parameters(kept.model).total);
}

TEST(KeptModel, is_the_same_model) {
  ModelSpec dense = *model_of_shape({.layers = 5, .hidden = 256, .heads = 8, .vocab = 1000});
  expect_same({.model = dense});
  expect_same({.model = *model_of_shape({.layers = 4,
                                         .hidden = 256,
                                         .heads = 8,
                                         .kv_heads = 2,
                                         .vocab = 1000,
                                         .experts = 8,
                                         .experts_per_token = 2})});
  Result<TrainingPlan> plan = plan_training(dense, {.lora_rank = 8});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  expect_same({.model = dense, .training = *plan});
}

TEST(KeptModel, of_every_config_at_hand_is_the_same) {
  std::string folder = MFU_SHARED_DIR "/configs";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no configs at hand";
  std::size_t models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Result<ModelSpec> model = read_model(entry.path().string(), {});
    if (!model.has_value()) continue;
    std::string text = keep_model({.model = *model});
    Result<KeptModel> read = read_kept_model(text, entry.path().string());
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(keep_model(*read), text);
    ++models;
  }
  EXPECT_GT(models, 0u);
}

TEST(KeptModel, what_is_damaged_is_refused) {
  std::string text =
      keep_model({.model = *model_of_shape({.layers = 2, .hidden = 64, .heads = 4, .vocab = 10})});
  for (std::size_t at = 0; at < text.size(); at += 7) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_FALSE(read_kept_model(other, "kept").has_value()) << at;
    EXPECT_FALSE(read_kept_model(text.substr(0, at), "kept").has_value()) << at;
  }
}

}  // namespace
}  // namespace mfu
