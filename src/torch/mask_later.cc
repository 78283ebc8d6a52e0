#include "torch/mask_later.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Event.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "record/recorder.h"
#include "torch/count.h"
#include "torch/devices.h"
#include "torch/pass_table.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kMostMasks = 16;    // at once
constexpr std::size_t kMostCalls = 4096;  // calls that wait for one of them
constexpr std::uint64_t kShare = 100;     // at most one part in so many of the time
constexpr double kMaskedBelow = -1e4;     // values below this stand for minus infinity

// FLOPs of one pass, operator and type that wait for a mask.
struct PutAside {
  Masked call;
  std::uint64_t pass = 0;  // 0: a backward, which is training
  std::optional<PassPhase> phase;
  std::uint32_t model = 0;
};

struct LateMask {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
  const c10::StorageImpl* address = nullptr;  // null if this entry is free
  std::uint64_t version = 0;
  std::int64_t offset = 0, elements = 0;
  std::array<std::int64_t, 4> sizes{};
  std::optional<c10::Event> event;
  at::Tensor sum;                         // on the host
  std::optional<std::uint64_t> attended;  // set once it is known
  std::uint64_t looked = 0;               // elements that were summed
  std::uint64_t used = 0;                 // when it was last used; the oldest is replaced first
  std::vector<PutAside> waiting;
};

// Guarded by the lock of the passes, which is taken for a mask and not for each operator. Never
// destroyed: events must not be released while the process ends.
struct LateMasks {
  std::array<LateMask, kMostMasks> masks;
  std::uint64_t next_read_ns = 0, uses = 0;
};
LateMasks& late_masks() {
  static LateMasks* instance = new LateMasks;
  return *instance;
}
constinit std::atomic<bool> reads_refused{false};   // the device cannot do it
constinit std::atomic<std::uint32_t> unsettled{0};  // masks that calls are waiting for

void say_once(std::atomic<bool>& said, const char* words) {
  if (!said.exchange(true)) Recorder::process().fact("note", words);
}

std::array<std::int64_t, 4> looked_sizes(const at::Tensor& mask) {
  std::array<std::int64_t, 4> sizes{1, 1, 1, 1};
  for (std::int64_t i = 0; i < mask.dim() && i < 4; ++i) {
    sizes[static_cast<std::size_t>(i)] = mask.stride(i) == 0 ? 1 : mask.size(i);
  }
  return sizes;
}

