#include "torch/models.h"

#include <algorithm>

#include "record/recorder.h"

namespace mfu::observer {
namespace {

// The parameter that a view of it stands for.
at::Tensor base_of(const at::Tensor& tensor) {
  if (!tensor.is_view()) return tensor;
  return at::Tensor(tensor._base());
}

// Changed in place, or its gradient is gone, since a backward made one.
bool is_updated(Model& model) {
  if (model.backwards == 0 && model.functional == 0) return false;
  c10::intrusive_ptr<c10::TensorImpl> kept = model.parameter.lock();
  if (!kept) return false;
  at::Tensor parameter(std::move(kept));
  bool given = model.functional != 0;  // of plain tensors, by torch.func
  if (parameter.is_inference() || !parameter.is_leaf()) return false;
  if (!parameter.requires_grad() && !given) return false;
  auto version = static_cast<std::uint64_t>(parameter._version());
  if (model.backwards == 0) return version != model.version;
  return version != model.version || !parameter.grad().defined();
}

// Not made for one pass only: another model has come in the place of one that is gone.
bool is_parameter(const at::Tensor* weight) {
  if (weight == nullptr || !weight->defined()) return false;
  at::Tensor base = base_of(*weight);
  return base.is_leaf() && base.requires_grad();
}

bool is_gone(const Model& model) {
  return is_storage(model.storage) && model.alive.expired();
}

}  // namespace

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
    if (alike && gone == nullptr) gone = &each;
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
  at::Tensor base = base_of(*weight.parameter);
  model.parameter = c10::weak_intrusive_ptr<c10::TensorImpl>(base.getIntrusivePtr());
  model.version = base.is_inference() ? 0 : base._version();
}

Found Models::find(const FirstWeight& weight) {
  if (weight.storage == nullptr) return {};
  if (Model* model = known(weight)) {
    bool replaced = is_gone(*model);
    bool another = replaced && is_parameter(weight.parameter);
    if (another) *model = {.backwards = model->backwards};
    if (replaced) keep(*model, weight);
    return {.model = static_cast<std::uint32_t>(model - models_.data()), .is_new = another};
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

// The model of another weight of the same size, still there, that the program has gradients of.
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
  // A weight of the same size in the place of the one that got gradients: a functional update.
  bool given = by_hand && model->functional != 0;
  bool replaced = (model->backwards != 0 || given) && is_gone(*model);
  bool updated = replaced || ((model->backwards != 0 || given) && is_updated(*model));
  if (!updated && (model->backwards != 0 || given)) return false;
  replaced_ = replaced_ || (replaced && given);
  for (Model& each : models_) each.backwards = each.functional = 0;
  keep(*model, weight);
  return updated;
}

void Models::drop_gradients() {
  for (Model& each : models_) {
    c10::intrusive_ptr<c10::TensorImpl> kept = each.parameter.lock();
    if (!kept) continue;
    at::Tensor parameter(std::move(kept));
    bool same = parameter.is_inference() ||
                static_cast<std::uint64_t>(parameter._version()) == each.version;
    if (same) each.backwards = 0;
  }
}

bool Models::any_updated() {
  return std::any_of(models_.begin(), models_.begin() + count_, [&](Model& each) {
    // Nobody uses the last new weights, but each gradient before made some.
    bool given = by_hand && each.functional != 0;
    return (given && replaced_) || ((given || each.backwards != 0) && is_updated(each));
  });
}

}  // namespace mfu::observer
