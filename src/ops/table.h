// The rows of the operator table, one file per family. The tests compare every row of a torch
// operator with torch's own schema.
#pragma once

#include <span>

#include "mfu/ops.h"

namespace mfu {

std::span<const Operator> matmul_rows();
std::span<const Operator> convolution_rows();
std::span<const Operator> attention_rows();
std::span<const Operator> other_rows();

}  // namespace mfu
