// FLOPs of one component, forward and backward.
#pragma once

#include "model/resolved_work.h"

namespace mfu {

FlopCount forward_flop(const Component& component, const ResolvedWork& load, Counting counting);

// What the backward pass computes: gradients of inputs whose wires carry one, and of the weights
// where they are trained.
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

// The recurrence alone, for conventions: FLOPs a token of what is needed.
std::uint64_t recurrence_flop_per_token(const Recurrence& recurrence);

// Pairs a mask lets through, of all sequences that these rows belong to.
FlopCount total_pairs(const Attention& attention, const ResolvedWork& load, Counting counting);

}  // namespace mfu
