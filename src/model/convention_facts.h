// The quantities that conventions use: sums over the text decoder, and tokens and areas of the
// step.
#pragma once

#include <vector>

#include "model/resolved_work.h"

namespace mfu {

struct AttentionFacts {
  Mask mask;
  std::uint64_t layers = 0, heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
  bool latent = false;
};

struct ModelFacts {
  std::uint64_t parameters = 0, active = 0, embedding = 0, vision = 0;
  // Weights of matrix multiplies that a token uses, without biases. The head counts once, whether
  // it is tied or not.
  std::uint64_t matmul = 0, router = 0, head = 0;
  std::uint64_t layers = 0, hidden = 0, vocab = 0, ffn = 0;
  bool tied = false, gated = true;
  std::uint64_t experts = 0, experts_active = 0, expert_width = 0;
  std::vector<AttentionFacts> attention;
  std::uint64_t scan_state = 0;   // Σ over Mamba layers of d_inner·N
  std::uint64_t delta_state = 0;  // Σ over delta-rule layers of heads·d_k·d_v
  std::uint64_t convolution = 0;  // Σ over delta-rule layers of kernel·channels
};
ModelFacts facts_of(const ModelSpec& model, bool mtp);  // mtp: include the prediction layers

// Forward FLOPs of attention scores and values: 2·H·(d_qk + d_v) per pair. `Area` says which pairs
// count.
enum class Area : std::uint8_t {
  square,        // s²
  causal,        // s²/2, windows ignored
  windowed,      // s²/2, s·w - w²/2 in a window, Σc²/2 in chunks, s·k - k²/2 for top-k
  clamped,       // s·min(s, w)
  clamped_half,  // half of that
};
FlopCount attention_forward(const ModelFacts& facts, const ResolvedWork& load, Area area);

// Σ over sequences of new tokens x tokens that they could see.
FlopCount square_area(const ResolvedWork& load);

}  // namespace mfu
