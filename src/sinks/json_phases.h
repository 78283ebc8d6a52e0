// Writes the part of mfu.run/1 that says what passes were for.
#pragma once

#include "base/json.h"
#include "mfu/run.h"

namespace mfu {

// The name of a phase in JSON, such as "prefill".
std::string_view phase_name(RunPhase phase);

void write_phase(JsonWriter& json, const RunPhaseReport& phase);
// Writes `shares`, `windows` and `idle_ns`.
void write_windows(JsonWriter& json, const RunReport& report);

}  // namespace mfu
