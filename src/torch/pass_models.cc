// Asks the Python glue about models and modules: names, modes, owners of weights, calls.
#include <algorithm>

#include "torch/models.h"
#include "torch/pass_table.h"
#include "torch/passes.h"

namespace mfu::observer {
namespace {

constinit std::atomic<SameCall> same_call{nullptr};

}  // namespace

Follows leaves_model(Thread& thread, const Call& call) noexcept {
  OpenPass& open = thread.open;
  OwnerAsked asked = nullptr;
  auto has = [&](const auto& weights) {
    return std::find(weights.begin(), weights.end(), call.weight) != weights.end();
  };
  {
    Lock lock;
    const Model& model = passes().models[open.model];
    if (has(model.tails)) return Follows::same;
    if (has(model.leads)) return Follows::call;
    asked = model.tails.back() == nullptr ? passes().owner_asked : nullptr;
  }
  if (asked == nullptr) {
    open.headed = false;
    open.head_columns = 0;
    return Follows::same;
  }
  int owner = asked(open.model, reinterpret_cast<std::uint64_t>(open.lookups[0].table));
  if (owner == 0) return Follows::model;
  SameCall same = same_call.load(std::memory_order_relaxed);
  bool next = owner == 2 && open.asks && same != nullptr && same() == 0;
  Lock lock;
  if (next && passes().models.knows(call.weight)) return Follows::model;  // a part with a pass
  Model& model = passes().models[open.model];
  next = next && model.leads.back() == nullptr;
  auto& weights = next ? model.leads : model.tails;
  auto place = std::find(weights.begin(), weights.end(), nullptr);
  if (place != weights.end()) *place = call.weight;
  return next ? Follows::call : Follows::same;
}

void set_model_seen(ModelSeen seen) noexcept {
  Lock lock;
  passes().seen = seen;
}

void set_owner_asked(OwnerAsked asked) noexcept {
  Lock lock;
  passes().owner_asked = asked;
}

void join_models(std::uint32_t model, std::uint32_t other) noexcept {
  Lock lock;
  if (model >= kOtherModel || other >= kOtherModel || model == other) return;
  passes().models[model].joined = other;
}

std::uint32_t split_model(std::uint32_t model) noexcept {
  Lock lock;
  return passes().models.split(model);
}

void set_same_call(SameCall same) noexcept {
  same_call.store(same);
}

void remember_call() noexcept {
  if (SameCall same = same_call.load(std::memory_order_relaxed)) same();
}

CallSeen see_call(const OpenPass& open) noexcept {
  constexpr std::uint32_t kAsked = 16;  // after so many, the answer is assumed to stay the same
  SameCall same = same_call.load(std::memory_order_relaxed);
  if (same == nullptr || open.model >= kOtherModel) return CallSeen::nobodys;
  {
    Lock lock;
    const Model& model = passes().models[open.model];
    if (model.outside >= kAsked) return CallSeen::nobodys;
    if (model.separate >= kAsked) return CallSeen::other;
  }
  int answer = same();
  Lock lock;
  Model& model = passes().models[open.model];
  if (answer == 1) {
    model.loops = true;
    return CallSeen::same;
  }
  ++(answer == 0 ? model.separate : model.outside);
  return answer == 0 ? CallSeen::other : CallSeen::nobodys;
}

bool is_weight(const Thread& thread, const Call& call) noexcept {
  constexpr std::uint32_t kAsked = 16;  // after so many vain questions, nobody is asked any more
  static constinit std::atomic<std::uint32_t> misses{0};
  if (call.weight == nullptr || call.weight == thread.open.first_weight) return true;
  OwnerAsked asked = nullptr;
  {
    Lock lock;
    if (passes().models.knows(call.weight)) return true;
    asked = passes().owner_asked;
  }
  if (asked == nullptr || misses.load(std::memory_order_relaxed) >= kAsked) return false;
  bool owned = asked(kThisPass, reinterpret_cast<std::uint64_t>(call.weight)) != 0;
  misses.store(owned ? 0 : misses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return owned;
}

void set_model_mode(std::uint32_t number, const ModelMode& told) noexcept {
  if (number == kThisPass) {
    this_thread.open.amid = false;
    return;
  }
  if (number >= kOtherModel) return;
  constexpr std::uint8_t kAskedAgain = 16;
  bool turns = false;
  {
    Lock lock;
    Model& model = passes().models[number];
    turns = !told.named && model.evaluates == told.training;
    model.evaluates = !told.training;
    model.frozen = told.frozen;
    if (told.unsure && !model.named) model.unsure = kAskedAgain;
    if (told.named && !told.unsure) model.unsure = 0;
    model.named = model.named || told.named;
    model.trained = model.trained || (told.same && model.was_trained);
  }
  // train() and eval() end the pass.
  if (turns && this_thread.open.id != 0 && this_thread.open.model == number) end_pass(this_thread);
}

}  // namespace mfu::observer
