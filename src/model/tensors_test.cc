// Headers of safetensors and GGUF: what follows from their shapes, and how hostile headers are
// refused.
#include "model/tensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "mfu/workload.h"

namespace mfu {
namespace {

const std::string kHeader =
    R"({"__metadata__":{"format":"pt"},)"
    R"("model.embed_tokens.weight":{"dtype":"BF16","shape":[10,8],"data_offsets":[0,160]},)"
    R"("model.layers.0.self_attn.q_proj.weight":{"dtype":"BF16",)"
    R"("shape":[8,8],"data_offsets":[160,288]},)"
    R"("model.layers.0.input_layernorm.weight":{"dtype":"BF16",)"
    R"("shape":[8],"data_offsets":[288,304]},)"
    R"("model.layers.1.self_attn.q_proj.weight":{"dtype":"BF16",)"
    R"("shape":[8,8],"data_offsets":[304,432]},)"
    R"("model.layers.1.input_layernorm.weight":{"dtype":"BF16",)"
    R"("shape":[8],"data_offsets":[432,448]}})";

std::string temporary(const std::string& name, const std::string& bytes) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

TEST(Safetensors, shapes_are_counted_and_said_to_be_a_lower_bound) {
  std::string path = temporary("small.safetensors", little_endian(kHeader.size(), 8) + kHeader);
  auto model = read_model(path, {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(count_parameters(*model).total, 80u + 2 * 64 + 2 * 8);
  EXPECT_TRUE(model->lower_bound);
  EXPECT_EQ(model->notes.size(), 1u);
  // Two matrices of 64 and the tied head of 80 for three tokens.
  EXPECT_EQ(flop_per_step(*model, {.phase = Phase::forward, .sequence = 3})->model_flop.low(),
            2u * 3 * (2 * 64 + 80));
  EXPECT_EQ(bytes_per_step(*model, {.phase = Phase::forward, .sequence = 3})->weights, 448u);
}

TEST(Safetensors, experts_stored_one_by_one_become_copies) {
  std::string header = R"({"model.layers.0.mlp.experts.0.up_proj.weight":{"dtype":"F32",)"
                       R"("shape":[4,8],"data_offsets":[0,128]},)"
                       R"("model.layers.0.mlp.experts.1.up_proj.weight":{"dtype":"F32",)"
                       R"("shape":[4,8],"data_offsets":[128,256]}})";
  auto file = parse_safetensors_header(header, "x");
  ASSERT_TRUE(file) << file.error().message;
  auto model = model_of_tensors(*file);
  ASSERT_TRUE(model);
  EXPECT_EQ(count_parameters(*model).total, 64u);
  EXPECT_EQ(count_parameters(*model).active, 32u);
}

TEST(Safetensors, headers_that_cannot_be_are_malformed) {
  for (const std::string& bytes : {std::string("short"), little_endian(1ull << 60, 8) + "{}",
                                   little_endian(500, 8) + "{}", little_endian(0, 8)}) {
    auto model = read_model(temporary("bad.safetensors", bytes), {});
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("bad.safetensors"), std::string::npos);
  }
  for (std::string_view entry :
       {R"("dtype":"BF16","shape":[18446744073709551615,2],"data_offsets":[0,1])",
        R"("dtype":"BF17","shape":[1],"data_offsets":[0,2])",
        R"("dtype":"BF16","shape":[-1],"data_offsets":[0,2])",
        R"("dtype":"BF16","shape":[3],"data_offsets":[9,2])",
        R"("dtype":"BF16","shape":[3],"data_offsets":[0,2])"}) {
    EXPECT_FALSE(parse_safetensors_header("{\"a\":{" + std::string(entry) + "}}", "x")) << entry;
  }
}

TEST(Safetensors, tensors_that_share_bytes_are_malformed) {
  auto header = [](std::string_view from, std::string_view to) {
    return R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],)"
           R"("data_offsets":[)" +
           std::string(from) + "," + std::string(to) + "]}}";
  };
  EXPECT_TRUE(parse_safetensors_header(header("4", "8"), "x"));
  auto shared = parse_safetensors_header(header("2", "6"), "x");
  ASSERT_FALSE(shared);
  EXPECT_NE(shared.error().message.find("tensors a and b share bytes"), std::string::npos);
}

std::string gguf_text(const std::string& text) {
  return little_endian(text.size(), 8) + text;
}

std::string gguf_number(const std::string& key, std::uint64_t value) {
  return gguf_text(key) + little_endian(4, 4) + little_endian(value, 4);
}

std::string gguf_tensor(const std::string& name, std::vector<std::uint64_t> sides,
                        std::uint32_t type) {
  std::string bytes = gguf_text(name) + little_endian(sides.size(), 4);
  for (std::uint64_t side : sides) bytes += little_endian(side, 8);
  return bytes + little_endian(type, 4) + little_endian(0, 8);
}

std::string small_gguf(std::uint64_t layers = 1) {
  std::string bytes = "GGUF" + little_endian(3, 4) + little_endian(4, 8) + little_endian(6, 8);
  bytes += gguf_text("general.architecture") + little_endian(8, 4) + gguf_text("llama");
  bytes += gguf_number("llama.attention.head_count", 2);
  bytes += gguf_number("llama.attention.head_count_kv", 1);
  bytes += gguf_number("llama.embedding_length", 32);
  bytes += gguf_number("llama.block_count", layers);
  bytes += gguf_text("tokenizer.ggml.tokens") + little_endian(9, 4) + little_endian(8, 4) +
           little_endian(2, 8) + gguf_text("a") + gguf_text("b");
  bytes += gguf_tensor("token_embd.weight", {32, 10}, 1);
  bytes += gguf_tensor("blk.0.attn_q.weight", {32, 32}, 2);
  bytes += gguf_tensor("blk.0.attn_norm.weight", {32}, 0);
  bytes += gguf_tensor("output.weight", {32, 10}, 8);
  return bytes;
}

TEST(Gguf, shapes_types_and_heads_are_read) {
  auto model = read_model(temporary("small.gguf", small_gguf()), {});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(count_parameters(*model).total, 320u + 1024 + 32 + 320);
  // 3 causal pairs; 2 heads of 16: 4·16·2 a pair.
  EXPECT_EQ(flop_per_step(*model, {.phase = Phase::forward, .sequence = 2})->model_flop.low(),
            2u * 2 * (1024 + 320) + 3 * 128);
  // f16 640; Q4_0 1024/32·18; f32 128; Q8_0 320/32·34.
  EXPECT_EQ(bytes_per_step(*model, {.phase = Phase::decode, .context = 1})->weights,
            640u + 576 + 128 + 340);
}

TEST(Gguf, more_layers_than_the_tensors_describe_are_said_or_refused) {
  for (std::uint64_t absurd : {0ull, 1'000'000'000ull}) {
    auto model = read_model(temporary("absurd.gguf", small_gguf(absurd)), {});
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find("block_count"), std::string::npos);
  }
  auto part = read_model(temporary("part.gguf", small_gguf(80)), {});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->notes[0].code, "layers_elsewhere");
  EXPECT_EQ(part->notes[0].values[1].second, NoteValue(std::int64_t{1}));
  EXPECT_EQ(part->notes[0].values[2].second, NoteValue(std::int64_t{80}));
}

TEST(Gguf, cut_and_mutated_headers_never_crash) {
  std::string whole = small_gguf();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_gguf_header(whole.substr(0, length), "x"));
  }
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string mutated = whole;
    for (int edit = 0; edit < 1 + trial % 3; ++edit) {
      mutated[random() % mutated.size()] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    auto file = parse_gguf_header(mutated, "x");
    if (!file) continue;
    auto model = model_of_tensors(*file);
    if (model) (void)flop_per_step(*model, {.phase = Phase::train, .sequence = 9});
  }
}

}  // namespace
}  // namespace mfu
