#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ops/formula.h"
#include "ops/table.h"
#include "ops/user_formula.h"

namespace mfu {
namespace {

struct Table {
  std::vector<Operator> rows;
  std::unordered_map<std::string_view, const Operator*> by_name;
};

const Table& table() {
  static const Table kBuilt = [] {
    Table made;
    for (std::span<const Operator> rows :
         {matmul_rows(), convolution_rows(), attention_rows(), other_rows()}) {
      made.rows.insert(made.rows.end(), rows.begin(), rows.end());
    }
    std::ranges::sort(made.rows, {}, &Operator::name);
    for (const Operator& row : made.rows) made.by_name.emplace(row.name, &row);
    return made;
  }();
  return kBuilt;
}

const Operator* exact(std::string_view name) {
  auto found = table().by_name.find(name);
  return found != table().by_name.end() ? found->second : nullptr;
}

Result<OperatorCost> evaluate(const OperatorFormula& formula, const Call& call) {
  struct Visitor {
    const Call& call;
    Result<OperatorCost> operator()(const MatmulLayout& at) const { return matmul_cost(at, call); }
    Result<OperatorCost> operator()(const ConvolutionLayout& at) const {
      return convolution_cost(at, call);
    }
    Result<OperatorCost> operator()(const AttentionLayout& at) const {
      return attention_cost(at, call);
    }
    Result<OperatorCost> operator()(const RecurrentLayout& at) const {
      return recurrent_cost(at, call);
    }
    Result<OperatorCost> operator()(const LookupLayout& at) const { return lookup_cost(at, call); }
    Result<OperatorCost> operator()(const FourierLayout& at) const {
      return fourier_cost(at, call);
    }
    Result<OperatorCost> operator()(const UserLayout& at) const { return user_cost(at, call); }
  };
  return std::visit(Visitor{call}, formula.layout);
}

// The words of a name after its namespace: "vllm::fused_experts" is "fused" and "experts".
template <typename Predicate>
bool any_word(std::string_view name, const Predicate& predicate) {
  while (!name.empty()) {
    std::size_t end = std::min(name.find_first_of("_.:<>(), "), name.size());
    if (end > 0 && predicate(name.substr(0, end))) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

constexpr std::string_view kSmells[] = {
    "mm",     "bmm",    "addmm",   "baddbmm", "gemm",      "gemv",      "matmul",      "linear",
    "conv",   "conv1d", "conv2d",  "conv3d",  "attn",      "attention", "convolution", "fmha",
    "mha",    "mla",    "sdpa",    "flash",   "lstm",      "gru",       "rnn",         "fft",
    "einsum", "moe",    "experts", "qlinear", "flashattn", "qgemm",     "gmm",         "ssd",
    "mamba",  "scan",   "fwd",     "bwd",     "dot",       "tem",       "sage",        "sageattn",
    "fw",     "bw",     "grouped"};
// Whether a word names the types of operands and result, as FBGEMM does: f8f8bf16, bf16i4bf16.
bool names_operands(std::string_view word) {
  constexpr std::string_view kTypes[] = {"bf16", "fp16", "fp8", "fp4", "f8",
                                         "f4",   "f16",  "i8",  "i4"};
  int found = 0;
  while (!word.empty()) {
    auto type = std::ranges::find_if(kTypes, [&](auto each) { return word.starts_with(each); });
    if (type == std::end(kTypes)) return false;
    word.remove_prefix(type->size());
    ++found;
  }
  return found >= 3;
}
// Words of operators that prepare such work but multiply nothing.
constexpr std::string_view kInnocent[] = {
    "prepack",   "pack",     "unpack", "packed",    "reorder", "cache",   "quant",    "quantize",
    "flatten",   "choice",   "align",  "topk",      "softmax", "sum",     "permute",  "mask",
    "workspace", "metadata", "sizes",  "size",      "stride",  "padding", "dilation", "groups",
    "norm",      "rope",     "rotary", "layernorm", "rmsnorm", "gate",    "gating"};

template <std::size_t N>
bool is_one_of(std::string_view word, const std::string_view (&words)[N]) {
  return std::ranges::find(words, word) != std::end(words);
}

}  // namespace

std::string_view name_of(OperatorKind kind) {
  constexpr std::array<std::string_view, 8> kNames{"matmul",         "convolution", "attention",
                                                   "recurrent",      "lookup",      "fourier",
                                                   "linear_algebra", "elementwise"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(OperatorRole role) {
  constexpr std::array<std::string_view, 5> kNames{"leaf", "cover", "wrapper", "free", "uncounted"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string_view name_of(Assumption assumption) {
  constexpr std::array<std::string_view, 5> kNames{"", "mask_is_tensor", "causal_unknown",
                                                   "groups_full", "gradients_all"};
  return kNames[static_cast<std::size_t>(assumption)];
}

std::span<const Operator> all_operators() {
  return table().rows;
}

const Operator* find_operator(std::string_view name) {
  if (const Operator* found = find_user_operator(name)) return found;
  if (const Operator* found = find_user_operator(name.substr(0, name.find('.')))) return found;
  if (const Operator* found = exact(name)) return found;
  // A namespace has no dot, so what follows a dot is the overload.
  name = name.substr(0, name.find('.'));
  if (const Operator* found = exact(name)) return found;
  if (name.ends_with('_')) return exact(name.substr(0, name.size() - 1));
  return nullptr;
}

Result<OperatorCost> cost_of(const Operator& op, std::span<const Argument> arguments,
                             const Argument& result) {
  if (op.formula == nullptr) {
    if (op.role == OperatorRole::free) return OperatorCost{};
    return fail(ErrorCode::unsupported, fmt::format("{} has no formula{}{}", op.name,
                                                    op.note.empty() ? "" : ": ", op.note));
  }
  const OperatorFormula* formula = op.formula;
  bool other = formula->other != nullptr && arguments.size() == formula->other_count;
  Call call{arguments, result};
  Result<OperatorCost> cost = evaluate(other ? *formula->other : *formula, call);
  if (cost) return cost;
  return fail(cost.error().code, fmt::format("{}: {}", op.name, cost.error().message));
}

bool looks_flop_carrying(std::string_view name) {
  if (find_operator(name) != nullptr) return false;
  if (name.starts_with("aten::fft_")) return false;  // around _fft_c2c and its kin
  if (name.starts_with("autograd::") || name.starts_with("torch::autograd::")) return false;
  // Inductor names a kernel after everything that it fuses. Only its templates multiply.
  if (name.starts_with("triton_") && !name.starts_with("triton_tem_")) return false;
  std::size_t space = name.rfind("::");
  std::string_view local = space == std::string_view::npos ? name : name.substr(space + 2);
  // Autograd's own nodes (AddmmBackward0) call operators that are counted.
  if (space == std::string_view::npos && local.find("Backward") != std::string_view::npos) {
    return false;
  }
  if (any_word(local, [](std::string_view word) { return is_one_of(word, kInnocent); })) {
    return false;
  }
  return any_word(local, [](std::string_view word) {
    return is_one_of(word, kSmells) || names_operands(word) || word.starts_with("gemm") ||
           word.starts_with("qconv") || word.find("Attn") != std::string_view::npos ||
           word.find("Attention") != std::string_view::npos;
  });
}

}  // namespace mfu
