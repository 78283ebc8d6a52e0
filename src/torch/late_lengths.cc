#include "torch/late_lengths.h"

#include <c10/core/StorageImpl.h>
#include <unistd.h>

#include <deque>
#include <mutex>
#include <vector>

#include "torch/count.h"
#include "torch/late_copy.h"
#include "torch/pass_bytes.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kMostLate = 4096;  // calls of one thread
constexpr std::string_view kTooLate = "its lengths lie on the device and came too late";

// A call, with the data that its arguments point to.
struct LateCall {
  Watched* watched = nullptr;
  std::vector<Argument> arguments;
  std::deque<std::vector<std::int64_t>> room;
  struct Values {
    std::size_t place;
    std::shared_ptr<LateCopy> copy;  // null if they have already arrived
  };
  std::vector<Values> values;
  std::int64_t leading = 0;
  std::int16_t device = -1;
  bool again = false;  // checkpointing ran it again

  bool arrived() const {
    for (const Values& each : values) {
      if (each.copy && !each.copy->arrived()) return false;
    }
    return true;
  }
};

// Layers share their offsets, so one copy serves them all.
struct KnownCopy {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
  const c10::StorageImpl* address = nullptr;
  std::uint64_t version = 0;
  std::int64_t offset = 0, elements = 0;
  std::shared_ptr<LateCopy> copy;
};

struct LateCalls {
  std::mutex mutex;  // the owner's, except at the end of the program
  std::deque<LateCall> waiting;
  std::array<KnownCopy, 4> known;
  std::size_t next_known = 0;
};

struct AllCalls {
  std::mutex mutex;
  std::vector<LateCalls*> threads;
};
// Never destroyed: copies and events must not be released while the process ends.
AllCalls& all_calls() {
  static auto* instance = new AllCalls;
  return *instance;
}
thread_local constinit LateCalls* calls_of_thread = nullptr;

LateCalls& my_calls() {
  if (calls_of_thread == nullptr) {
    calls_of_thread = new LateCalls;
    std::lock_guard lock(all_calls().mutex);
    all_calls().threads.push_back(calls_of_thread);
  }
  return *calls_of_thread;
}

std::shared_ptr<LateCopy> copy_of(LateCalls& mine, const at::Tensor& tensor) {
  const c10::Storage& held = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const c10::StorageImpl* storage = held.unsafeGetStorageImpl();
  // Tensors of inference mode have no version, so they are read each time.
  bool versioned = !tensor.is_inference();
  std::uint64_t version = versioned ? static_cast<std::uint64_t>(tensor._version()) : 0;
  for (KnownCopy& each : mine.known) {
    bool same = each.address == storage && each.version == version &&
                each.offset == tensor.storage_offset() && each.elements == tensor.numel();
    if (same && versioned && !each.storage.expired()) return each.copy;
  }
  std::shared_ptr<LateCopy> copy = LateCopy::begin(tensor);
  if (!copy) return nullptr;
  KnownCopy& place = mine.known[mine.next_known++ % mine.known.size()];
  place.storage = c10::weak_intrusive_ptr<c10::StorageImpl>(held.getWeakStorageImpl());
  place.address = storage;
  place.version = version;
  place.offset = tensor.storage_offset();
  place.elements = tensor.numel();
  place.copy = copy;
  return copy;
}

LateCall kept(Watched& op, const Arguments& arguments) {
  LateCall call;
  call.watched = &op;
  call.leading = arguments.leading();
  call.device = arguments.device();
  for (const Argument& each : arguments.view()) {
    Argument own = each;
    own.text = {};
    own.values = {};
    call.room.emplace_back(each.integers.begin(), each.integers.end());
    own.integers = call.room.back();
    call.arguments.push_back(own);
  }
  return call;
}

bool is_list(const at::Tensor* tensor) {
  return tensor != nullptr && tensor->defined() && tensor->dim() == 1 &&
         (tensor->scalar_type() == at::kInt || tensor->scalar_type() == at::kLong);
}

