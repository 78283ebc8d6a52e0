#include "torch/register.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "record/recorder.h"
#include "torch/arguments.h"
#include "torch/capture.h"
#include "torch/hidden_product.h"
#include "torch/kernel.h"
#include "torch/writes.h"

namespace mfu::observer {

constinit std::atomic<std::uint32_t> type_ids[kScalarTypes] = {};

std::uint32_t type_id_slowly(at::ScalarType type) noexcept {
  std::uint32_t id = type_id_of(element_type_of_torch(static_cast<std::int64_t>(type))) + 1;
  auto index = static_cast<std::size_t>(type);
  if (index < kScalarTypes) type_ids[index].store(id, std::memory_order_relaxed);
  return id - 1;
}

namespace {

class BoxedKernel;

// Kernels stay registered (see mfu_observer_start), so their owner is never destroyed: at exit, a
// static object of another library may still call an operator.
struct Kernels {
  std::mutex mutex;
  std::set<std::string> taken;  // every operator that was looked at, such as "aten::mm.out"
  std::vector<std::unique_ptr<torch::Library>> libraries;
  std::map<std::string, BoxedKernel*> boxed;
  bool own_are_known = false;  // what is defined from now on is of a library
  std::mutex pending_mutex;
  std::vector<c10::OperatorName> pending;
};

Kernels& kernels() {
  static Kernels* instance = new Kernels;
  return *instance;
}

// The first and last bytes of the tensor that attention writes, which is the fourth argument of
// serving engines' operators. Empty if it is not in the host's memory.
std::string output_bytes(const std::vector<c10::IValue>& values) {
  if (values.size() < 4 || !values[3].isTensor()) return {};
  const at::Tensor& output = values[3].toTensor();
  bool readable = output.defined() && output.is_cpu() && output.is_non_overlapping_and_dense();
  if (!readable || output.numel() == 0) return {};
  const auto* begin = static_cast<const char*>(output.const_data_ptr());
  std::size_t size = output.nbytes(), looked = std::min<std::size_t>(size, 1024);
  return std::string(begin, looked) + std::string(begin + size - looked, looked);
}

// Whether attention was left out, as in an engine's trial runs: its output is unchanged or zero.
bool is_left_out(const std::string& before, const std::string& after) {
  return !after.empty() && (before == after || after.find_first_not_of('\0') == std::string::npos);
}

// A kernel for any operator. Its arguments are taken from the stack before the call and kept as
// IValues. This holds the tensors a moment longer and copies nothing.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  // `opened`: only Opening applies to it. `examined`: no table has it, and its first calls are
  // examined for products that nobody sees.
  enum class Purpose { counted, opened, examined };
  BoxedKernel(std::string_view name, Purpose purpose)
      : name_(name), row_(name), purpose_(purpose) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    Thread& thread = this_thread;
    Opening opening(thread, opened_.load(std::memory_order_relaxed));
    Purpose purpose = purpose_.load(std::memory_order_relaxed);
    if (purpose == Purpose::opened || !counts(thread, keys)) {
      op.redispatchBoxed(below(keys), stack);
      return;
    }
    if (purpose == Purpose::examined) {
      if (looks_.fetch_add(1, std::memory_order_relaxed) >= kMostLooks) {
        purpose_.store(Purpose::opened, std::memory_order_relaxed);
        op.redispatchBoxed(below(keys), stack);
      } else {
        examine(op, keys, stack, thread);
      }
      return;
    }
    std::size_t count = op.schema().arguments().size();
    std::vector<c10::IValue> values(stack->end() - static_cast<std::ptrdiff_t>(count),
                                    stack->end());
    if (row_.hides_inner()) {
      Quiet quiet(thread);
      op.redispatchBoxed(below(keys), stack);
    } else {
      // If an operator inside it was counted or named, it is only a wrapper.
      std::uint64_t calls = thread.calls;
      std::string output = row_.wraps_attention() ? output_bytes(values) : std::string();
      op.redispatchBoxed(below(keys), stack);
      if (thread.calls != calls) return;
      if (!output.empty() && is_left_out(output, output_bytes(values))) return;
    }
    std::size_t results = op.schema().returns().size();
    const c10::IValue* first =
        results != 0 && stack->size() >= results ? &(*stack)[stack->size() - results] : nullptr;
    count_after(thread, keys, values, first);
  }

