// FLOPs of one component, forward and backward.
#pragma once

#include "model/resolved_work.h"

namespace mfu {

FlopCount forward_flop(const Component& component, const ResolvedWork& load, Counting counting);

// What the backward pass computes: gradients of the inputs that need one, and gradients of weights
// that are trained.
struct BackwardNeed {
  std::uint8_t wires = 0xff;  // those that need a gradient, before this component
  bool trained = true;
};
FlopCount backward_flop(const Component& component, const ResolvedWork& load, Counting counting,
                        const BackwardNeed& need);

// A LoRA pair of rank r beside a projection: A is in x r, B is r x out.
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
