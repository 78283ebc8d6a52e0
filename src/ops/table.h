// The rows of the operator table, a file a family. The tests hold every row of a torch operator to
// torch's own schema.
#pragma once

#include <span>

#include "mfu/ops.h"

namespace mfu {

std::span<const Operator> matmul_rows();
std::span<const Operator> convolution_rows();
std::span<const Operator> attention_rows();
std::span<const Operator> other_rows();

}  // namespace mfu
