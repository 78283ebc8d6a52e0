// What the tests of this folder share: a small model, and folders that are deleted at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace mfu {

inline constexpr const char* kSmallLlama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,)"
    R"("intermediate_size":256,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":1000,)"
    R"("num_key_value_heads":4,"max_position_embeddings":512,"tie_word_embeddings":false})";

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() : folder_(::testing::TempDir() + "monitor." + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

// The folder also contains the queues that outlive their process.
class RegionTest : public FolderTest {
 protected:
  RegionTest() {
    std::filesystem::create_directories(regions_);
    ::setenv("MFU_REGION_DIR", regions_.c_str(), 1);
  }
  ~RegionTest() override { ::unsetenv("MFU_REGION_DIR"); }
  bool regions_left() const { return !std::filesystem::is_empty(regions_); }
  std::string regions_ = folder_ + "/region";
};

}  // namespace mfu
