// Formulas that users write for operators and kernels. A formula has whole numbers, + - * / // % (
// ), min, max, cdiv, names that `where` defines, and values of a call's arguments: a0.shape[1],
// a2.numel, a1.dim, a3 (an integer), result.shape[0]. Length and depth are bounded. A number that
// does not fit 64 bits or an argument that is missing is an Error.
#pragma once

#include "ops/formula.h"

namespace mfu {

// The FLOP of one call.
Result<std::uint64_t> user_flop(const UserFormula& formula, const Call& call);

// The operator that add_formula() made for that name, or null.
const Operator* find_user_operator(std::string_view name);

Result<OperatorCost> user_cost(const UserLayout& layout, const Call& call);

}  // namespace mfu
