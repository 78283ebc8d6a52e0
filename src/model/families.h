// The table of every family file, and the builders that multimodal families share.
#pragma once

#include <span>

#include "model/decoder.h"

namespace mfu {

std::span<const Family> llama_families();
std::span<const Family> llama_variant_families();
std::span<const Family> gemma_families();
std::span<const Family> gemma4_families();
std::span<const Family> gemma4_media_families();
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
std::span<const Family> bart_families();
std::span<const Family> albert_families();
std::span<const Family> zamba_families();
std::span<const Family> contrastive_families();
std::span<const Family> internvl_families();

// The family of a model type. Null if there is none.
const Family* find_family(std::string_view type);

// Adds the decoder of a multimodal config, from its text_config or from the top level of older
// files. `tied` is the outer class's default; if none, the decoder's own setting counts.
void add_text_decoder(const Fields& config, ModelSpec& model, std::string_view fallback_type,
                      std::optional<bool> tied);
// Whether the config has a vision part. If not, a note says so.
bool has_vision(const Fields& config, ModelSpec& model);
// The attentions of the text stream. Its stages begin at `first`.
std::vector<Attention*> text_attentions(ModelSpec& model, std::size_t first);

}  // namespace mfu
