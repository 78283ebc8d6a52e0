// The PrivateUse1 backend: memory, device guard with streams and events, copies, and the few
// operators that each backend must provide. fallback.cc runs every other operator.
#include "backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdlib>

namespace late {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

thread_local int device_of_thread = 0;
thread_local std::array<std::int64_t, kMostDevices> stream_of_thread{};

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = bytes != 0 ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
    return {memory, memory, &std::free,
            c10::Device(kType, static_cast<c10::DeviceIndex>(device_of_thread))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator)

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {kType, static_cast<c10::DeviceIndex>(device_of_thread)};
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < device_count(), "there is no device ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) device_of_thread = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  static StreamName name_of(const c10::Stream& stream) {
    return {stream.device_index(), stream.id()};
  }
  static c10::Stream stream_of(c10::Device device, std::int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  c10::Stream getStream(c10::Device device) const override {
    int index = device.has_index() ? device.index() : device_of_thread;
    return stream_of({kType, static_cast<c10::DeviceIndex>(index)}, current_stream(index).stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream_of(device, new_stream(device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::Stream before = getStream(stream.device());
    stream_of_thread[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    note_query();
    return is_idle(name_of(stream));
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(name_of(stream)); }
  void synchronizeDevice(c10::DeviceIndex device) const override { synchronize_device(device); }
  bool isStreamCapturing(const c10::Stream&) const override { return is_capturing(); }

  struct Event {
    Mark mark;
    bool timing;
  };
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag flag) const override {
    static const bool kNone =
        std::getenv("LATE_EVENTS") != nullptr && *std::getenv("LATE_EVENTS") == '0';
    bool timing = flag == c10::EventFlag::BACKEND_DEFAULT;
    TORCH_CHECK(!timing || !kNone, "this device has no events with a time");
    if (*event == nullptr) *event = new Event{{}, flag == c10::EventFlag::BACKEND_DEFAULT};
    auto* mine = static_cast<Event*>(*event);
    mine->mark = late::record(name_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) wait_for(name_of(stream), static_cast<Event*>(event)->mark);
  }
  bool queryEvent(void* event) const override {
    note_query();
    return event == nullptr || static_cast<Event*>(event)->mark.is_reached();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->mark.wait();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    auto *from = static_cast<Event*>(first), *to = static_cast<Event*>(second);
    TORCH_CHECK(from != nullptr && to != nullptr && from->timing && to->timing,
                "both events must be recorded with timing");
    TORCH_CHECK(from->mark.is_reached() && to->mark.is_reached(), "both events must be reached");
    return (static_cast<double>(to->mark.time_ns()) - static_cast<double>(from->mark.time_ns())) /
           1e6;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { device_of_thread = device; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(device_of_thread);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    auto before = getCurrentDevice();
    if (device >= 0) device_of_thread = device;
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
};

int index_of(c10::optional<c10::Device> device) {
  return device && device->has_index() ? device->index() : device_of_thread;
}

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type,
                 c10::optional<at::Layout>, c10::optional<c10::Device> device, c10::optional<bool>,
                 c10::optional<at::MemoryFormat> format) {
  at::ScalarType wanted = type.value_or(at::get_default_dtype_as_scalartype());
  at::Tensor made = empty_on(index_of(device), sizes, {}, wanted);
  if (format && *format != at::MemoryFormat::Contiguous && *format != at::MemoryFormat::Preserve)
    made.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return made;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                         c10::optional<c10::Device> device, c10::optional<bool>) {
  return empty_on(index_of(device), sizes, strides,
                  type.value_or(at::get_default_dtype_as_scalartype()));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         c10::optional<at::MemoryFormat>) {
  resize_on(self, sizes, {});
  return self;
}

// Copies from or to another device's stream or the host's memory. As with pageable memory, the
// source has been read when this returns. The destination has been written too, unless the caller
// asked not to wait.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (!is_late(self)) {
    StreamName there = current_stream(to.device().index());
    at::Tensor staged = self.clone();
    launch_kernel(there, [staged, target = host_view(to), kept = to.storage()] {
      on_device([&] { target.copy_(staged); });
    });
    return to;
  }
  StreamName here = current_stream(self.device().index());
  Work copy = [source = host_view(self), from = self.storage(),
               target = is_late(to) ? host_view(to) : to,
               into = to.storage()] { on_device([&] { target.copy_(source); }); };
  if (is_late(to) && to.device() != self.device()) {
    StreamName there = current_stream(to.device().index());
    wait_for(there, record(here));
    launch_kernel(there, std::move(copy));
    wait_for(here, record(there));
    return to;
  }
  launch_kernel(here, std::move(copy));
  if (!is_late(to) && !non_blocking) synchronize(here);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (is_late(to))
    resize_on(to, self.sizes(), {});
  else
    to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  synchronize(current_stream(self.device().index()));
  return host_view(self).item();
}

at::Tensor view_of(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                   c10::optional<std::int64_t> offset) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  auto* made = view.unsafeGetTensorImpl();
  made->set_storage_offset(offset.value_or(self.storage_offset()));
  made->set_sizes_and_strides(sizes, strides);
  return view;
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  at::DimVector inferred = at::infer_size_dv(sizes, self.numel());
  auto strides = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(strides.has_value(), "view size is not compatible with the tensor's strides");
  return view_of(self, inferred, *strides, c10::nullopt);
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return view_of(self, sizes, strides, c10::nullopt);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(source));
  tensor->set_storage_offset(offset);
  if (strides.data() != nullptr && strides.size() == sizes.size())
    tensor->set_sizes_and_strides(sizes, strides);
  else
    tensor->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

void call(const char* name, torch::jit::Stack& stack) {
  fallback(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), &stack);
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const c10::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  torch::jit::Stack stack{input,    weight,     bias,           stride, padding,
                          dilation, transposed, output_padding, groups};
  call("aten::convolution", stack);
  return stack[0].toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> mask) {
  std::int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  c10::List<bool> wanted{mask[0], mask[1], mask[2]};
  torch::jit::Stack stack{gradient,       input,   weight,   at::IntArrayRef{channels},
                          stride,         padding, dilation, transposed,
                          output_padding, groups,  wanted};
  call("aten::convolution_backward", stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("as_strided", view_of);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

std::int64_t attention_by_matmuls(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const c10::optional<at::Tensor>&, double, bool,
                                  c10::optional<double>, bool) {
  return 0;  // SDPBackend::math
}

}  // namespace

StreamName current_stream(int device) {
  return {device, stream_of_thread[static_cast<std::size_t>(device)]};
}

at::Tensor host_view(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || tensor.storage().nbytes() == 0)
    return at::detail::empty_strided_cpu(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

void on_device(const Work& work) {
  c10::impl::ExcludeDispatchKeyGuard past(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::Python,
                           c10::DispatchKey::PythonTLSSnapshot}));
  c10::impl::IncludeDispatchKeyGuard plain{c10::DispatchKeySet(c10::DispatchKey::CPU)};
  work();
}

