// Which peak stands against a data type of a run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mfu/run.h"

namespace mfu {

struct TypePeak {
  FlopRate rate;
  std::string source;
  std::string against;  // the type it is of
};

// None where the device is unknown or has no unit that computes such a type. `tf32`: fp32 matmuls
// were allowed to run in it.
std::optional<TypePeak> peak_of_type(const RunQuestion& question, std::string_view type, bool tf32);

}  // namespace mfu
