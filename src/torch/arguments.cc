#include "torch/arguments.h"

#include <algorithm>

#include "torch/count.h"
#include "torch/kernel.h"
#include "torch/late_lengths.h"
#include "torch/mask_area.h"
#include "torch/mask_later.h"
#include "torch/padding.h"
#include "torch/pass_bytes.h"

namespace mfu::observer {
namespace {

// Offsets of a grouped matmul or of packed sequences are short lists, and reading them on the host
// costs nothing.
constexpr std::int64_t kMostContent = 64;

}  // namespace

void Arguments::push(const Argument& argument) {
  if (count_ < kItems) new (room_for_items_ + count_++ * sizeof(Argument)) Argument(argument);
}

std::span<std::int64_t> Arguments::take(std::size_t count) {
  count = std::min(count, room_.size() - used_);
  used_ += count;
  return std::span(room_).subspan(used_ - count, count);
}

void Arguments::add_content(const at::Tensor& tensor, Argument& argument) {
  bool wide = tensor.scalar_type() == at::kLong;
  if ((!wide && tensor.scalar_type() != at::kInt) || tensor.dim() != 1 || !tensor.is_cpu() ||
      tensor.numel() > kMostContent || !tensor.is_contiguous()) {
    return;
  }
  std::span<std::int64_t> room = take(static_cast<std::size_t>(tensor.numel()));
  for (std::size_t i = 0; i < room.size(); ++i) {
    room[i] = wide ? tensor.const_data_ptr<std::int64_t>()[i] : tensor.const_data_ptr<int>()[i];
  }
  argument.values = room;
}

Argument Arguments::tensor_argument(const at::Tensor& tensor) {
  c10::IntArrayRef sizes = tensor.sizes();
  Argument argument;
  argument.kind = Argument::Kind::tensor;
  argument.type = element_type_of_torch(static_cast<std::int64_t>(tensor.scalar_type()));
  argument.integers = {sizes.data(), sizes.size()};
  return argument;
}

void Arguments::set_result(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) result_ = tensor_argument(value.toTensor());
}

void Arguments::add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    push({.kind = Argument::Kind::absent});
    return;
  }
  Argument argument = tensor_argument(tensor);
  if (leading_ == 0 && !argument.integers.empty()) leading_ = argument.integers.front();
  if (device_ < 0) device_ = number_of(tensor.device());
  if (count_ < tensors_.size()) tensors_[count_] = &tensor;
  add_content(tensor, argument);
  push(argument);
}

void Arguments::add(const std::optional<at::Tensor>& tensor) {
  if (tensor.has_value()) {
    add(*tensor);
  } else {
    push({.kind = Argument::Kind::absent});
  }
}

void Arguments::add(c10::IntArrayRef list) {
  push({.kind = Argument::Kind::integers, .integers = {list.data(), list.size()}});
}

void Arguments::add(c10::SymIntArrayRef list) {
  std::span<std::int64_t> room = take(list.size());
  for (std::size_t i = 0; i < room.size(); ++i) {
    room[i] = list[i].maybe_as_int().value_or(0);
  }
  push({.kind = Argument::Kind::integers, .integers = room});
}

void Arguments::add(const at::OptionalSymIntArrayRef& list) {
  if (list.has_value()) {
    add(c10::SymIntArrayRef(*list));
  } else {
    push({.kind = Argument::Kind::absent});
  }
}

void Arguments::add(const c10::SymInt& value) {
  add(value.maybe_as_int().value_or(0));
}

void Arguments::add(std::int64_t value) {
  std::span<std::int64_t> room = take(1);
  if (!room.empty()) room[0] = value;
  push({.kind = Argument::Kind::integer, .integers = room});
}

void Arguments::add(bool value) {
  std::span<std::int64_t> room = take(1);
  if (!room.empty()) room[0] = value;
  push({.kind = Argument::Kind::boolean, .integers = room});
}

void Arguments::add(double value) {
  push({.kind = Argument::Kind::number, .number = value});
}

void Arguments::add(const std::optional<double>& value) {
  if (value.has_value()) {
    add(*value);
  } else {
    push({.kind = Argument::Kind::absent});
  }
}

void Arguments::add(const c10::IValue& value) {
  if (value.isTensor()) return add(value.toTensor());
  if (value.isNone()) return push({.kind = Argument::Kind::absent});
  if (value.isInt()) return add(value.toInt());
  if (value.isBool()) return add(value.toBool());
  if (value.isDouble()) return add(value.toDouble());
  if (value.isTensorList()) return add_list(value);
  if (value.isIntList()) {
    c10::List<std::int64_t> list = value.toIntList();
    std::span<std::int64_t> room = take(list.size());
    for (std::size_t i = 0; i < room.size(); ++i) room[i] = list.get(i);
    return push({.kind = Argument::Kind::integers, .integers = room});
  }
  if (value.isBoolList()) {
    c10::List<bool> list = value.toBoolList();
    std::span<std::int64_t> room = take(list.size());
    for (std::size_t i = 0; i < room.size(); ++i) room[i] = list.get(i);
    return push({.kind = Argument::Kind::integers, .integers = room});
  }
  if (value.isString()) {
    return push({.kind = Argument::Kind::text, .text = value.toStringRef()});
  }
  push({.kind = Argument::Kind::unknown});
}

