// What one thread is doing, as far as counting needs it, and the switch that all threads read. The
// hot path reads both first. Only the thread itself writes its own state.
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

// What a thread's work is part of. Passes begin and end where this changes. `recorded`: autograd
// keeps what a backward would need. `plain`: no backward can use it.
enum class Pass : std::uint8_t { none, recorded, backward, plain };

// FLOPs by data type since the thread began. They wrap around; only differences are used.
struct Sums {
  std::uint64_t calls = 0, hardware_flop = 0, model_flop = 0, recomputed_flop = 0, bytes = 0;
};

// One table that was looked up in a pass.
struct Lookup {
  const void* table = nullptr;            // its storage
  const at::Tensor* parameter = nullptr;  // the table itself, during the call
  std::uint64_t rows = 0;                 // of the table
  std::uint64_t tokens = 0;               // indices
  std::uint64_t sizes[2] = {};  // the first two dimensions of the indices; 0 if there is none
};
inline constexpr std::size_t kLookups = 4;

// Positions that masks and labels leave out of a pass, as far as they were seen (padding.cc).
struct Padding {
  std::uint64_t keys = 0, masked = 0;     // of the first self-attention, over all sequences
  std::uint64_t labels = 0, ignored = 0;  // of the losses
  std::uint64_t given = 0, left_out = 0;  // of the labels before a shift
  bool looked = false, unread = false;    // first attention seen; some values were on a device
};

// The current forward pass of a thread, as far as it is known (passes.cc).
struct OpenPass {
  std::uint64_t id = 0;  // 0 if none is open
  std::uint64_t start_ns = 0;
  std::uint64_t first_node = 0;        // autograd's sequence number
  const void* first_weight = nullptr;  // the first operator's, unless that was a lookup
  std::int64_t first_offset = 0;
  std::array<Lookup, kLookups> lookups{};
  std::uint32_t lookup_count = 0;
  std::uint64_t lent_by = 0;      // the pass that made these lookups, if another pass did
  std::uint64_t start_calls = 0;  // calls of the thread so far; if there are more, it computes
  std::uint64_t leading = 0;      // of the first counted operator
  std::uint64_t rows = 0, next_rows = 0;  // of the first two products with a weight
  bool watching = true;                   // the two products are not known yet
  std::uint64_t queries = 0, keys = 0;    // of the first attention; 0 if none was seen
  std::uint64_t cross_keys = 0;           // of the second attention, if they differ
  std::uint64_t used_keys = 0;  // of the first, by its mask: the longest sequence; 0 if unknown
  // What the last softmax over scores attended to. Its sequences are known only if there are
  // several in one row of tokens.
  MaskRows scored;
  std::uint64_t batch = 0;             // as attention or a recurrent layer tells it
  std::uint64_t inner = 0, outer = 0;  // of the batched product before
  std::uint32_t model = 0;
  bool met_loss = false, fetched = false, evaluates = false;
  bool first = false;              // the first since a batch, backward or step: its samples are new
  bool marked = false;             // something else than a change of grad mode began it
  std::uint64_t head_columns = 0;  // of a head that makes logits; 0: nobody asks what follows it
  bool headed = false;             // logits were made, so another model may follow
  bool asks = false, leads = false;  // its call is remembered; only leads so far (models.h)
  bool loops = false;                // calls of its model use its first weight again
  bool amid = false;                 // inside a recorded pass, or between backward and step
  bool in_function = false;          // it began inside a custom Function that autograd keeps
  Padding padding;
  std::uint64_t attention_calls = 0;  // calls of the thread after its last attention; 0 if none
  std::uint64_t idle_ns = 0;          // idle time of the process when the pass began (idle_watch.h)
  PassBytes bytes;
  Packed packed;
};

struct Thread {
  const c10::AutogradState* autograd = nullptr;  // each lookup is a call into another library
  Recorder* recorder = nullptr;                  // null until the thread is bound
  RegionBlock* const* block = nullptr;
  std::uint32_t quiet = 0;        // inside a counted operator or a compiler, where nothing counts
  bool opened = false;            // except operators that a compiled graph calls by name (Opening)
  std::uint32_t recomputing = 0;  // checkpointing runs a forward again
  std::uint32_t recorded = 0;     // inside a custom Function that autograd keeps
  std::uint32_t unrecorded = 0;   // inside one that autograd does not keep
  std::uint32_t optimizing = 0;   // inside Optimizer.step
  bool closure = false;           // the step ran a pass itself, so its time is not the optimizer's
  // A call goes to the counters, to the thread's sums only (self-check), or to a captured graph.
  enum class Aside : std::uint8_t { no, checking, capturing };
  Aside aside = Aside::no;
  int graph_task = -1;  // of the last counted operator
  Pass pass = Pass::none;
  std::int16_t device = -1;      // type << 8 | index of the last counted operator
  std::int64_t stream = 0;       // of its pass on that device, if it runs behind the host
  bool fetched = false;          // a batch came since the last pass
  std::uint64_t epoch_seen = 0;  // the epoch in which this thread's forward began
  std::uint64_t columns = 0;     // of the last matrix product
  std::uint64_t product_rows = 0, product_inner = 0;  // of the same
  std::uint32_t passes_of_epoch = 0;      // passes that began because the first weight came again
  std::uint32_t lookups_missed = 0;       // backward operators that belonged to no waiting pass
  std::uint64_t training_start_ns = 0;    // of a backward and what follows it; 0 if none runs
  std::uint64_t gap_start_ns = 0;         // since when nothing was computed; 0 if something is
  std::uint64_t number = 0;               // as autograd's nodes have it
  std::uint64_t calls = 0, told = 0;      // told: its last pass that generated, 0 if there is none
  std::array<Sums, kRegionTypes> sums{};  // of this thread
  std::array<Sums, kRegionTypes> booked{};  // the part that passes already have
  OpenPass open;
  OpenPass suspended;  // a recorded pass, interrupted by one without grad
};

inline thread_local constinit Thread this_thread;

// The same object, looked up once: the compiler would look it up again with a call each time.
inline Thread& found_thread() noexcept {
  Thread* thread = &this_thread;
  asm("" : "+r"(thread));
  return *thread;
}
// Bits of `mode`. The hot paths go on only if it is exactly kCounting.
inline constexpr std::uint32_t kCounting = 1;
inline constexpr std::uint32_t kPending = 2;    // operators were defined and not registered yet
inline constexpr std::uint32_t kCapturing = 4;  // a graph is being captured
inline constinit std::atomic<std::uint32_t> mode{0};

// While this exists, nothing counts, because a counted operator covers what it calls.
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
