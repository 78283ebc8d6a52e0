// FLOPs as the processor's own counters saw them retire: a second opinion beside what was counted
// from operators. By Linux perf_event; the events' encodings come from libpfm4, opened at run time.
//
//   auto counters = mfu::FlopCounters::open({});
//   if (!counters) std::puts(counters.error().message.c_str());  // a virtual machine has none
//   …work, in threads started from here on…
//   auto retired = counters->read();  // retired->flop, and how much of the time was counted
//
// What they see: every floating-point addition, multiplication and fused multiply-add (two) of the
// vector and scalar units, also of softmax, norms and elementwise work, so it lies above the
// matmuls' count. What they do not: AMX and other matrix units, integer multiplies, a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

struct CounterOptions {
  // Whose work: 0 is the calling thread; else a thread's or process's main thread's number.
  // Threads and processes it starts later are counted with it, those it has already are not.
  std::int64_t process = 0;
  bool start_at_exec = false;  // count only from its next exec on
};

struct RetiredFlop {
  FlopCount flop;                 // of all widths and types; scaled up where counters took turns
  std::optional<FlopCount> fp64;  // of these in double precision; AMD's counter does not tell
  // The least share of its time that any event had a counter: below 1 the figures are estimates.
  Fraction counted;
};

// Move-only; closing it stops the counting.
class FlopCounters {
 public:
  // Fails with `unsupported`, saying why and what mends it: no libpfm4, a processor it knows no
  // such event for, a kernel that refuses (perf_event_paranoid), a machine without counters.
  static Result<FlopCounters> open(const CounterOptions& options);

  // Since open. Cheap: one system call an event.
  Result<RetiredFlop> read() const;

  // As libpfm4 calls them: "FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", …
  const std::vector<std::string>& events() const;

  FlopCounters(FlopCounters&&) noexcept;
  FlopCounters& operator=(FlopCounters&&) noexcept;
  ~FlopCounters();

 private:
  friend class CounterOpener;
  struct State;
  explicit FlopCounters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu
