// Computes what the operators that a class ran cost, by the table of ops/: exactly, and as torch's
// FlopCounterMode would count them.
#pragma once

#include "base/json.h"
#include "mfu/measure.h"

namespace mfu {

// `answer` is what ask_class.py wrote. Fills in need, flopcounter and flopcounter_fused.
void price_operators(const Json& answer, Recompute recompute, ClassNeed& found);

Part part_named(std::string_view name);

}  // namespace mfu
