// What one thread is doing, as far as counting cares, and the switch that all threads look at. The
// hot path reads both before anything else; nobody but the thread itself writes its own.
#pragma once

#include <atomic>
#include <cstdint>

namespace c10 {
struct AutogradState;
}
namespace mfu {
struct RegionBlock;
class Recorder;
}  // namespace mfu

namespace mfu::observer {

// What the work of a thread is part of. A change of it is where passes begin and end.
enum class Pass : std::uint8_t { none, training, backward, forward_only };

struct Thread {
  // Looked up once a thread, by bind_thread(): each lookup is a call into another library.
  const c10::AutogradState* autograd = nullptr;
  Recorder* recorder = nullptr;  // null: not bound yet
  RegionBlock* const* block = nullptr;
  std::uint32_t quiet = 0;         // inside a counted operator, or compiling: nothing counts
  std::uint32_t recomputing = 0;   // checkpointing runs a forward again
  std::uint32_t checkpointed = 0;  // a forward that runs without grad and will be run again
  std::uint32_t optimizing = 0;    // inside Optimizer.step
  bool checking = false;           // the self-check: sums of the thread only
  int graph_task = -1;             // of the last counted operator
  Pass pass = Pass::none;
  std::uint64_t epoch_seen = 0;  // count.cc: where this thread's forward began
  std::uint64_t forward_only_start_ns = 0;
  // Sums of this thread, for differences around a call.
  std::uint64_t hardware_flop = 0, model_flop = 0, recomputed_flop = 0, calls = 0;
  // Lookups of the pass under way, in the widest table it met.
  std::uint64_t lookup_rows = 0, lookup_samples = 0;
};

inline thread_local constinit Thread this_thread;

// The same, looked up once: else the compiler, seeing that a reference can only be to this, looks
// it up again (a call) instead of keeping it.
inline Thread& found_thread() noexcept {
  Thread* thread = &this_thread;
  asm("" : "+r"(thread));
  return *thread;
}

// Bits of `mode`: hot paths go on only where it is exactly kCounting.
inline constexpr std::uint32_t kCounting = 1;
inline constexpr std::uint32_t kPending = 2;  // operators were defined that are not registered yet
inline constinit std::atomic<std::uint32_t> mode{0};

// Nothing below a counted operator counts again.
class Quiet {
 public:
  explicit Quiet(Thread& thread) : thread_(thread) { ++thread_.quiet; }
  ~Quiet() { --thread_.quiet; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  Thread& thread_;
};

}  // namespace mfu::observer