// Counts as count_call does, except that its pass was entered when it was called.
void count_now(Thread& thread, const LateCall& call) {
  Result<OperatorCost> cost = cost_of(call.watched->row(), call.arguments);
  if (!cost.has_value()) return call.watched->count_unknown(thread, cost.error().message);
  if (thread.recorder == nullptr) bind_thread(thread);
  if (call.device != thread.device && call.device != -1) note_device(thread, call.device);
  std::uint64_t hardware = cost->hardware_flop.low(), model = cost->model_flop.low();
  std::uint64_t bytes = cost->read_bytes.value_or(0) + cost->written_bytes.value_or(0);
  unsigned type = type_id_of(cost->compute_type);
  Sums& sums = thread.sums[type % kRegionTypes];
  sums.calls += 1;
  sums.hardware_flop += hardware;
  sums.bytes += bytes;
  (call.again ? sums.recomputed_flop : sums.model_flop) += call.again ? hardware : model;
  thread.recorder->count(*thread.block, call.watched->number(), type,
                         {.hardware_flop = hardware,
                          .model_flop = call.again ? 0 : model,
                          .recomputed_flop = call.again ? hardware : 0,
                          .bytes = bytes});
}

// The lengths are in the host's memory, but there are more than fit on the stack.
void note_now(Thread& thread, const LateCall& call) {
  std::optional<PagedSizes> pages = paged_sizes(call.watched->row(), call.arguments);
  if (pages) note_paged(thread, *pages, type_id_of(call.arguments.front().type));
}

void take(Thread& thread, LateCall& call) {
  for (const LateCall::Values& each : call.values) {
    if (!each.copy) continue;
    call.room.push_back(integers_of(each.copy->host()));
    call.arguments[each.place].values = call.room.back();
  }
  count_now(thread, call);
}

// Copies arrive in order.
void settle(Thread& thread, LateCalls& calls, bool last) {
  while (!calls.waiting.empty()) {
    LateCall& next = calls.waiting.front();
    if (next.arrived()) {
      take(thread, next);
    } else if (last) {
      next.watched->list(thread, kTooLate);
    } else {
      return;
    }
    calls.waiting.pop_front();
  }
}

}  // namespace

bool count_packed(Thread& thread, Watched& op, const Arguments& arguments) noexcept {
  try {
    std::optional<std::size_t> place = offsets_argument(op.row(), arguments.view().size());
    if (!place || !is_list(arguments.tensor(*place))) return false;
    if (thread.aside != Thread::Aside::no) return false;
    LateCalls& mine = my_calls();
    std::lock_guard lock(mine.mutex);
    settle(thread, mine, false);
    if (mine.waiting.size() >= kMostLate) return false;
    LateCall call = kept(op, arguments);
    bool waits = false;
    for (std::size_t each : {*place, *place + 1}) {
      const at::Tensor* tensor = arguments.tensor(each);
      if (!is_list(tensor)) continue;  // keys have the queries' offsets
      if (tensor->is_cpu()) {
        call.room.push_back(integers_of(*tensor));
        call.arguments[each].values = call.room.back();
        continue;
      }
      std::shared_ptr<LateCopy> copy = copy_of(mine, *tensor);
      if (!copy) return false;
      call.values.push_back({each, std::move(copy)});
      waits = true;
    }
    call.again = enter(thread, {.leading = call.leading, .device = call.device});
    thread.calls += 1;
    if (waits) {
      mine.waiting.push_back(std::move(call));
    } else {
      count_now(thread, call);
      note_now(thread, call);
    }
    return true;
  } catch (...) {
    return false;
  }
}

void settle_lengths(Thread& thread) noexcept {
  if (calls_of_thread == nullptr) return;
  try {
    std::lock_guard lock(calls_of_thread->mutex);
    settle(thread, *calls_of_thread, false);
  } catch (...) {
  }
}

void finish_lengths() noexcept {
  try {
    std::lock_guard all(all_calls().mutex);
    int turns = 200;
    for (LateCalls* each : all_calls().threads) {
      std::lock_guard lock(each->mutex);
      while (!each->waiting.empty() && !each->waiting.back().arrived() && turns-- > 0) usleep(5000);
      settle(this_thread, *each, true);
    }
  } catch (...) {
  }
}

void forget_lengths() noexcept {
  calls_of_thread = nullptr;  // a forked child must not use its parent's copies
  new (&all_calls()) AllCalls;
}

}  // namespace mfu::observer
