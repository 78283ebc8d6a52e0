// The models that passes are of, each known by the first table or weight it uses. All calls but the
// last ones are made under the lock of passes.cc.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstdint>

#include "record/region.h"

namespace mfu::observer {

inline constexpr std::uint32_t kOtherModel = kRegionModels - 1;  // all that find no room

// What a model is known by.
struct FirstWeight {
  const void* storage = nullptr;  // null: nothing is known
  std::int64_t offset = 0;
  const at::Tensor* parameter = nullptr;  // itself or a view of it; null: not at hand
};

// A parameter of a model, to see whether a step changed it.
struct Watch {
  c10::weak_intrusive_ptr<c10::TensorImpl> parameter{c10::intrusive_ptr<c10::TensorImpl>()};
  std::uint64_t version = 0;
  // Some of its values, where they are on the host: an update through .data changes no version.
  std::uint64_t values = 0;
  std::int64_t gradient = -1;  // version of its gradient; -1: it had none
  std::uint32_t distance = 0;  // operators from it to the weight that was used
};

struct Model {
  const void* storage = nullptr;
  std::int64_t offset = 0;
  std::int64_t sizes[2] = {};
  c10::weak_intrusive_ptr<c10::StorageImpl> alive{c10::intrusive_ptr<c10::StorageImpl>()};
  Watch first;  // what it is known by
  // Its first product's weight, where it begins with a table: most rows of that get no gradient.
  Watch dense;
  std::uint32_t backwards = 0;   // that left gradients since its last step
  std::uint32_t functional = 0;  // that gave gradients to the program instead
  std::uint64_t trained_batch = 0;
  std::uint64_t validated_step = 0;  // the step after which it was validated last, plus 1
  // In which its sequences were counted as samples: of plain passes, of recorded ones.
  std::uint64_t counted_epoch[2] = {};
  std::uint32_t separate = 0;  // times that its first weight's coming again was another call
  std::uint32_t outside = 0;   // … and that no module ran
  bool loops = false;          // one call of it uses its first weight again
  bool trained = false, evaluates = false;
  bool frozen = false;  // none of its parameters is trained: what it sees is no validation
  bool named = false;   // a module's: what computes outside of modules has no name
  // Its pass before: what it brought and met.
  std::uint64_t before_id = 0, before_each = 0, before_samples = 0;
  PassPhase before = PassPhase::other;
  bool before_chunk = false;           // several tokens to what a pass before it had cached
  bool before_all_logits = false;      // of each of its tokens
  std::uint32_t joined = kOtherModel;  // the other number of the same module; kOtherModel: none
  // Weights that it uses after its logits (a value head). Full: nobody is asked any more.
  std::array<const void*, 4> tails{};
};

struct Found {
  std::uint32_t model = kOtherModel;
  bool is_new = false;  // or another one in the place of one that is gone: its name is not known
};

// A compiled graph's table may be known by its rows only: a number with a bit that no address of a
// program has. How high addresses are says nothing: the heap of a Python that is not relocatable
// (Debian's, Ubuntu's) begins low.
inline constexpr std::uintptr_t kRowsOnly = std::uintptr_t{1} << 63;
inline const void* known_by_rows(std::uint64_t rows) {
  return reinterpret_cast<const void*>(rows | kRowsOnly);
}
inline bool is_storage(const void* weight) {
  return (reinterpret_cast<std::uintptr_t>(weight) & kRowsOnly) == 0;
}

class Models {
 public:
  // The model of that weight. Weights that are made anew for each pass (autocast, spectral norm,
  // functional updates) are those of the model whose weight of the same size is gone.
  Found find(const FirstWeight& weight);
  bool knows(const void* storage) const;
  // The first product of a pass of that model, which began with a table.
  void watch_dense(std::uint32_t model, const at::Tensor& weight);
  Model& operator[](std::uint32_t model) { return models_[model]; }
  std::uint32_t split(std::uint32_t model);

  // Whether parameters were updated since a backward left them gradients; from then on the next
  // update is waited for.
  bool take_update(const FirstWeight& weight);
  bool any_updated();
  // No optimizer exists: gradients that the program was given are for updates of its own.
  bool by_hand = true;
  // An optimizer's zero_grad() takes the gradients away: that alone is no update.
  void drop_gradients();

 private:
  Model* known(const FirstWeight& weight);
  void keep(Model& model, const FirstWeight& weight);
  bool continues(const FirstWeight& weight);

  std::array<Model, kRegionModels> models_;
  std::uint32_t count_ = 0;
  bool replaced_ = false;  // new weights have come in the place of others before
};

}  // namespace mfu::observer
