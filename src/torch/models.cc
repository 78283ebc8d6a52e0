#include "torch/models.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstring>

#include "record/recorder.h"

namespace mfu::observer {
namespace {

// The parameter that the tensor is a view of.
at::Tensor base_of(const at::Tensor& tensor) {
  if (!tensor.is_view()) return tensor;
  return at::Tensor(tensor._base());
}

// The parameter that a weight was made from, if it was cast by autocast or normalized; otherwise
// the weight itself.
struct Leaf {
  at::Tensor parameter;
  std::uint32_t distance = 0;  // operators between them
};
Leaf leaf_of(const at::Tensor& tensor) {
  constexpr std::uint32_t kFarthest = 8;
  at::Tensor base = base_of(tensor);
  if (base.is_inference() || base.is_leaf()) return {base};
  const auto& made = base.grad_fn();  // it keeps the nodes before it
  torch::autograd::Node* node = made.get();
  for (std::uint32_t i = 0; i < kFarthest && node != nullptr; ++i) {
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      return {leaf->variable, i};
    }
    if (node->num_outputs() == 0) break;
    node = node->next_edge(0).function.get();
  }
  return {base};
}

constexpr std::int64_t kNoGradient = std::int64_t{1} << 62;  // its versions tell nothing

// A hash of up to 64 of its values, spread over all. 0 if they are not in host memory.
std::uint64_t values_of(const at::Tensor& tensor) {
  constexpr std::int64_t kLooked = 64;
  bool plain = tensor.layout() == at::kStrided && tensor.is_cpu() && tensor.has_storage() &&
               tensor.is_non_overlapping_and_dense() && tensor.numel() != 0;
  if (!plain) return 0;
  const auto* data = static_cast<const unsigned char*>(tensor.const_data_ptr());
  if (data == nullptr) return 0;
  std::int64_t count = tensor.numel(), step = std::max<std::int64_t>(1, count / kLooked);
  std::size_t width = std::min<std::size_t>(tensor.element_size(), 8);
  std::uint64_t sum = 1469598103934665603u;  // FNV-1a, by element
  for (std::int64_t i = 0; i < count; i += step) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data + static_cast<std::size_t>(i) * tensor.element_size(), width);
    sum = (sum ^ bits) * 1099511628211u;
  }
  return sum | 1;
}

void keep_watch(Watch& watch, const Leaf& leaf) {
  const at::Tensor& parameter = leaf.parameter;
  watch.distance = leaf.distance;
  watch.parameter = c10::weak_intrusive_ptr<c10::TensorImpl>(parameter.getIntrusivePtr());
  watch.version = parameter.is_inference() ? 0 : parameter._version();
  watch.values = 0;
  watch.gradient = -1;
  if (parameter.is_inference() || !parameter.is_leaf() || !parameter.requires_grad()) return;
  watch.values = values_of(parameter);
  if (at::Tensor gradient = parameter.grad(); gradient.defined()) {
    watch.gradient = gradient.is_inference() ? 0 : gradient._version();
  }
}

// Whether missing gradients tell of a step. They do not if an optimizer of torch.optim is about to
// step (DeepSpeed moves them elsewhere).
enum class Gone : bool { nothing, step };

// Whether the parameter was changed in place or through .data, or its gradient is gone or zero,
// since a backward made one. Each backward adds to the gradient once, and nothing else does.
bool is_changed(const Watch& watch, std::uint32_t backwards, bool given, Gone gone) {
  c10::intrusive_ptr<c10::TensorImpl> kept = watch.parameter.lock();
  if (!kept) return false;
  at::Tensor parameter(std::move(kept));
  if (parameter.is_inference() || !parameter.is_leaf()) return false;
  if (!parameter.requires_grad() && !given) return false;
  if (static_cast<std::uint64_t>(parameter._version()) != watch.version) return true;
  if (backwards == 0) return false;
  std::uint64_t values = watch.values == 0 ? 0 : values_of(parameter);
  if (values != watch.values) return true;
  if (gone == Gone::nothing) return false;
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return true;
  bool plain = !gradient.is_inference() && gradient.layout() == at::kStrided;
  return plain && gradient._version() > watch.gradient + backwards;
}