  void open() { opened_.store(true, std::memory_order_relaxed); }
  // It has a formula now.
  void count() { purpose_.store(Purpose::counted, std::memory_order_relaxed); }

 private:
  static constexpr int kMostLooks = 6;

  struct Watch {
    Watch() { watch_writes(1); }
    ~Watch() { watch_writes(-1); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
  };

  void examine(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
               Thread& thread) {
    const c10::FunctionSchema& schema = op.schema();
    std::vector<c10::IValue> values(
        stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack->end());
    std::uint64_t calls = thread.calls;
    Watch watch;
    op.redispatchBoxed(below(keys), stack);
    if (thread.calls != calls || is_odd(keys)) return;
    try {
      Quiet quiet(thread);
      std::size_t made = std::min(schema.returns().size(), stack->size());
      std::span<const c10::IValue> results(stack->data() + stack->size() - made, made);
      if (!hides_product(schema, values, results)) return;
      Recorder::process().fact("opaque", name_ + "\toperator");
      purpose_.store(Purpose::opened, std::memory_order_relaxed);
    } catch (...) {  // a tensor that has no sizes; the operator itself has run
    }
  }

  void count_after(Thread& thread, c10::DispatchKeySet keys, const std::vector<c10::IValue>& values,
                   const c10::IValue* result) noexcept {
    try {
      if (is_odd(keys)) return row_.count_unknown(thread, "a sparse or nested operand");
      Arguments arguments;
      for (const c10::IValue& value : values) arguments.add(value);
      if (result != nullptr) arguments.set_result(*result);
      row_.count(thread, arguments);
    } catch (...) {  // a tensor that has no sizes; the operator itself has run
    }
  }

  std::string name_;
  Watched row_;
  std::atomic<Purpose> purpose_;
  std::atomic<int> looks_{0};
  std::atomic<bool> opened_{false};
};
using Purpose = BoxedKernel::Purpose;

// Composite operators are split into others before they come here, except if autograd is off. Those
// others are counted. A kernel that a library registers for every key (vLLM's attention on a CPU)
// looks composite, but calls nothing. It is seen if autograd is off.
bool is_composite(const c10::OperatorHandle& op, const std::string& name) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
  const Operator* row = find_operator(name);
  bool kernel = row != nullptr && row->role == OperatorRole::leaf && !name.starts_with("aten::");
  return !kernel;
}

