#include "torch/boundaries.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "record/recorder.h"
#include "torch/count.h"
#include "torch/device_time.h"
#include "torch/devices.h"
#include "torch/host_time.h"
#include "torch/host_wait.h"
#include "torch/late_lengths.h"
#include "torch/passes.h"
#include "torch/window.h"

namespace mfu::observer {
namespace {

enum class Range : std::uint8_t { none, data_wait, optimizer, zero_grad, communication, marker };

struct Context final : at::ObserverContext {
  Range range = Range::none;
  std::uint64_t start_ns = 0;
};

std::string& marker() {
  static std::string* name = new std::string;
  return *name;
}

pthread_t loop_thread;  // that of the training loop
thread_local constinit std::uint32_t data_wait_depth = 0;
thread_local constinit std::uint64_t optimizer_start_ns = 0;
constinit std::atomic<bool> has_glue{false};
constinit std::atomic<std::uint64_t> step_count{0};
constinit std::atomic<std::uint64_t> epoch_of_step{0};   // that began with the last step's end
constinit std::atomic<std::uint64_t> passes_of_step{0};  // begun until then

// Collectives overlap each other and end on other threads. What counts is the time in which at
// least one is running. One word holds how many run and since when, so that no lock is needed.
constinit std::atomic<std::uint64_t> collectives{0};
constinit std::atomic<std::uint64_t> collectives_since_ns{0};

Range range_of(std::string_view name) {
  if (name.starts_with("enumerate(DataLoader)")) return Range::data_wait;
  if (name.starts_with("Optimizer.step#")) return Range::optimizer;
  if (name.starts_with("Optimizer.zero_grad#")) return Range::zero_grad;
  for (std::string_view backend : {"gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:"}) {
    if (name.starts_with(backend)) return Range::communication;
  }
  if (!marker().empty() && name == marker()) return Range::marker;
  return Range::none;
}

constinit std::atomic<std::uint64_t> last_end_ns{0};
constinit std::atomic<std::uint64_t> communication_booked{0};  // at that time

void end_step(const StepEnd& end) {
  end_device_step();
  Thread& thread = this_thread;
  settle_lengths(thread);
  settle_passes(thread, false);
  begin_epoch();
  epoch_of_step.store(epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  passes_of_step.store(passes_begun(), std::memory_order_relaxed);
  std::uint64_t now = now_ns(), before = last_end_ns.exchange(now);
  if (before != 0) {
    book_gap(now - before);
    const Region* region = Recorder::process().region();
    auto part = [&](RegionPhase phase) {
      return region == nullptr ? 0
                               : region->header.phase_ns[static_cast<std::size_t>(phase)].load();
    };
    std::uint64_t communication = part(RegionPhase::communication);
    book_host({.step_ns = now - before,
               .communication_ns = communication - communication_booked.exchange(communication),
               .on_device = is_asynchronous(thread.device)});
  } else {
    watch_host();
  }
  thread.pass = Pass::none;
  thread.gap_start_ns = now;
  Recorder::process().end_step(end);
  step_ended(step_count.fetch_add(1, std::memory_order_relaxed) + 1);
}

// Tells once whether the loader works inside this process.
void tell_loader(std::string_view range) {
  static std::atomic<bool> alone{false}, workers{false};
  bool inside = range.find("SingleProcess") != std::string_view::npos;
  if (!(inside ? alone : workers).exchange(true)) {
    Recorder::process().fact("loader", inside ? "in_process" : "workers");
  }
}

// Books the optimizer's time so far, so that it belongs to the step that ends now. With a closure
// (Lightning, LBFGS) forward and backward run inside it, and nobody sees where they end. Then
// nothing is booked.
void book_optimizer() {
  if (optimizer_start_ns == 0) return;
  std::uint64_t now = now_ns();
  if (!end_device_part(RegionPhase::optimizer) && !this_thread.closure) {
    Recorder::process().add_phase(RegionPhase::optimizer, now - optimizer_start_ns);
  }
  optimizer_start_ns = now;
}

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& function) {
  Range range = range_of(function.name());
  if (range == Range::none || (mode.load(std::memory_order_relaxed) & kCounting) == 0) return {};
  if (range == Range::zero_grad) {
    gradients_dropped();
    return {};
  }
  if (range == Range::data_wait) {
    if (pthread_equal(pthread_self(), loop_thread) == 0) return {};
    if (data_wait_depth++ == 0) {
      tell_loader(function.name());
      end_pass(this_thread);
      begin_loading();
      begin_device_part(RegionPhase::data_wait);
    }
    this_thread.fetched = true;
  }
  auto context = std::make_unique<Context>();
  context->range = range;
  context->start_ns = now_ns();
  if (range == Range::optimizer && this_thread.optimizing++ == 0) {
    optimizer_start_ns = context->start_ns;
    this_thread.closure = false;
    begin_device_part(RegionPhase::optimizer);
  }
  if (range == Range::communication && collectives.fetch_add(1) == 0) {
    collectives_since_ns.store(context->start_ns);
  }
  return context;
}

void end_range(const at::RecordFunction&, at::ObserverContext* observed) {
  auto* context = static_cast<Context*>(observed);
  if (context == nullptr) return;
  switch (context->range) {
    case Range::data_wait:
      if (--data_wait_depth == 0) {
        end_loading();
        if (!end_device_part(RegionPhase::data_wait)) {
          Recorder::process().add_phase(RegionPhase::data_wait, now_ns() - context->start_ns);
        }
      }
      break;
    case Range::optimizer:
      if (this_thread.optimizing == 0) break;
      if (--this_thread.optimizing == 0) {
        book_optimizer();
        optimizer_start_ns = 0;
        if (!has_glue.load(std::memory_order_relaxed)) end_step({});
      }
      break;
    case Range::communication: {
      std::uint64_t since = collectives_since_ns.load();
      if (collectives.fetch_sub(1) == 1) {
        Recorder::process().add_phase(RegionPhase::communication, now_ns() - since);
      }
      break;
    }
    case Range::marker:
      end_step({.kind = StepKind::marked});
      break;
    case Range::zero_grad:
    case Range::none:
      break;
  }
}

constinit std::atomic<bool> update_held{false};  // seen, and not yet a step

void end_updated() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    Recorder::process().fact("note",
                             "no optimizer of torch.optim stepped: steps are recognised by what "
                             "happens to parameters after a backward (changed in place, or their "
                             "gradients set to none)");
  }
  end_step({});
}

}  // namespace

