// Convolutions, attention and lookups: rarer and longer than matrix multiplies, so their formulas
// stay in ops/ and only the call is unboxed. Headers that a torch does not have yet are skipped;
// what it has beyond this list gets the boxed kernel.
#include "torch/kernel.h"

#include <ATen/ops/_addmm_activation_ops.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/embedding_ops.h>
#if __has_include(<ATen/ops/_scaled_dot_product_cudnn_attention_backward_ops.h>)
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_ops.h>
#endif

#include "torch/arguments.h"

namespace mfu::observer {
namespace {

// By the table of ops/, under the operator's own name.
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
      arguments.add(c10::IValue());  // a kind of argument no formula reads
    }
  }
};

// Free of FLOPs, but its indices are the tokens.
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

template <class... Ops>
void watch_all(torch::Library& aten, Taken& taken) {
  (watch<Ops, ByTable<Ops>>(aten, taken), ...);
}

}  // namespace

void register_rest(torch::Library& aten, Taken& taken) {
  using namespace at::_ops;
  watch<embedding, LookupRule>(aten, taken);
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
