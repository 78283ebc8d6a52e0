// Convolutions, attention and lookups. They are rarer and longer than matrix multiplies, so their
// formulas stay in ops/, and only the call is unboxed. Headers that a torch does not have are
// skipped. Operators beyond this list get the boxed kernel.
#include "torch/kernel.h"

#include <ATen/ops/_addmm_activation_ops.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/binary_cross_entropy_with_logits_ops.h>
#include <ATen/ops/constant_pad_nd_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/nll_loss2d_forward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#if __has_include(<ATen/ops/_scaled_dot_product_cudnn_attention_backward_ops.h>)
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_ops.h>
#endif

#include "torch/arguments.h"
#include "torch/padding.h"

namespace mfu::observer {
namespace {

// Counts by the table of ops/, under the operator's own name.
template <class Op>
struct ByTable {
  static Watched& row() {
    static Watched instance{Op::name};
    return instance;
  }
  static unsigned odd_id() {
    static const unsigned kId = operator_id(Op::name, "a sparse or nested operand");
    return kId;
  }
  template <class... Items>
  static void count(Thread& thread, const Items&... items) {
    Arguments arguments;
    (add(arguments, items), ...);
    row().count(thread, arguments);
  }

 private:
  template <class Item>
  static void add(Arguments& arguments, const Item& item) {
    if constexpr (requires { arguments.add(item); }) {
      arguments.add(item);
    } else {
      arguments.add(c10::IValue());  // no formula reads this kind of argument
    }
  }
};

// A lookup has no FLOPs, but its indices are the tokens.
struct LookupRule {
  static unsigned odd_id() {
    static const unsigned kId = operator_id("aten::embedding");
    return kId;
  }
  template <class... Rest>
  static void count(Thread& thread, const at::Tensor& weight, const at::Tensor& indices,
                    const Rest&...) {
    c10::IntArrayRef table = weight.sizes(), shape = indices.sizes();
    if (table.empty()) return;
    auto size = [&](std::size_t i) {
      return i < shape.size() ? static_cast<std::uint64_t>(shape[i]) : 0;
    };
    count_lookup(thread,
                 {.table = weight.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
                  .parameter = &weight,
                  .rows = static_cast<std::uint64_t>(table.front()),
                  .tokens = static_cast<std::uint64_t>(indices.numel()),
                  .sizes = {size(0), size(1)}});
  }
};

// These have no FLOPs either. They tell which positions masks and labels leave out, and that a pass
// met a loss. Tensors without plain sizes tell nothing.
struct Quietly {
  static unsigned odd_id() {
    static const unsigned kId = operator_id("aten::_softmax");
    return kId;
  }
};

struct SoftmaxRule : Quietly {
  static void count(Thread& thread, const at::Tensor& scores, std::int64_t, bool) {
    note_scores(thread, scores);
  }
};

struct LossRule : Quietly {
  template <class... Rest>
  static void count(Thread& thread, const at::Tensor&, const at::Tensor&, const Rest&...) {
    if (thread.open.id != 0 && thread.pass != Pass::backward) thread.open.met_loss = true;
  }
};

struct ClassLossRule : Quietly {
  static void count(Thread& thread, const at::Tensor&, const at::Tensor& targets,
                    const std::optional<at::Tensor>&, std::int64_t, const c10::SymInt& ignored) {
    note_targets(thread, targets, ignored.maybe_as_int().value_or(kIgnoredLabel));
  }
};

bool is_ignored_label(const at::Tensor& labels, const at::Scalar& value) {
  bool number = value.isIntegral(false) || value.isFloatingPoint();
  return number && value.toDouble() == static_cast<double>(kIgnoredLabel) &&
         at::isIntegralType(labels.scalar_type(), false);
}

struct CompareRule : Quietly {
  static void count(Thread& thread, const at::Tensor& labels, const at::Scalar& value) {
    if (is_ignored_label(labels, value)) note_labels(thread, labels);
  }
};

struct ShiftRule : Quietly {
  static void count(Thread& thread, const at::Tensor& labels, c10::SymIntArrayRef,
                    const at::Scalar& value) {
    if (is_ignored_label(labels, value)) note_labels(thread, labels);
  }
};

template <class... Ops>
void watch_all(torch::Library& aten, Taken& taken) {
  (watch<Ops, ByTable<Ops>>(aten, taken), ...);
}

}  // namespace

void register_rest(torch::Library& aten, Taken& taken) {
  using namespace at::_ops;
  watch<embedding, LookupRule>(aten, taken);
  watch<_softmax, SoftmaxRule>(aten, taken);
  watch<nll_loss_forward, ClassLossRule>(aten, taken);
  watch<nll_loss2d_forward, ClassLossRule>(aten, taken);
  watch<mse_loss, LossRule>(aten, taken);
  watch<binary_cross_entropy, LossRule>(aten, taken);
  watch<binary_cross_entropy_with_logits, LossRule>(aten, taken);
  watch<ne_Scalar, CompareRule>(aten, taken);
  watch<eq_Scalar, CompareRule>(aten, taken);
  watch<constant_pad_nd, ShiftRule>(aten, taken);
  watch_all<convolution, convolution_backward, _addmm_activation>(aten, taken);
  watch_all<_scaled_dot_product_flash_attention_for_cpu,
            _scaled_dot_product_flash_attention_for_cpu_backward,
            _scaled_dot_product_flash_attention, _scaled_dot_product_flash_attention_backward,
            _scaled_dot_product_efficient_attention,
            _scaled_dot_product_efficient_attention_backward>(aten, taken);
#if __has_include(<ATen/ops/_scaled_dot_product_cudnn_attention_backward_ops.h>)
  watch_all<_scaled_dot_product_cudnn_attention, _scaled_dot_product_cudnn_attention_backward>(
      aten, taken);
#endif
}

}  // namespace mfu::observer
