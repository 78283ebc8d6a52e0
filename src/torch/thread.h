// What one thread is doing, as far as counting cares, and the switch that all threads look at. The
// hot path reads both before anything else; nobody but the thread itself writes its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "record/region.h"
#include "torch/pass_parts.h"

namespace at {
class Tensor;
}
namespace c10 {
struct AutogradState;
}
namespace mfu {
class Recorder;
}  // namespace mfu

namespace mfu::observer {

// What the work of a thread is part of. A change of it is where passes begin and end. `recorded`:
// autograd keeps what a backward would need; `plain`: nothing can come back to it.
enum class Pass : std::uint8_t { none, recorded, backward, plain };

// FLOPs by data type since the thread began, wrapping: for differences.
struct Sums {
  std::uint64_t calls = 0, hardware_flop = 0, model_flop = 0, recomputed_flop = 0, bytes = 0;
};

// One table looked up within a pass.
struct Lookup {
  const void* table = nullptr;            // its storage
  const at::Tensor* parameter = nullptr;  // the table itself, while the call lasts
  std::uint64_t rows = 0;                 // of the table
  std::uint64_t tokens = 0;               // indices
  std::uint64_t sizes[2] = {};            // the first two dimensions of the indices; 0: not there
  std::uint64_t width = 0;                // columns of the table
};
inline constexpr std::size_t kLookups = 4;

// Positions that masks and labels leave out of a pass, as far as they were seen (padding.cc).
struct Padding {
  std::uint64_t keys = 0, masked = 0;     // of the first self-attention, all sequences together
  std::uint64_t labels = 0, ignored = 0;  // of the losses
  std::uint64_t given = 0, left_out = 0;  // of the labels before they were shifted
  bool looked = false, unread = false;    // the first attention; values on a device, not waited for
};

// The forward pass under way in a thread, as far as it is known (passes.cc).
struct OpenPass {
  std::uint64_t id = 0;  // 0: none is open
  std::uint64_t start_ns = 0;
  std::uint64_t first_node = 0;        // autograd's sequence number
  const void* first_weight = nullptr;  // storage of the first operator's, where that was no lookup
  std::int64_t first_offset = 0;
  std::array<Lookup, kLookups> lookups{};
  std::uint32_t lookup_count = 0;
  std::uint64_t start_calls = 0;          // of the thread: more since, and it computes
  std::uint64_t leading = 0;              // of the first counted operator
  std::uint64_t rows = 0, next_rows = 0;  // of the first two products with a weight
  bool watching = true;                   // the two are not known yet
  std::uint64_t queries = 0, keys = 0;    // of the first attention; 0: none seen
  std::uint64_t cross_keys = 0;           // of the second, where it differs
  std::uint64_t used_keys = 0;  // of the first, by its mask: the most of a sequence; 0: not known
  // What the last softmax over scores attended to: of how many keys, the most of a sequence, and of
  // all sequences together. 0: not seen.
  std::uint64_t scored_keys = 0, scored_longest = 0, scored_all = 0;
  std::uint64_t batch = 0;             // as attention or a recurrent layer says it
  std::uint64_t inner = 0, outer = 0;  // of the batched product before, for attention made of two
  std::uint32_t model = 0;
  bool met_loss = false, fetched = false, evaluates = false;
  bool first = false;   // since a batch, a backward or a step: its sequences are new samples
  bool marked = false;  // it began with a sign of its own, not by a change of grad mode alone
  // Rows of the table that a head would make logits of; 0: what follows a head is not asked for.
  std::uint64_t head_columns = 0;
  bool headed = false;  // logits were made: another model may come now
  bool loops = false;   // calls of its model use its first weight again
  bool amid = false;    // in the midst of a recorded one, or between backward and step
  Padding padding;
  std::uint64_t attention_calls = 0;  // of the thread, when the last attention was done; 0: none
  std::uint64_t idle_ns = 0;          // of the process, when it began (idle_watch.h)
  PassBytes bytes;
  Packed packed;
};

struct Thread {
  // Looked up once a thread, by bind_thread(): each lookup is a call into another library.
  const c10::AutogradState* autograd = nullptr;
  Recorder* recorder = nullptr;  // null: not bound yet
  RegionBlock* const* block = nullptr;
  std::uint32_t quiet = 0;        // inside a counted operator, or compiling: nothing counts
  std::uint32_t recomputing = 0;  // checkpointing runs a forward again
  std::uint32_t recorded = 0;     // inside a custom Function that autograd keeps
  std::uint32_t unrecorded = 0;   // inside one that it does not
  std::uint32_t optimizing = 0;   // inside Optimizer.step
  bool closure = false;           // … which ran a pass itself: its time is not the optimizer's
  // Where a call goes: to the counters, to the thread's sums alone (the self-check), or to the
  // graph that is being captured.
  enum class Aside : std::uint8_t { no, checking, capturing };
  Aside aside = Aside::no;
  int graph_task = -1;  // of the last counted operator
  Pass pass = Pass::none;
  std::int16_t device = -1;             // type << 8 | index of the last counted operator
  bool fetched = false;                 // a batch came since the last pass
  std::uint64_t epoch_seen = 0;         // count.cc: where this thread's forward began
  std::uint64_t columns = 0;            // of the last matrix product
  std::uint64_t product_rows = 0;       // of the same
  std::uint64_t product_inner = 0;      // of the same
  std::uint32_t passes_of_epoch = 0;    // begun by the first weight's coming again
  std::uint32_t lookups_missed = 0;     // backward operators that belonged to no pass we wait for
  std::uint64_t training_start_ns = 0;  // of a backward and what follows it; 0: none
  std::uint64_t gap_start_ns = 0;       // nothing was computed since; 0: something is
  std::uint64_t calls = 0;
  std::array<Sums, kRegionTypes> sums{};    // of this thread
  std::array<Sums, kRegionTypes> booked{};  // what a pass has of them already
  OpenPass open;
  OpenPass suspended;  // a recorded pass that one without grad interrupts
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
inline constexpr std::uint32_t kCapturing = 4;  // a graph is captured: what runs is part of it
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
