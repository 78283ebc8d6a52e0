// Reads the numbers of a trace from their characters, because a double holds 1.7e15 µs only to a
// quarter of a microsecond.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mfu {

// Converts microseconds as written ("1695835542481129", "1365627862814.773", "-3", "1.7e15", also
// in quotes) to nanoseconds, rounded half away from zero. Empty if it is no number or does not fit.
std::optional<std::int64_t> parse_ns(std::string_view microseconds);

// An integer as written; "5.0" and "1e3" are integers too. Beyond 64 bits it wraps, so that ids
// stay distinct. Empty if it is not an integer.
std::optional<std::int64_t> parse_id(std::string_view token);

}  // namespace mfu
