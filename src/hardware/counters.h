// What the counters need from the kernel and libpfm4, as an interface, so that they can be tested
// on a machine without counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mfu/machine.h"

namespace mfu {

// Gives the code of an event by its libpfm4 name, opens a counter for it, and reads the counter.
class CounterSystem {
 public:
  virtual ~CounterSystem() = default;

  // Fails with `not_found` if the processor has no such event, and with `unsupported` if libpfm4 is
  // missing.
  virtual Result<std::uint64_t> encode(const std::string& event) = 0;

  // Returns a descriptor, or minus the errno of perf_event_open.
  virtual int open(std::uint64_t config, const CounterOptions& options) = 0;
  virtual void close(int descriptor) = 0;

  // How many times 128 bits an SVE vector of this process has. 1 if there is no SVE.
  virtual std::uint64_t vector_units() { return 1; }

  struct Count {
    std::uint64_t value = 0, enabled_ns = 0, running_ns = 0;
  };
  virtual Result<Count> read(int descriptor) = 0;
};

std::unique_ptr<CounterSystem> linux_counters();

class CounterOpener {
 public:
  static Result<FlopCounters> open(std::unique_ptr<CounterSystem> system,
                                   const CounterOptions& options);
};

}  // namespace mfu
