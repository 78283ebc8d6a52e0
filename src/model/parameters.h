// Counts the parameters of components, for counting, planning and bytes.
#pragma once

#include "mfu/model.h"

namespace mfu {

std::uint64_t parameters_of(const Component& component);         // those that are stored
std::uint64_t active_parameters_of(const Component& component);  // those that one token uses
bool is_embedding(Part part);

// Fails with `malformed` if a count would not fit 63 bits. Then the sizes in the config cannot be
// right.
Result<void> check_parameters(const ModelSpec& model, std::string_view file);

}  // namespace mfu
