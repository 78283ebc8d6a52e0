// For the tests: the ledger by brute force, each nanosecond by the rules as docs/ledger.md states
// them, with none of the code that is tested but the reader and the costs of operators.
#pragma once

#include "attribution/attribute.h"

namespace mfu {

// Of the trace's device 0 with one peak for every type. Slow: quadratic in events × nanoseconds.
Ledger reference_ledger(const Trace& trace, const Window& window,
                        const AttributionOptions& options);

}  // namespace mfu
