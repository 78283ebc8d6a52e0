// Parameters of components, for counting, planning and bytes.
#pragma once

#include "mfu/model.h"

namespace mfu {

std::uint64_t parameters_of(const Component& component);         // stored
std::uint64_t active_parameters_of(const Component& component);  // that one token visits
bool is_embedding(Part part);

// `malformed` where a count would not fit 63 bits: the sizes of the config cannot be meant.
Result<void> check_parameters(const ModelSpec& model, std::string_view file);

}  // namespace mfu
