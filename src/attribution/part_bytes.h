// Turns what is kept of a trace into bytes and back (docs/formats/part.md). The reader trusts
// nothing: it refuses what does not fit together, so that attribute() may rely on the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attribution/part.h"

namespace mfu {

std::string pack_outline(const TraceOutline& outline);
std::string pack_ranks(const std::vector<RankPart>& ranks);

// Fails with `malformed` and says what is wrong.
Result<TraceOutline> unpack_outline(std::string_view bytes);
Result<std::vector<RankPart>> unpack_ranks(std::string_view bytes, const TraceOutline& outline);

}  // namespace mfu