// A list of matrices is described by their sizes, if there is room for them.
void Arguments::add_list(const c10::IValue& value) {
  const auto& list = value.toListRef();
  Argument argument;
  argument.kind = Argument::Kind::tensor_list;
  bool fits = !list.empty() && 2 * list.size() <= room_.size() - used_;
  for (const c10::IValue& each : list) {
    fits = fits && each.isTensor() && each.toTensor().defined() && each.toTensor().dim() == 2;
  }
  if (fits) {
    std::span<std::int64_t> room = take(2 * list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      room[2 * i] = list[i].toTensor().size(0);
      room[2 * i + 1] = list[i].toTensor().size(1);
    }
    const at::Tensor first = list[0].toTensor();
    argument.type = element_type_of_torch(static_cast<std::int64_t>(first.scalar_type()));
    argument.integers = room;
    if (leading_ == 0) leading_ = room[0];
    if (device_ < 0) device_ = number_of(first.device());
  }
  push(argument);
}

Watched::Watched(std::string_view name) : name_(name), full_(name) {
  ask();
  if (const Operator* row = row_.load()) name_ = row->name;
}

void Watched::ask() const noexcept {
  std::uint64_t added = formulas_added();
  row_.store(find_operator(full_), std::memory_order_release);
  asked_.store(added, std::memory_order_relaxed);
}

std::string_view Watched::reason(const Operator* row) noexcept {
  if (row == nullptr) return "not in the operator table";
  return row->role == OperatorRole::uncounted ? row->note : std::string_view();
}

void Watched::count_unknown(Thread& thread, std::string_view reason) noexcept {
  int id = unknown_id_.load(std::memory_order_relaxed);
  if (id < 0) {
    id = static_cast<int>(operator_id(name_, reason));
    unknown_id_.store(id, std::memory_order_relaxed);
  }
  observer::count_unknown(thread, static_cast<unsigned>(id));
}

// Notes what attention and recurrent layers tell about their pass.
void note_kind(Thread& thread, const Operator& row, const Arguments& given,
               const at::Tensor* mask) noexcept {
  std::span<const Argument> arguments = given.view();
  auto sizes = [&](std::size_t i) {
    bool tensor = i < arguments.size() && arguments[i].kind == Argument::Kind::tensor;
    return tensor ? arguments[i].integers : std::span<const std::int64_t>{};
  };
  auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  if (row.kind == OperatorKind::attention) {
    auto query = sizes(0), key = sizes(1);
    if (query.size() != 4 || key.size() != 4) return;
    note_attention(thread,
                   {.batch = size(query[0]), .queries = size(query[2]), .keys = size(key[2])});
    if (mask != nullptr) note_mask(thread, *mask, size(query[0]), size(key[2]));
  } else if (row.kind == OperatorKind::recurrent) {
    // The hidden state is [layers, batch, width], or [batch, width] for one layer, whatever the
    // order of the input's axes is.
    auto state = sizes(row.name == "aten::mkldnn_rnn_layer" ? 5
                       : row.name == "aten::_cudnn_rnn"     ? 4
                                                            : 3);
    if (state.size() == 2 || state.size() == 3) {
      note_attention(thread, {.batch = size(state[state.size() - 2])});
    }
  }
}

// Does the same as the products that have a kernel of their own (kernels_matmul.cc).
void note_product(Thread& thread, const Operator& row, const Arguments& arguments) noexcept {
  std::optional<ProductSizes> sizes = product_sizes(row, arguments.view(), arguments.result());
  if (!sizes) return;
  thread.columns = sizes->columns;
  thread.product_rows = sizes->rows;
  thread.product_inner = sizes->inner;
  if (sizes->columns == thread.open.head_columns) thread.open.headed = true;
}

const at::Tensor* mask_of(const Operator& row, const Arguments& arguments) {
  std::optional<std::size_t> place = mask_argument(row, arguments.view().size());
  if (!place || *place >= arguments.view().size()) return nullptr;
  const at::Tensor* mask = arguments.tensor(*place);
  return mask != nullptr && mask->defined() ? mask : nullptr;
}

void say_rectangle() {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  Recorder::process().fact("note",
                           "the values of an attention mask were not at hand: its attention is "
                           "counted over the full rectangle");
}