// While this exists, nothing of the program sees our operators: no autograd, no modes, no counting.
struct Unseen {
  explicit Unseen(Thread& thread) : quiet(thread) {}
  Quiet quiet;
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard modes{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

// Pinned if the device knows that. A copy into other memory would wait.
at::Tensor host_number(c10::DeviceType device) {
  at::TensorOptions options = at::TensorOptions(at::kLong).device(at::kCPU);
  if (device == c10::DeviceType::PrivateUse1) return at::empty({}, options);
  return at::empty({}, options.pinned_memory(true));
}

// What a started read leaves behind.
struct Launched {
  std::uint64_t looked = 0;
  at::Tensor sum;
  std::optional<c10::Event> event;
};

// Called without the lock, because a device may take its time to launch or need another lock.
Launched launch_read(Thread& thread, const at::Tensor& mask) {
  Unseen unseen(thread);
  at::Tensor view = mask;
  for (std::int64_t i = mask.dim() - 1; i >= 0; --i) {
    if (mask.stride(i) == 0 && mask.size(i) > 1) view = view.narrow(i, 0, 1);
  }
  Launched launched{.looked = static_cast<std::uint64_t>(view.numel())};
  at::Tensor attended = mask.scalar_type() == at::kBool ? view : at::gt(view, kMaskedBelow);
  at::Tensor sum = at::sum(attended, at::kLong);
  launched.sum = host_number(mask.device().type());
  launched.sum.copy_(sum, true);
  launched.event.emplace(mask.device().type(), c10::EventFlag::PYTORCH_DEFAULT);
  const auto* guard = c10::impl::getDeviceGuardImpl(mask.device().type());
  launched.event->record(guard->getStream(mask.device()));
  return launched;
}

bool is_same_mask(const LateMask& each, const at::Tensor& mask, const c10::StorageImpl* address) {
  return each.address == address && each.offset == mask.storage_offset() &&
         each.elements == mask.numel() && !mask.is_inference() &&
         each.version == static_cast<std::uint64_t>(mask._version());
}

// The mask itself or, if it may not be read now, the newest one of its size. Null if there is
// neither.
LateMask* find_mask(const at::Tensor& mask) {
  const c10::StorageImpl* address =
      mask.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  for (LateMask& each : late_masks().masks) {
    if (each.address != nullptr && is_same_mask(each, mask, address)) return &each;
  }
  if (now_ns() >= late_masks().next_read_ns) return nullptr;
  LateMask* found = nullptr;
  for (LateMask& each : late_masks().masks) {
    bool alike = each.address != nullptr && each.sizes == looked_sizes(mask);
    if (alike && (found == nullptr || each.used > found->used)) found = &each;
  }
  static std::atomic<bool> said{false};
  if (found != nullptr) {
    say_once(said,
             "attention masks lie on a device and change often: not all were read, and those in "
             "between count as the last one of their size");
  }
  return found;
}

LateMask* free_mask() {
  LateMask* found = nullptr;
  for (LateMask& each : late_masks().masks) {
    if (each.address == nullptr) return &each;
    bool done = each.attended && each.waiting.empty();
    if (done && (found == nullptr || each.used < found->used)) found = &each;
  }
  return found;
}

// A place for a mask that is about to be read. Nobody else reads one meanwhile.
LateMask* reserve_mask(const at::Tensor& mask) {
  LateMask* place = free_mask();
  if (place == nullptr) return nullptr;
  *place = {};
  const c10::Storage& storage = mask.unsafeGetTensorImpl()->unsafe_storage();
  place->storage = c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl());
  place->address = storage.unsafeGetStorageImpl();
  place->version = mask.is_inference() ? 0 : static_cast<std::uint64_t>(mask._version());
  place->offset = mask.storage_offset();
  place->elements = mask.numel();
  place->sizes = looked_sizes(mask);
  late_masks().next_read_ns = ~0ull;
  return place;
}

void add_waiting(Thread& thread, LateMask& mask, const Masked& call) {
  std::uint64_t pass = thread.pass == Pass::backward ? 0 : thread.open.id;
  for (PutAside& each : mask.waiting) {
    if (each.pass != pass || each.call.operator_id != call.operator_id) continue;
    if (each.call.type_id != call.type_id || each.call.device != call.device || each.phase)
      continue;
    each.call.flop += call.flop;
    return;
  }
  if (mask.waiting.empty()) unsettled.fetch_add(1, std::memory_order_relaxed);
  mask.waiting.push_back({.call = call, .pass = pass});
}

// Adds the FLOPs of a call that was counted without them.
void add_needed(const PutAside& part, std::uint64_t flop) {
  PassPhase phase = part.phase.value_or(PassPhase::train);
  std::uint32_t model = part.phase ? part.model : passes().trained_model;
  Recorder::process().count(part.call.operator_id, part.call.type_id,
                            {.model_flop = flop, .calls = 0});
  PassFlop line{.device = device_number(part.call.device),
                .type = static_cast<std::uint8_t>(part.call.type_id),
                .model_flop = flop};
  if (Entry* entry = part.phase ? nullptr : find_entry(part.pass)) {
    add_flop(*entry, line);
    return;
  }
  Recorder::process().add_pass(
      {.phase = phase, .model = static_cast<std::uint8_t>(model), .passes = 0, .flop = {&line, 1}});
}

// Whether its pass is still running and in no table, so that its phase is not known.
bool is_under_way(const PutAside& part) {
  if (part.pass == 0 || part.phase || find_entry(part.pass) != nullptr) return false;
  const auto& threads = passes().threads;
  return std::any_of(threads.begin(), threads.end(), [&](const Thread* each) {
    return each->open.id == part.pass || each->suspended.id == part.pass;
  });
}

void settle_mask(LateMask& mask, bool last) {
  if (!mask.attended) {
    if (!mask.event || !mask.event->query()) return;
    mask.attended = static_cast<std::uint64_t>(*mask.sum.const_data_ptr<std::int64_t>());
    mask.event.reset();
    mask.sum = at::Tensor();
  }
  auto settled = [&](const PutAside& part) {
    if (!last && is_under_way(part)) return false;
    auto wide = static_cast<Uint128>(part.call.flop) * *mask.attended / mask.looked;
    add_needed(part, static_cast<std::uint64_t>(wide));
    return true;
  };
  bool waited = !mask.waiting.empty();
  std::erase_if(mask.waiting, settled);
  if (waited && mask.waiting.empty()) unsettled.fetch_sub(1, std::memory_order_relaxed);
}

// An area that never arrived counts as the full rectangle.
void give_up(LateMask& mask) {
  static std::atomic<bool> said{false};
  if (!mask.waiting.empty()) {
    say_once(said,
             "the area of an attention mask on a device did not come before the end: its attention "
             "is counted over the full rectangle");
  }
  for (const PutAside& part : mask.waiting) add_needed(part, part.call.flop);
  if (!mask.waiting.empty()) unsettled.fetch_sub(1, std::memory_order_relaxed);
  mask.waiting.clear();
}

}  // namespace

