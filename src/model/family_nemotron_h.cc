// Nemotron-H: a sequence of single blocks, each with its own norm. In its pattern M is Mamba-2, *
// attention, - an MLP and E experts.
#include "model/families.h"

namespace mfu {

namespace {

std::string read_pattern(const Fields& config) {
  std::string pattern = config.text({"hybrid_override_pattern"}, "");
  std::vector<std::string> types = config.texts({"layers_block_type", "layer_types"});
  if (!types.empty()) {
    pattern.clear();
    for (const std::string& type : types) {
      bool mamba = type == "mamba" || type == "linear_attention";
      bool attends = type == "attention" || type == "full_attention";
      pattern += mamba ? 'M' : attends ? '*' : type == "moe" ? 'E' : type == "mlp" ? '-' : '?';
    }
  }
  if (pattern.empty()) pattern = "ME*-";
  if (pattern.find_first_not_of("M*-E") != std::string::npos) {
    config.complain("hybrid_override_pattern", "has another letter than M, *, - and E");
    pattern.clear();
  }
  if (pattern.size() > 100'000) {
    config.complain("hybrid_override_pattern", "more than 100000 layers");
    pattern.clear();
  }
  return pattern;
}

Mamba2Block read_mamba(const Fields& config, std::uint64_t hidden) {
  Mamba2Block mamba;
  mamba.hidden = hidden;
  mamba.heads = config.size({"mamba_num_heads"}, 128);
  mamba.head_dim = config.size({"mamba_head_dim"}, 64);
  mamba.state = config.size({"mamba_state_dim", "ssm_state_size"}, 128);
  mamba.groups = config.size({"mamba_n_groups", "n_groups"}, 8);
  mamba.kernel = config.size({"mamba_d_conv", "conv_kernel"}, 4);
  mamba.chunk = config.size({"mamba_chunk_size", "chunk_size"}, 128);
  mamba.bias = mamba.out_bias = config.flag({"use_bias"}, false);
  mamba.conv_bias = config.flag({"mamba_conv_bias", "use_conv_bias"}, true);
  return mamba;
}

ExpertsBlock read_experts(const Fields& config, std::uint64_t hidden) {
  ExpertsBlock experts;
  experts.hidden = hidden;
  experts.gated = false;
  experts.experts = config.layers({"n_routed_experts"}, 8);
  experts.active = config.count({"num_experts_per_tok"}, 2);
  experts.width = config.size({"moe_intermediate_size"}, 7688);
  experts.shared_width = config.size({"moe_shared_expert_intermediate_size"}, 7688);
  experts.latent = config.count({"moe_latent_size"}, 0);
  experts.bias = false;
  experts.correction_bias = true;
  return experts;
}

void build_nemotron_h(const Fields& config, ModelSpec& model) {
  std::string pattern = read_pattern(config);
  Decoder decoder = read_decoder(
      config,
      {.layers = pattern.size(), .kv_heads = 8, .head_dim = 128, .ffn = 21504, .vocab = 131072});
  decoder.prefix = "model.";
  decoder.embedding = "embeddings";
  decoder.attention.head_dim = config.size({"attention_head_dim", "head_dim"}, 128);
  // The class has no biases in attention, whatever attention_bias says.
  decoder.mlp.gated = false;
  decoder.mlp.bias = config.flag({"mlp_bias"}, false);
  Place mixer{.prefix = "mixer."};
  std::vector<LayerKind> kinds(4);
  for (LayerKind& kind : kinds) add_norm(kind, "norm", NormKind::rms, decoder.hidden);
  add_mamba2(kinds[0], read_mamba(config, decoder.hidden), mixer);
  add_attention(kinds[1], decoder.attention, mixer);
  add_mlp(kinds[2], decoder.mlp, mixer);
  if (pattern.find('E') != std::string::npos) {
    add_experts(kinds[3], read_experts(config, decoder.hidden), mixer);
  }
  std::vector<std::uint32_t> order;
  for (char letter : pattern) {
    order.push_back(static_cast<std::uint32_t>(std::string_view("M*-E").find(letter)));
  }
  add_decoder_frame(config, decoder,
                    layer_stage("model.layers.", Stream::text, std::move(kinds), order), model);
}

}  // namespace

std::span<const Family> nemotron_families() {
  static constexpr Family kFamilies[] = {{"nemotron_h", build_nemotron_h}};
  return kFamilies;
}

}  // namespace mfu
