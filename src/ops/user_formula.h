// Formulas that users write for operators and kernels: whole numbers, + - * / // % ( ), min, max,
// cdiv, names that `where` defines, and what a call's arguments say: a0.shape[1], a2.numel, a1.dim,
// a3 (an integer), result.shape[0]. Bounded in length and depth. A number beyond 64 bits or an
// argument that is not there is an Error.
#pragma once

#include "ops/formula.h"

namespace mfu {

// The FLOP of one call.
Result<std::uint64_t> user_flop(const UserFormula& formula, const Call& call);

// What add_formula() was given under that name; null: nothing.
const Operator* find_user_operator(std::string_view name);

Result<OperatorCost> user_cost(const UserLayout& layout, const Call& call);

}  // namespace mfu
