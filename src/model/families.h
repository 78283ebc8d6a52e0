// Every family file's table, and the builders that multimodal families borrow.
#pragma once

#include <span>

#include "model/decoder.h"

namespace mfu {

std::span<const Family> llama_families();
std::span<const Family> llama_variant_families();
std::span<const Family> gemma_families();
std::span<const Family> gemma4_families();
std::span<const Family> gpt_families();
std::span<const Family> moe_families();
std::span<const Family> deepseek_families();
std::span<const Family> ssm_families();
std::span<const Family> hybrid_families();
std::span<const Family> nemotron_families();
std::span<const Family> mamba_hybrid_families();
std::span<const Family> bert_families();
std::span<const Family> encoder_decoder_families();
std::span<const Family> vision_families();
std::span<const Family> multimodal_families();
std::span<const Family> diffusion_families();

// The family of a model type; null where nobody described it.
const Family* find_family(std::string_view type);

}  // namespace mfu
