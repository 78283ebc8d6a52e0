#include "mfu/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "model/convention_facts.h"
#include "model/walk.h"

namespace mfu {
namespace {

constexpr std::array<ConventionRow, kConventionCount> kRows = {{
    {Convention::exact, "exact", "docs/formulas.md",
     "every matrix multiply that is needed, the mask's true area, the head once, lookups free"},
    {Convention::palm, "palm", "arXiv 2204.02311 appendix B; nanoGPT model.py estimate_mfu",
     "6N with all parameters, and the full square of attention"},
    {Convention::megatron, "megatron",
     "Megatron-LM megatron/training/training.py num_floating_point_operations",
     "half the square of attention, windows ignored, router left out"},
    {Convention::maxtext, "maxtext",
     "MaxText maxtext_utils.py calculate_tflops_training_per_device",
     "half the square, windows cut as s·w - w²/2, router in"},
    {Convention::torchtitan, "torchtitan", "torchtitan models get_nparams_and_flops",
     "6(N - embedding), norms among them, and the full square of attention"},
    {Convention::llmc, "llmc", "llm.c train_gpt2.cu gpt2_estimate_mfu",
     "6N with all parameters, and half the square of attention over the hidden width"},
    {Convention::verl, "verl", "verl utils/flops_counter.py",
     "the embedding billed as a matrix multiply; half the square; windows halved again"},
    {Convention::llamafactory, "llamafactory", "LLaMA-Factory scripts/stat_utils/cal_mfu.py",
     "full square; heads taken as hidden wide; experts as one dense MLP; half a tied head"},
    {Convention::levanter, "levanter", "Levanter utils/flop_utils.py lm_flops_per_token",
     "full square and 3 a score for the mask; heads taken as hidden / heads wide"},
    {Convention::open_instruct, "open-instruct", "open-instruct open_instruct/utils.py ModelDims",
     "full square clamped to windows, 4 a score for the softmax, the activation; no experts"},
    {Convention::trl, "trl", "TRL trainer utilities, MFU callback",
     "full square; an untied embedding billed as a matrix multiply"},
    {Convention::flopcounter, "flopcounter", "torch.utils.flop_counter on the Hugging Face class",
     "what eager code executes: full square, its detours and its miscounts"},
    {Convention::flopcounter_fused, "flopcounter-fused",
     "torch.utils.flop_counter with scaled_dot_product_attention",
     "the same with fused attention, whose backward computes the scores again"},
    {Convention::six_n, "6n", "arXiv 2001.08361 §2.1", "6N alone: attention scores left out"},
}};

// The FLOPs of one forward pass: of the weights that tokens use, and of attention.
struct Terms {
  FlopCount weights;    // counted the same way in the backward pass
  FlopCount attention;  // scores and values
};

struct Inputs {
  ModelFacts facts;
  const ResolvedWork& load;
};

FlopCount tokens(const Inputs& in) {
  return in.load.sums.tokens;
}

FlopCount per_weight(const Inputs& in, std::uint64_t weights) {
  return tokens(in) * 2 * weights;
}

Terms palm_terms(const Inputs& in) {
  return {per_weight(in, in.facts.active), attention_forward(in.facts, in.load, Area::square)};
}

Terms six_n_terms(const Inputs& in) {
  return {per_weight(in, in.facts.active), 0};
}

Terms llmc_terms(const Inputs& in) {
  // 6·L·C·T per token: causal, over the hidden width.
  FlopCount doubled = square_area(in.load);
  return {per_weight(in, in.facts.active), doubled * 2 * in.facts.layers * in.facts.hidden};
}

Terms megatron_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  FlopCount recurrences =
      tokens(in) * (7 * facts.scan_state + 8 * facts.delta_state + 2 * facts.convolution);
  return {per_weight(in, facts.matmul - facts.router) + recurrences,
          attention_forward(facts, in.load, Area::causal)};
}

Terms maxtext_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  FlopCount recurrences = tokens(in) * (8 * facts.delta_state + 2 * facts.convolution);
  return {per_weight(in, facts.matmul) + recurrences,
          attention_forward(facts, in.load, Area::windowed)};
}