bool is_updated(const Model& model, bool by_hand) {
  if (model.backwards == 0 && model.functional == 0) return false;
  bool given = model.functional != 0;  // given to the program by torch.func, as plain tensors
  Gone gone = by_hand ? Gone::step : Gone::nothing;
  return is_changed(model.first, model.backwards, given, gone) ||
         is_changed(model.dense, model.backwards, false, gone);
}

// Whether the weight is a parameter and was not made for one pass only. Then another model has
// replaced one that is gone.
bool is_parameter(const at::Tensor* weight) {
  if (weight == nullptr || !weight->defined()) return false;
  at::Tensor base = base_of(*weight);
  return base.is_leaf() && base.requires_grad();
}

bool is_gone(const Model& model) {
  return is_storage(model.storage) && model.alive.expired();
}

}  // namespace

at::Tensor cast_from(const at::Tensor& weight) {
  at::Tensor base = base_of(weight);
  if (base.is_inference() || base.is_leaf()) return {};
  const auto& made = base.grad_fn();
  if (!made || made->num_outputs() != 1) return {};
  auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(made->next_edge(0).function.get());
  if (leaf == nullptr) return {};
  const at::Tensor& parameter = leaf->variable;
  bool cast = parameter.scalar_type() != base.scalar_type() && parameter.sizes() == base.sizes();
  return cast && parameter.has_storage() ? parameter : at::Tensor();
}

Model* Models::known(const FirstWeight& weight) {
  Model* gone = nullptr;
  std::int64_t sizes[2] = {};
  if (weight.parameter != nullptr && weight.parameter->dim() >= 2) {
    sizes[0] = weight.parameter->size(0);
    sizes[1] = weight.parameter->size(1);
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    Model& each = models_[i];
    bool dead = is_gone(each);
    if (!dead && each.storage == weight.storage && each.offset == weight.offset) return &each;
    bool alike = dead && sizes[0] != 0 && std::equal(sizes, sizes + 2, each.sizes);
    // Of several models that are gone, it is the one that got gradients.
    bool given = each.functional != 0 || each.backwards != 0;
    bool better = gone == nullptr || (given && gone->functional == 0 && gone->backwards == 0);
    if (alike && better) gone = &each;
  }
  return gone;
}

void Models::keep(Model& model, const FirstWeight& weight) {
  model.storage = weight.storage;
  model.offset = weight.offset;
  if (is_storage(weight.storage)) {
    auto* storage = static_cast<c10::StorageImpl*>(const_cast<void*>(weight.storage));
    model.alive = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(storage));
  }
  if (weight.parameter == nullptr || !weight.parameter->defined()) return;
  if (weight.parameter->dim() >= 2) {
    model.sizes[0] = weight.parameter->size(0);
    model.sizes[1] = weight.parameter->size(1);
  }
  keep_watch(model.first, leaf_of(*weight.parameter));
  if (c10::intrusive_ptr<c10::TensorImpl> dense = model.dense.parameter.lock()) {
    keep_watch(model.dense, {at::Tensor(std::move(dense))});
  }
}

void Models::watch_dense(std::uint32_t model, const at::Tensor& weight) {
  if (model >= count_ || !weight.defined() || !models_[model].dense.parameter.expired()) return;
  Leaf leaf = leaf_of(weight);
  bool trained = leaf.parameter.is_leaf() && leaf.parameter.requires_grad();
  if (trained) keep_watch(models_[model].dense, leaf);
}

