// What is kept of a trace as bytes, and back (docs/formats/part.md). Reading believes nothing: what
// does not fit together is refused, so that attribute() may rely on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attribution/part.h"

namespace mfu {

std::string pack_outline(const TraceOutline& outline);
std::string pack_ranks(const std::vector<RankPart>& ranks);

// `malformed` says what is wrong.
Result<TraceOutline> unpack_outline(std::string_view bytes);
Result<std::vector<RankPart>> unpack_ranks(std::string_view bytes, const TraceOutline& outline);

}  // namespace mfu
