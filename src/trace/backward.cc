// Forward, backward and recomputation.
#include <algorithm>
#include <vector>

#include "trace/link.h"

namespace mfu {

void link_backward(Trace& trace, const Unlinked& unlinked) {
  HostEvents& host = trace.host;
  (void)unlinked;
  host.forward.resize(host.size(), kNone);
  host.recomputed.resize(host.size(), 0);
}

}  // namespace mfu