Found Models::find(const FirstWeight& weight) {
  if (weight.storage == nullptr) return {};
  if (Model* model = known(weight)) {
    bool replaced = is_gone(*model);
    bool another = replaced && is_parameter(weight.parameter);
    if (another) {
      bool trained = model->trained || model->was_trained;
      std::uint64_t batch = model->trained_batch;
      *model = {.backwards = model->backwards, .trained_batch = batch, .was_trained = trained};
    }
    if (replaced) keep(*model, weight);
    bool unsure = model->unsure != 0;
    if (unsure) --model->unsure;
    return {.model = static_cast<std::uint32_t>(model - models_.data()),
            .is_new = another,
            .unsure = unsure};
  }
  if (count_ >= kOtherModel) return {};
  std::uint32_t number = Recorder::process().add_model();
  if (number >= kOtherModel) return {};
  count_ = std::max(count_, number + 1);
  models_[number] = {};
  keep(models_[number], weight);
  return {.model = number, .is_new = true};
}

std::uint32_t Models::split(std::uint32_t model) {
  if (model >= count_ || count_ >= kOtherModel) return model;
  std::uint32_t number = Recorder::process().add_model();
  if (number >= kOtherModel) return model;
  count_ = std::max(count_, number + 1);
  models_[number] = std::move(models_[model]);
  models_[model] = {};
  return number;
}

bool Models::knows(const void* storage) const {
  return std::any_of(models_.begin(), models_.begin() + count_,
                     [&](const Model& each) { return each.storage == storage && !is_gone(each); });
}

// The model of another weight of the same size that still exists and whose gradients the program
// has.
bool Models::continues(const FirstWeight& weight) {
  if (!by_hand || weight.parameter == nullptr || weight.parameter->dim() < 2) return false;
  for (std::uint32_t i = 0; i < count_; ++i) {
    Model& each = models_[i];
    bool alike =
        each.sizes[0] == weight.parameter->size(0) && each.sizes[1] == weight.parameter->size(1);
    if (!alike || each.functional == 0) continue;
    replaced_ = true;
    for (Model& other : models_) other.functional = other.backwards = 0;
    return true;
  }
  return false;
}

bool Models::take_update(const FirstWeight& weight) {
  Model* model = known(weight);
  if (model == nullptr) return continues(weight);
  // A weight of the same size replaces the one that got gradients: a functional update.
  bool given = by_hand && model->functional != 0;
  // Weights that are cast or normalized anew for each pass are made from a parameter that stays.
  bool gone = (model->backwards != 0 || given) && is_gone(*model);
  bool replaced = gone && model->first.parameter.expired();
  // An update that stays differentiable makes the new weight from the old one. So it is farther
  // from the parameter that everything began with.
  if (gone && given && !replaced && weight.parameter != nullptr) {
    replaced = leaf_of(*weight.parameter).distance != model->first.distance;
  }
  bool updated = replaced || ((model->backwards != 0 || given) && is_updated(*model, by_hand));
  if (!updated && (model->backwards != 0 || given)) return false;
  replaced_ = replaced_ || (replaced && given);
  for (Model& each : models_) each.backwards = each.functional = 0;
  keep(*model, weight);
  return updated;
}

void Models::drop_gradients() {
  for (Model& each : models_) {
    c10::intrusive_ptr<c10::TensorImpl> kept = each.first.parameter.lock();
    if (!kept) continue;
    at::Tensor parameter(std::move(kept));
    bool same = parameter.is_inference() ||
                static_cast<std::uint64_t>(parameter._version()) == each.first.version;
    if (!same) continue;
    each.backwards = 0;
    each.first.gradient = each.dense.gradient = kNoGradient;
  }
}

bool Models::any_updated() {
  return std::any_of(models_.begin(), models_.begin() + count_, [&](Model& each) {
    // The newest weights were not used yet, but each earlier gradient was followed by new weights.
    bool given = by_hand && each.functional != 0;
    return (given && replaced_) || ((given || each.backwards != 0) && is_updated(each, by_hand));
  });
}

}  // namespace mfu::observer