at::Tensor empty_on(int device, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type) {
  int before = std::exchange(device_of_thread, device);
  c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  at::Tensor made =
      strides.data() == nullptr
          ? at::Tensor(at::detail::empty_generic(sizes, &allocator, keys, type, {}))
          : at::Tensor(at::detail::empty_strided_generic(sizes, strides, &allocator, keys, type));
  device_of_thread = before;
  return made;
}

void resize_on(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* made = tensor.unsafeGetTensorImpl();
  if (strides.data() != nullptr)
    made->set_sizes_and_strides(sizes, strides);
  else
    made->set_sizes_contiguous(sizes);
  std::size_t bytes =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
                                       static_cast<std::size_t>(tensor.storage_offset()));
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (tensor.numel() == 0 || bytes <= storage->nbytes()) return;
  int device = tensor.device().index();
  int before = std::exchange(device_of_thread, device);
  c10::DataPtr memory = allocator.allocate(bytes);
  if (storage->nbytes() != 0) {  // the old memory may be in use
    synchronize_device(device);
    std::memcpy(memory.get(), storage->data(), storage->nbytes());
  }
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(bytes);
  device_of_thread = before;
}

}  // namespace late

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &late::attention_by_matmuls)
}

// The functions that late.py calls.
extern "C" {
void late_register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new late::Hooks);
}
int late_device_count() {
  return late::device_count();
}
int late_current_device() {
  return late::device_of_thread;
}
void late_set_device(int device) {
  late::device_of_thread = device;
}
void late_synchronize(int device) {
  late::synchronize_device(device);
}
void late_sleep(int device, std::uint64_t ns) {
  late::launch_sleep(late::current_stream(device), ns);
}
void late_set_kernel_ns(std::uint64_t ns) {
  late::set_kernel_ns(ns);
}
void late_set_capturing(int capturing) {
  late::set_capturing(capturing != 0);
}
std::uint64_t late_capture_breaks() {
  return late::capture_breaks();
}
void late_counts(std::uint64_t* four) {
  late::Counts counts = late::counts();
  four[0] = counts.launches, four[1] = counts.host_waits;
  four[2] = counts.foreign_queries, four[3] = counts.queries;
}
void late_stop() {
  late::stop();
}
}
