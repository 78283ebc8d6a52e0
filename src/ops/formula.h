// Where the arguments of an operator are, by family, and the cost that follows from them. A
// position below 0 means that the operator has no such argument.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "mfu/ops.h"
#include "ops/operands.h"

namespace mfu {

using Position = std::int8_t;
inline constexpr Position kNoPosition = -1;

struct MatmulLayout {
  enum class Form : std::uint8_t {
    matrices,       // [m, k] × [k, n]
    batched,        // [b, m, k] × [b, k, n]
    vector,         // [m, k] × [k]
    dot,            // [k] × [k]
    outer,          // [m] × [n]
    linear,         // […, k] × weight of n·k elements in any order
    broadcast,      // torch.matmul: vectors, batches, broadcasting
    grouped,        // one of the four forms of _grouped_mm
    scaled,         // […, k] × packed weight whose n is the second size of `extra` (its scales)
    features,       // […, k] × packed weight of `extra` = k and `extra` + 1 = n, given as integers
    opaque,         // […, k] × packed weight: n is the last size of the result, or of `extra`
    sparse,         // 2:4: the compressed weight, half as wide, is the left one; right is dense
    sparse_linear,  // 2:4: the compressed weight is the right one
    flagged,        // TransformerEngine: each side with a transpose flag 4 after it
    listed          // lists of [m, k] × [n, k]: their sizes as pairs, one product each
  };
  Form form = Form::matrices;
  Position left = 0;
  Position right = 1;
  Position added = kNoPosition;        // bias or accumulator: read
  Position result_type = kNoPosition;  // a c10::ScalarType; absent: as the left operand
  Position extra = kNoPosition;
  ElementType result = ElementType::unknown;   // fixed by the operator
  ElementType compute = ElementType::unknown;  // fixed by the operator
};

struct ConvolutionLayout {
  Position input = 0;
  Position weight = 1;
  Position bias = 2;
  Position stride = 3;
  Position padding = 4;
  Position dilation = 5;
  Position groups = kNoPosition;
  Position output_padding = kNoPosition;
  Position transposed = kNoPosition;  // a flag
  bool always_transposed = false;
  Position grad_output = kNoPosition;  // there: a backward
  Position gradients = kNoPosition;    // which gradients are asked for: input, weight[, bias]
  // For a backward without such a mask: how many of the two gradients it makes.
  std::uint8_t gradient_count = 2;
  bool time_major = false;  // conv_tbc: [t, b, c] × [k, in, out]
};

struct AttentionLayout {
  bool backward = false;      // grad_output is the argument before the query
  Position query = 0;         // key and value follow
  bool heads_second = false;  // [b, h, s, d]; else [b, s, h, d], or [tokens, h, d] when packed
  Position bias = kNoPosition;
  Position causal = kNoPosition;
  Position mask_type = kNoPosition;  // 0 none, 1 causal from the top left, 2 from the bottom right
  bool bottom_right = false;
  Position window_left = kNoPosition;  // window_right follows
  Position window_pair = kNoPosition;  // both in one list
  Position window_keys = kNoPosition;  // so many keys up to the query's own
  Position offsets_q = kNoPosition;    // offsets_k follows
  Position longest_q = kNoPosition;    // longest_k follows
  Position used_keys = kNoPosition;    // lengths that only a tensor knows
  Position pages = kNoPosition;        // a table of cache pages: the same
  bool paged = false;  // [tokens, h, d] against pages; used_keys has the keys of each sequence
  Position padding = kNoPosition;  // keys to leave out at the left of each: the same
};

struct RecurrentLayout {
  Position input = 0;
  Position weights = kNoPosition;  // oneDNN: two tensors beside each other
  Position mode = kNoPosition;     // cuDNN and MIOpen: 0 ReLU, 1 tanh, 2 LSTM, 3 GRU
  Position hidden = kNoPosition;
  Position projection = kNoPosition;
  Position layers = kNoPosition;
  Position bidirectional = kNoPosition;
  bool backward = false;
  Position gradients = kNoPosition;  // the fourth of the mask: the weights'
};

struct LookupLayout {
  Position table = kNoPosition;     // forward: rows are read
  Position gradient = kNoPosition;  // backward: rows are written
  Position indices = 1;
  Position rows = kNoPosition;  // backward: how many rows the dense gradient has
};

struct FourierLayout {
  bool real = false;                 // one side is real: half the work
  Position last_size = kNoPosition;  // of a complex-to-real transform
};

// What a user wrote (user_formula.h).
struct UserLayout {
  const UserFormula* formula = nullptr;
};

struct OperatorFormula {
  std::variant<MatmulLayout, ConvolutionLayout, AttentionLayout, RecurrentLayout, LookupLayout,
               FourierLayout, UserLayout>
      layout;
  // Another overload whose arguments are elsewhere. The number of arguments tells which one was
  // called, because profiler files leave the overload's name out.
  const OperatorFormula* other = nullptr;
  std::uint8_t other_count = 0;
};

struct Call {
  std::span<const Argument> arguments;
  const Argument& result;
};

Result<OperatorCost> matmul_cost(const MatmulLayout& layout, const Call& call);
Result<ProductSizes> matmul_sizes(const MatmulLayout& layout, const Call& call);
Result<PagedSizes> sizes_of_paged(const AttentionLayout& layout, const Call& call);
Result<OperatorCost> convolution_cost(const ConvolutionLayout& layout, const Call& call);
Result<OperatorCost> attention_cost(const AttentionLayout& layout, const Call& call);
Result<OperatorCost> recurrent_cost(const RecurrentLayout& layout, const Call& call);
Result<OperatorCost> lookup_cost(const LookupLayout& layout, const Call& call);
Result<OperatorCost> fourier_cost(const FourierLayout& layout, const Call& call);

}  // namespace mfu
