// For the tests: computes the ledger by brute force, applying the rules of docs/ledger.md to each
// nanosecond. It shares only the reader and the operators' costs with the code under test.
#pragma once

#include "attribution/attribute.h"

namespace mfu {

// The ledger of device 0 of the trace, with one peak for every type. Slow: events × nanoseconds.
Ledger reference_ledger(const Trace& trace, const Window& window,
                        const AttributionOptions& options);

}  // namespace mfu
