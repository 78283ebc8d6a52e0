// Notices an operator of a library that may multiply matrices without any operator of torch: its
// arguments and its result have the sizes of a product, and no operator wrote the result.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>

namespace mfu::observer {

// Whether calls of the operator could be products: it takes two tensors and returns or writes one.
bool takes_factors(const c10::FunctionSchema& schema);

// Whether one of the tensors that the call made has the sizes of a product of two of its arguments
// and was written past the dispatcher. Ask before the watch on writes ends (watch_writes()), which
// began before the call.
bool hides_product(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments,
                   std::span<const c10::IValue> results);

}  // namespace mfu::observer