void watch_ranges(const std::string& step_marker) {
  marker() = step_marker;
  loop_thread = pthread_self();
  at::addGlobalCallback(
      at::RecordFunctionCallback(begin_range, end_range).scopes({at::RecordScope::USER_SCOPE}));
}

void optimizer_stepped(bool leads) noexcept {
  if (!has_glue.exchange(true, std::memory_order_relaxed)) watch_updates(false);
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  book_optimizer();
  if (!leads || !marker().empty()) return;
  // If gradients come from backwards and no pass ran since the last step, this is the same step.
  // DeepSpeed calls an optimizer once for each group of parameters.
  bool again = epoch.load(std::memory_order_relaxed) == epoch_of_step.load() &&
               passes_begun() == passes_of_step.load();
  bool trains = backward_seen.load(std::memory_order_relaxed);
  if (again && trains) return;
  // nothing was computed yet: this step only makes the optimizer's state
  if (!trains && passes_begun() == 1) return;
  end_step({});
  // ending the step is not the optimizer's work
  if (optimizer_start_ns != 0) optimizer_start_ns = now_ns();
}

void update_seen() noexcept {
  if (has_glue.load(std::memory_order_relaxed) || !marker().empty()) return;
  // An optimizer of torch.optim may not have stepped yet: SAM moves the weights and computes again
  // before it steps. So the first update counts only once another one follows, or the program ends.
  static std::atomic<bool> first{true};
  if (first.exchange(false) && has_optimizer()) {
    update_held.store(true);
    return;
  }
  if (update_held.exchange(false)) end_updated();
  end_updated();
}

void finish_updates(bool updated) noexcept {
  if (has_glue.load(std::memory_order_relaxed) || !marker().empty()) return;
  if (update_held.exchange(false)) end_updated();
  if (updated) end_updated();
}

void mark_step(std::int64_t index) noexcept {
  watch_updates(false);
  if ((mode.load(std::memory_order_relaxed) & kCounting) == 0) return;
  end_step(
      {.kind = StepKind::marked, .index = index < 0 ? ~0ull : static_cast<std::uint64_t>(index)});
}

std::uint64_t steps() noexcept {
  return step_count.load(std::memory_order_relaxed);
}

void forget_ranges() noexcept {
  collectives.store(0);
  last_end_ns.store(0);
  forget_host();
  forget_blocked();
  forget_device_time();
  forget_lengths();
  loop_thread = pthread_self();
}

}  // namespace mfu::observer