bool is_wanted(const std::string& name) {
  const Operator* row = find_operator(name);
  if (row == nullptr) return looks_flop_carrying(name);
  return row->role == OperatorRole::leaf || row->role == OperatorRole::cover ||
         row->role == OperatorRole::uncounted;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

void put_kernel(const c10::OperatorName& name, Purpose purpose) {
  std::string full = full_name(name);
  std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(name);
  if (!op.has_value() || is_composite(*op, full)) return;
  if (op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) {
    auto ours = kernels().boxed.find(full);
    if (purpose == Purpose::counted && ours != kernels().boxed.end()) ours->second->count();
    return;
  }
  if (purpose == Purpose::examined && !takes_factors(op->schema())) return;
  std::size_t colons = full.find("::");
  if (colons == std::string::npos) return;
  auto library =
      std::make_unique<torch::Library>(torch::Library::IMPL, full.substr(0, colons),
                                       c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
  auto kernel = std::make_unique<BoxedKernel>(full, purpose);
  BoxedKernel* there = kernel.get();
  library->impl(full.substr(colons + 2).c_str(),
                torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  kernels().libraries.push_back(std::move(library));
  kernels().boxed[full] = there;
}

// Torch defines some of its operators later too, in namespaces that none of its libraries shares
// with others.
bool is_torchs_own(std::string_view name) {
  constexpr std::string_view kOwn[] = {
      "aten",    "prim",        "prims",    "c10d", "_c10d_functional", "_dtensor", "inductor",
      "onnx",    "quantized",   "symm_mem", "fsdp", "torch_attn",       "profiler", "autograd",
      "streams", "higher_order"};
  std::string_view space = name.substr(0, name.find("::"));
  return std::find(std::begin(kOwn), std::end(kOwn), space) != std::end(kOwn);
}

void watch_boxed(const c10::OperatorName& name) {
  std::string full = full_name(name);
  if (!kernels().taken.insert(full).second) return;
  if (is_wanted(full)) {
    put_kernel(name, Purpose::counted);
  } else if (kernels().own_are_known && find_operator(full) == nullptr && !is_torchs_own(full)) {
    put_kernel(name, Purpose::examined);
  }
}

// Called under the dispatcher's lock, so it only remembers the name.
class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    if (!heard) return;
    std::lock_guard lock(kernels().pending_mutex);
    kernels().pending.push_back(op.operator_name());
    mode.fetch_or(kPending, std::memory_order_relaxed);
  }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}

  bool heard = false;  // false while it is told about existing operators
};

}  // namespace

void register_kernels() {
  std::lock_guard lock(kernels().mutex);
  auto aten = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                               c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
  Taken taken;
  register_matmuls(*aten, taken);
  register_rest(*aten, taken);
  kernels().libraries.push_back(std::move(aten));
  kernels().taken.insert(taken.begin(), taken.end());
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    watch_boxed(name);
  }
  kernels().own_are_known = true;
  auto listener = std::make_unique<Listener>();
  Listener& ear = *listener;
  static c10::RegistrationHandleRAII* handle = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::move(listener)));
  (void)handle;
  ear.heard = true;
}

void register_pending() noexcept {
  mode.fetch_and(~kPending, std::memory_order_relaxed);
  std::vector<c10::OperatorName> names;
  {
    std::lock_guard lock(kernels().pending_mutex);
    names.swap(kernels().pending);
  }
  std::lock_guard lock(kernels().mutex);
  for (const c10::OperatorName& name : names) {
    try {
      watch_boxed(name);
    } catch (...) {  // an operator that cannot be watched is not watched
    }
  }
}

void watch_operator(const std::string& name) noexcept {
  std::lock_guard lock(kernels().mutex);
  if (kernels().libraries.empty()) return;  // not started yet: it will be found then
  try {
    for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
      if (each.name != name) continue;
      kernels().taken.erase(full_name(each));
      watch_boxed(each);
    }
  } catch (...) {  // an operator that cannot be watched is not watched
  }
}

bool open_operator(const std::string& name) noexcept {
  register_pending();
  std::lock_guard lock(kernels().mutex);
  try {
    auto& boxed = kernels().boxed;
    if (!boxed.contains(name)) {
      std::size_t dot = name.find('.', name.find("::"));
      std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
      put_kernel({name.substr(0, dot), overload}, Purpose::opened);
    }
    auto there = boxed.find(name);
    if (there == boxed.end()) return false;
    there->second->open();
    return true;
  } catch (...) {
    return false;
  }
}

void reset_locks() noexcept {
  new (&kernels().mutex) std::mutex;
  new (&kernels().pending_mutex) std::mutex;
}

bool refresh_mode() noexcept {
  join_capture(this_thread);
  if ((mode.load(std::memory_order_relaxed) & kPending) != 0) register_pending();
  return (mode.load(std::memory_order_relaxed) & kCounting) != 0;
}

}  // namespace mfu::observer