Terms torchtitan_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  std::uint64_t embedding = facts.tied ? 0 : facts.embedding;
  std::uint64_t left_out = std::min(facts.active, embedding + facts.vision);
  return {per_weight(in, facts.active - left_out), attention_forward(facts, in.load, Area::square)};
}

Terms verl_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  return {per_weight(in, facts.matmul + facts.hidden * facts.vocab),
          attention_forward(facts, in.load, Area::clamped_half)};
}

Terms trl_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  std::uint64_t embedding = facts.tied ? 0 : facts.hidden * facts.vocab;
  return {per_weight(in, facts.matmul + embedding),
          attention_forward(facts, in.load, Area::square)};
}

// q and o count as h x h, k and v as their share of it.
std::uint64_t square_projections(const ModelFacts& facts) {
  const AttentionFacts& attention = facts.attention.front();
  std::uint64_t h = facts.hidden;
  return 2 * h * h + 2 * h * h * attention.kv_heads / attention.heads;
}

Terms llamafactory_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  std::uint64_t layer = 3 * facts.hidden * facts.ffn + square_projections(facts);
  FlopCount weights = tokens(in) * 2 * facts.layers * layer;
  // Half of 2·h·V, doubled if head and embedding are two matrices.
  FlopCount head = tokens(in) * facts.hidden * facts.vocab * (facts.tied ? 1 : 2);
  return {weights + head, square_area(in.load) * 4 * facts.layers * facts.hidden};
}

Terms levanter_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  std::uint64_t width = facts.experts != 0 ? facts.expert_width : facts.ffn;
  std::uint64_t mlp = (facts.gated || facts.experts != 0 ? 3 : 2) * facts.hidden * width;
  if (facts.experts != 0) {
    mlp = mlp * facts.experts_active + facts.hidden * facts.experts;
  }
  std::uint64_t layer = mlp + square_projections(facts);
  FlopCount weights =
      tokens(in) * 2 * (FlopCount(facts.layers) * layer + FlopCount(facts.hidden) * facts.vocab);
  FlopCount scores =
      square_area(in.load) * facts.layers * (4 * facts.hidden + 3 * facts.attention.front().heads);
  return {weights, scores};
}

Terms open_instruct_terms(const Inputs& in) {
  const ModelFacts& facts = in.facts;
  FlopCount weights = tokens(in) * 2 * facts.head;
  for (const AttentionFacts& layer : facts.attention) {
    std::uint64_t width = layer.heads * layer.qk_dim;
    std::uint64_t projections =
        facts.hidden * (2 * width + layer.kv_heads * (layer.qk_dim + layer.v_dim));
    std::uint64_t mlp = 2 * (projections + 3 * facts.hidden * facts.ffn) + facts.ffn;
    weights += tokens(in) * layer.layers * mlp;
  }
  FlopCount scores = attention_forward(facts, in.load, Area::clamped);
  // The softmax counts 4 per score, in addition to 2·(d_qk + d_v).
  FlopCount softmax;
  for (const AttentionFacts& layer : facts.attention) {
    ModelFacts one;
    one.attention = {layer};
    one.attention[0].qk_dim = 2;
    one.attention[0].v_dim = 0;
    softmax += attention_forward(one, in.load, Area::clamped);
  }
  return {weights, scores + softmax};
}

constexpr std::string_view kVerlTypes[] = {
    "llama",    "qwen2",        "qwen2_moe",   "qwen2_vl", "qwen2_5_vl",  "qwen3",    "qwen3_moe",
    "qwen3_vl", "qwen3_vl_moe", "deepseek_v3", "mistral",  "gemma3_text", "seed_oss", "apertus",
    "gpt_oss",  "mimo",         "minicpmv",    "minicpmo", "glm4v",       "shape"};