// A mask leaves part of the rectangle out. That part is executed but not needed.
std::uint64_t needed_of(const std::optional<MaskArea>& area, std::uint64_t flop) {
  if (!area) {
    say_rectangle();
    return flop;
  }
  // The mask is the same for every head and batch that it is broadcast to, so this is a whole
  // number.
  auto wide = static_cast<Uint128>(flop) * area->attended / area->elements;
  return static_cast<std::uint64_t>(wide);
}

bool is_run_again(const Thread& thread) {
  if (thread.recomputing != 0) return true;
  bool backward = torch::autograd::get_current_graph_task_id() != -1;
  return backward && c10::AutogradState::get_tls_state().get_grad_mode() && runs_again();
}

// The FLOPs wait for the mask. If it cannot be read, they are those of the rectangle.
void count_masked(Thread& thread, const at::Tensor& mask, unsigned id, const OperatorCost& cost,
                  std::int16_t device) {
  Masked call{.operator_id = id,
              .type_id = type_id_of(cost.compute_type),
              .flop = cost.model_flop.low(),
              .device = device};
  if (count_later(thread, mask, call)) return;
  say_rectangle();
  thread.sums[call.type_id % kRegionTypes].model_flop += call.flop;
  Recorder::process().count(id, call.type_id, {.model_flop = call.flop, .calls = 0});
}

void Watched::list(Thread& thread, std::string_view reason) noexcept {
  observer::count_unknown(thread, operator_id(name_, reason));
}

unsigned Watched::number() noexcept {
  int id = id_.load(std::memory_order_relaxed);
  if (id < 0) {
    id = static_cast<int>(operator_id(name_));
    id_.store(id, std::memory_order_relaxed);
  }
  return static_cast<unsigned>(id);
}

void Watched::count(Thread& thread, const Arguments& arguments) noexcept {
  const Operator* row = found();
  std::string_view why = reason(row);
  if (!why.empty()) return count_unknown(thread, why);
  Result<OperatorCost> cost = cost_of(*row, arguments.view(), arguments.result());
  if (!cost.has_value()) {
    bool packed = row->kind == OperatorKind::attention && count_packed(thread, *this, arguments);
    return packed ? void() : count_unknown(thread, cost.error().message);
  }
  const void* weight = nullptr;
  std::uint64_t model_flop = cost->model_flop.low();
  bool layer = row->kind == OperatorKind::convolution || row->kind == OperatorKind::recurrent;
  if (layer && arguments.tensor(1) != nullptr) {
    weight = arguments.tensor(1)->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  }
  const at::Tensor* given =
      row->kind == OperatorKind::attention ? mask_of(*row, arguments) : nullptr;
  const at::Tensor* mask = given;
  if (mask != nullptr && is_run_again(thread)) mask = nullptr;  // none of it is needed
  bool later = mask != nullptr && !mask->is_cpu() && thread.aside == Thread::Aside::no &&
               can_read_later(*mask);
  std::optional<MaskArea> area;
  if (later) {
    model_flop = 0;
  } else if (mask != nullptr) {
    area = area_of_mask(*mask);
    model_flop = needed_of(area, model_flop);
  }
  count_call(thread, {.operator_id = number(),
                      .type_id = type_id_of(cost->compute_type),
                      .hardware_flop = cost->hardware_flop.low(),
                      .model_flop = model_flop,
                      .bytes = cost->read_bytes.value_or(0) + cost->written_bytes.value_or(0),
                      .leading = arguments.leading(),
                      .device = arguments.device(),
                      .weight = weight,
                      .parameter = weight != nullptr ? arguments.tensor(1) : nullptr});
  if (later) count_masked(thread, *mask, number(), *cost, arguments.device());
  if (thread.pass == Pass::backward || thread.open.id == 0) return;
  note_kind(thread, *row, arguments, given);
  if (row->kind == OperatorKind::matmul) note_product(thread, *row, arguments);
  if (std::optional<PagedSizes> pages = paged_sizes(*row, arguments.view())) {
    return note_paged(thread, *pages, type_id_of(cost->compute_type));
  }
  note_operands(thread, *row, arguments,
                {.model_flop = cost->model_flop.low(),
                 .hardware_flop = cost->hardware_flop.low(),
                 .mask = given,
                 .mask_area = area ? area->attended : 0,
                 .type = type_id_of(cost->compute_type)});
}

unsigned type_id_of(ElementType type) noexcept {
  static constinit std::atomic<unsigned> ids[kElementTypeCount] = {};  // number + 1; 0: not yet
  std::atomic<unsigned>& id = ids[static_cast<std::size_t>(type) % kElementTypeCount];
  unsigned known = id.load(std::memory_order_relaxed);
  if (known == 0) {
    known = type_id(name_of(type)) + 1;
    id.store(known, std::memory_order_relaxed);
  }
  return known - 1;
}

}  // namespace mfu::observer
