// FLOPs of one component, forward and backward.
#pragma once

#include "model/resolved_work.h"

namespace mfu {

FlopCount forward_flop(const Component& component, const ResolvedWork& load, Counting counting);

// What the backward pass computes: gradients of those inputs that need one, and gradients of
// trained weights.
struct BackwardNeed {
  std::uint8_t wires = 0xff;  // values that need a gradient, before this component
  bool trained = true;
};
FlopCount backward_flop(const Component& component, const ResolvedWork& load, Counting counting,
                        const BackwardNeed& need);

// A LoRA pair of rank r next to a projection: A has in x r weights, B has r x out.
struct AdapterFlop {
  FlopCount forward, backward;
};
AdapterFlop adapter_flop(const Projection& projection, const ResolvedWork& load, Counting counting,
                         std::uint64_t rank, bool input_gradient);

// The FLOPs per token that the recurrence alone needs, for conventions.
std::uint64_t recurrence_flop_per_token(const Recurrence& recurrence);

// The pairs that a mask allows, summed over all sequences.
FlopCount total_pairs(const Attention& attention, const ResolvedWork& load, Counting counting);

}  // namespace mfu