// Why a convention does not define this model, as a code. Empty if it does.
std::string_view why_undefined(Convention convention, const ModelSpec& model,
                               const ModelFacts& facts) {
  if (convention == Convention::exact || convention == Convention::flopcounter ||
      convention == Convention::flopcounter_fused) {
    return "";
  }
  if (model.vision_only) return "vision_model";
  for (const Stage& stage : model.stages) {
    if (stage.stream == Stream::encoder) return "encoder_decoder";
  }
  if (convention == Convention::palm || convention == Convention::six_n) return "";
  if (model.encoder_only) return "not_a_causal_decoder";
  if (convention == Convention::torchtitan || convention == Convention::megatron) return "";
  if (facts.attention.empty() || facts.scan_state != 0) {
    return "state_space_layers";
  }
  bool grouped_only = convention == Convention::open_instruct || convention == Convention::levanter;
  if (grouped_only && facts.attention.front().latent) return "latent_attention";
  if (convention == Convention::verl) {
    bool known =
        std::find(std::begin(kVerlTypes), std::end(kVerlTypes), model.type) != std::end(kVerlTypes);
    if (!known) return "type_counted_as_0";
  }
  return "";
}

Terms terms_of(Convention convention, const Inputs& in) {
  switch (convention) {
    case Convention::palm:
      return palm_terms(in);
    case Convention::megatron:
      return megatron_terms(in);
    case Convention::maxtext:
      return maxtext_terms(in);
    case Convention::torchtitan:
      return torchtitan_terms(in);
    case Convention::llmc:
      return llmc_terms(in);
    case Convention::verl:
      return verl_terms(in);
    case Convention::llamafactory:
      return llamafactory_terms(in);
    case Convention::levanter:
      return levanter_terms(in);
    case Convention::open_instruct:
      return open_instruct_terms(in);
    case Convention::trl:
      return trl_terms(in);
    default:
      return six_n_terms(in);
  }
}

ConventionCount walked(const ModelSpec& model, const Workload& work, const ResolvedWork& load,
                       Counting counting, const TrainingPlan* plan) {
  FlopNeed need = walk_model(
      model, load,
      {.counting = counting, .plan = plan, .recompute = work.recompute, .mtp = work.mtp});
  return {need.model_flop, need.hardware_flop, ""};
}

}  // namespace

const ConventionRow& describe(Convention convention) {
  return kRows[static_cast<std::size_t>(convention)];
}

std::vector<Convention> all_conventions() {
  std::vector<Convention> all;
  for (const ConventionRow& row : kRows) all.push_back(row.convention);
  return all;
}

Result<Convention> parse_convention(std::string_view name) {
  std::vector<std::string> names;
  for (const ConventionRow& row : kRows) {
    if (row.name == name) return row.convention;
    names.emplace_back(row.name);
  }
  std::vector<std::string> near = closest(name, names, 3);
  return fail(ErrorCode::not_found, fmt::format("no convention \"{}\": {} {}", name,
                                                near.empty() ? "one of" : "did you mean",
                                                fmt::join(near.empty() ? names : near, ", ")));
}

Result<ConventionCount> flop_by_convention(const ModelSpec& model, const Workload& work,
                                           Convention convention,
                                           const ConventionOptions& options) {
  ResolvedWork load = MFU_TRY(resolve_work(model, work));
  if (convention == Convention::exact) {
    return walked(model, work, load, Counting::needed, options.plan);
  }
  if (convention == Convention::flopcounter) {
    return walked(model, work, load, Counting::executed, options.plan);
  }
  if (convention == Convention::flopcounter_fused) {
    return walked(model, work, load, Counting::executed_fused, options.plan);
  }
  bool predicts = convention == Convention::megatron || convention == Convention::maxtext;
  Inputs in{facts_of(model, work.mtp && predicts), load};
  std::string undefined(why_undefined(convention, model, in.facts));
  if (!undefined.empty()) return ConventionCount{{}, {}, undefined};
  if (options.parameters) in.facts.active = *options.parameters;
  Terms terms = terms_of(convention, in);
  FlopCount passes = work.phase == Phase::train ? 3 : 1;
  ConventionCount count;
  FlopCount forward = terms.weights + terms.attention;
  count.model_flop = forward * passes;
  // As in llm-foundry: if everything is recomputed, 4/3 of the model's FLOPs.
  FlopCount again = work.phase != Phase::train               ? FlopCount(0)
                    : work.recompute == Recompute::full      ? forward
                    : work.recompute == Recompute::selective ? terms.attention
                                                             : FlopCount(0);
  count.hardware_flop = *count.model_flop + again;
  if (load.images != 0) count.why = "pictures_left_out";
  if (work.mtp && !predicts) count.why = "mtp_left_out";
  return count;
}

}  // namespace mfu
