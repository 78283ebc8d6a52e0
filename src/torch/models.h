// The models that passes belong to. A model is recognised by the first table or weight that it
// uses. All functions but the last few are called with the lock of passes.cc held.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstdint>

#include "record/region.h"

namespace mfu::observer {

// the number of all models for which there is no room
inline constexpr std::uint32_t kOtherModel = kRegionModels - 1;

// What a model is recognised by.
struct FirstWeight {
  const void* storage = nullptr;  // null if nothing is known
  std::int64_t offset = 0;
  const at::Tensor* parameter = nullptr;  // itself or a view of it; null if it is not available
};

// The parameter from which autocast made this weight. Undefined if autocast did not make it.
at::Tensor cast_from(const at::Tensor& weight);

// A parameter of a model that is watched, to see whether a step changed it.
struct Watch {
  c10::weak_intrusive_ptr<c10::TensorImpl> parameter{c10::intrusive_ptr<c10::TensorImpl>()};
  std::uint64_t version = 0;
  // A hash of some of its values, if they are in host memory. An update through .data changes no
  // version.
  std::uint64_t values = 0;
  std::int64_t gradient = -1;  // version of its gradient; -1 if it had none
  std::uint32_t distance = 0;  // how many operators are between it and the weight that was used
};

struct Model {
  const void* storage = nullptr;
  std::int64_t offset = 0;
  std::int64_t sizes[2] = {};
  c10::weak_intrusive_ptr<c10::StorageImpl> alive{c10::intrusive_ptr<c10::StorageImpl>()};
  Watch first;  // what it is recognised by
  // The weight of its first product, if it begins with a table. Most rows of a table get no
  // gradient.
  Watch dense;
  std::uint32_t backwards = 0;   // backwards that left gradients since its last step
  std::uint32_t functional = 0;  // backwards that gave the gradients to the program instead
  std::uint64_t trained_batch = 0;
  std::uint64_t validated_step = 0;  // 1 + the step after which it was last validated
  // The epoch in which its sequences were counted as samples, for plain and for recorded passes,
  // and for each in evaluation mode.
  std::uint64_t counted_epoch[2][2] = {};
  std::uint32_t separate = 0;  // how often its first weight came again in another call
  std::uint32_t outside = 0;   // how often that happened while no module ran
  bool loops = false;          // one call of it uses its first weight more than once
  bool trained = false, evaluates = false;
  bool was_trained = false;  // the model that had this number before was trained
  bool frozen = false;       // no parameter is trained, so its passes are no validation
  bool named = false;        // a module runs it; what computes outside modules has no name
  // How often its name is asked for again, because only its table was looked up so far.
  std::uint8_t unsure = 0;
  // What its previous pass brought and met.
  std::uint64_t before_id = 0, before_each = 0, before_samples = 0, before_epoch = 0;
  PassPhase before = PassPhase::other;
  bool before_cached = false;      // it met a cache
  bool before_chunk = false;       // it brought several tokens to what an earlier pass had cached
  bool before_all_logits = false;  // it made logits for each of its tokens
  bool makes_logits = false;       // a pass of it ended with a product as wide as its table is long
  // another number of the same module; kOtherModel if there is none
  std::uint32_t joined = kOtherModel;
  // Weights that it uses after its logits (a value head). Once this is full, nobody is asked any
  // more.
  std::array<const void*, 4> tails{};
  // Weights that it uses before its table, in each call: they fit what an encoder made to a decoder
  // of another width.
  std::array<const void*, 4> leads{};
  std::uint8_t calls_remembered = 0;  // passes whose module call was remembered (OpenPass::asks)
};

struct Found {
  std::uint32_t model = kOtherModel;
  bool is_new = false;  // it is new, or replaces one that is gone: its name is not known
  bool unsure = false;  // it has a name, but it may be part of another module
};

// A compiled graph's table may be known only by its number of rows. It gets a bit that no address
// has. How high an address is tells nothing: the heap of a Python that is not relocatable
// (Debian's, Ubuntu's) begins low.
inline constexpr std::uintptr_t kRowsOnly = std::uintptr_t{1} << 63;
inline const void* known_by_rows(std::uint64_t rows) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  return reinterpret_cast<const void*>(rows | kRowsOnly);
}
inline bool is_storage(const void* weight) {
  return (reinterpret_cast<std::uintptr_t>(weight) & kRowsOnly) == 0;
}

class Models {
 public:
  // The model of that weight. Weights that are made anew for each pass (autocast, spectral norm,
  // functional updates) belong to the model whose weight of the same size is gone.
  Found find(const FirstWeight& weight);
  bool knows(const void* storage) const;
  // The first product of a pass of that model, which began with a table.
  void watch_dense(std::uint32_t model, const at::Tensor& weight);
  Model& operator[](std::uint32_t model) { return models_[model]; }
  std::uint32_t split(std::uint32_t model);

  // Whether parameters were updated since a backward left gradients. From then on it waits for the
  // next update.
  bool take_update(const FirstWeight& weight);
  bool any_updated();
  // No optimizer exists, so gradients that the program got are for its own updates.
  bool by_hand = true;
  // An optimizer's zero_grad() removes the gradients. That alone is no update.
  void drop_gradients();

 private:
  Model* known(const FirstWeight& weight);
  void keep(Model& model, const FirstWeight& weight);
  bool continues(const FirstWeight& weight);

  std::array<Model, kRegionModels> models_;
  std::uint32_t count_ = 0;
  bool replaced_ = false;  // new weights have replaced others before
};

}  // namespace mfu::observer
