// The part of mfu.run/1 that says what passes were for.
#pragma once

#include "base/json.h"
#include "mfu/run.h"

namespace mfu {

// "prefill", as JSON names them.
std::string_view phase_name(RunPhase phase);

void write_phase(JsonWriter& json, const RunPhaseReport& phase);
// `shares`, `windows` and `idle_ns`.
void write_windows(JsonWriter& json, const RunReport& report);

}  // namespace mfu
