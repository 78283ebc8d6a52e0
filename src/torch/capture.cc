#include "torch/capture.h"

#include <algorithm>
#include <mutex>

namespace mfu::observer {
namespace {

struct Capture {
  std::mutex mutex;
  int depth = 0;
  const Thread* owner = nullptr;
  bool host_too = false;
  std::vector<Captured> rows;
};

Capture& capture() {
  static Capture* instance = new Capture;
  return *instance;
}

}  // namespace

void begin_capture(Thread& thread, bool host_too) noexcept {
  std::lock_guard lock(capture().mutex);
  if (capture().depth++ != 0) return;
  capture().owner = &thread;
  capture().host_too = host_too;
  capture().rows.clear();
  mode.fetch_or(kCapturing, std::memory_order_relaxed);
}

std::vector<Captured> end_capture(Thread& thread) noexcept {
  std::lock_guard lock(capture().mutex);
  if (capture().depth == 0) return {};
  if (--capture().depth != 0) return {};
  mode.fetch_and(~kCapturing, std::memory_order_relaxed);
  if (thread.aside == Thread::Aside::capturing) thread.aside = Thread::Aside::no;
  capture().owner = nullptr;
  return std::move(capture().rows);
}

bool join_capture(Thread& thread) noexcept {
  if ((mode.load(std::memory_order_relaxed) & kCapturing) == 0) return false;
  if (thread.aside == Thread::Aside::no) thread.aside = Thread::Aside::capturing;
  return thread.aside == Thread::Aside::capturing;
}

bool add_captured(Thread& thread, const Call& call, std::uint64_t calls) noexcept {
  std::lock_guard lock(capture().mutex);
  bool backward = torch::autograd::get_current_graph_task_id() != -1;
  bool on_host = call.device >= 0 && (call.device >> 8) == 0;
  bool mine = capture().depth != 0 && (capture().owner == &thread || backward);
  if (!mine || (on_host && !capture().host_too)) {
    if (capture().depth == 0) thread.aside = Thread::Aside::no;
    return false;
  }
  auto& rows = capture().rows;
  auto found = std::find_if(rows.begin(), rows.end(), [&](const Captured& each) {
    return each.operator_id == call.operator_id && each.type_id == call.type_id &&
           each.device == call.device;
  });
  if (found == rows.end()) {
    rows.push_back({.operator_id = call.operator_id,
                    .type_id = call.type_id,
                    .leading = call.leading,
                    .device = call.device});
    found = rows.end() - 1;
  }
  found->calls += calls;
  found->hardware_flop += call.hardware_flop;
  found->model_flop += call.model_flop;
  return true;
}

void forget_capture() noexcept {
  new (&capture().mutex) std::mutex;
  capture().depth = 0;
  mode.fetch_and(~kCapturing, std::memory_order_relaxed);
}

}  // namespace mfu::observer