bool can_read_later(const at::Tensor& mask) noexcept {
  auto type = mask.device().type();
  bool known = type == c10::DeviceType::CUDA || type == c10::DeviceType::XPU ||
               type == c10::DeviceType::PrivateUse1;
  bool plain = mask.scalar_type() == at::kBool || at::isFloatingType(mask.scalar_type());
  return known && plain && mask.dim() >= 1 && mask.dim() <= 4 && mask.numel() != 0 &&
         !reads_refused.load(std::memory_order_relaxed) &&
         mode.load(std::memory_order_relaxed) == kCounting;
}

bool count_later(Thread& thread, const at::Tensor& mask, const Masked& call) noexcept {
  try {
    LateMask* place = nullptr;
    {
      Lock lock;
      LateMask* found = find_mask(mask);
      if (found == nullptr) place = reserve_mask(mask);
      if (found == nullptr) found = place;
      if (found == nullptr || found->waiting.size() >= kMostCalls) return false;
      found->used = ++late_masks().uses;
      add_waiting(thread, *found, call);
    }
    if (place == nullptr) return true;
    std::uint64_t start = now_ns();
    Launched launched = launch_read(thread, mask);
    std::uint64_t end = now_ns();
    Lock lock;
    place->looked = launched.looked;
    place->sum = std::move(launched.sum);
    place->event = std::move(launched.event);
    late_masks().next_read_ns = end + kShare * (end - start);
    return true;
  } catch (...) {  // finish_masks() counts what was set aside
    reads_refused.store(true, std::memory_order_relaxed);
    return true;
  }
}

void place_masked(std::uint64_t pass, PassPhase phase, std::uint32_t model) noexcept {
  if (unsettled.load(std::memory_order_relaxed) == 0 || pass == 0) return;
  for (LateMask& mask : late_masks().masks) {
    for (PutAside& part : mask.waiting) {
      if (part.pass != pass || part.phase) continue;
      part.phase = phase;
      part.model = model;
    }
  }
}

void settle_masks() noexcept {
  if (unsettled.load(std::memory_order_relaxed) == 0) return;
  try {
    Lock lock;
    for (LateMask& mask : late_masks().masks) {
      if (mask.address != nullptr && !mask.waiting.empty()) settle_mask(mask, false);
    }
  } catch (...) {
    reads_refused.store(true, std::memory_order_relaxed);
  }
}

void finish_masks() noexcept {
  constexpr int kTurns = 200;
  for (int i = 0; i < kTurns && unsettled.load(std::memory_order_relaxed) != 0; ++i) {
    settle_masks();
    if (i != 0) usleep(5000);
  }
  try {
    Lock lock;
    for (LateMask& mask : late_masks().masks) {
      if (mask.attended && mask.looked != 0) settle_mask(mask, true);
      give_up(mask);
    }
  } catch (...) {
    reads_refused.store(true, std::memory_order_relaxed);
  }
}

void forget_masks() noexcept {
  new (&late_masks()) LateMasks;  // a forked child must not use its parent's events
  unsettled.store(0);
}

}  // namespace mfu::observer
