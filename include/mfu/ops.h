// What one operator costs, worked out from its name and arguments: FLOP needed and executed, bytes
// read and written. Both the observer inside PyTorch and the reader of profiler files use it.
//
//   mfu::ArgumentList arguments;
//   arguments.add_tensor(mfu::ElementType::bf16, {{128, 256}});
//   arguments.add_tensor(mfu::ElementType::bf16, {{256, 512}});
//   const mfu::Operator* mm = mfu::find_operator("aten::mm");
//   auto cost = mfu::cost_of(*mm, arguments.view());  // 2·128·256·512 FLOP in bf16
//
// What is counted: a matrix multiply is 2mnk, whatever its element type. A convolution counts as
// the matrix multiply it amounts to, padding included. The forward pass of fused attention is
// 2·pairs·(d_qk + d_v). If its arguments say that it is causal or windowed, only attended pairs
// count; if it only gets a mask tensor, all pairs do. Every other operator is 0. An operator that
// may do such work but cannot be counted (a factorisation, an unknown attention) is named instead:
// its role is `uncounted`, or cost_of() fails. docs/formulas.md has the equations, docs/decisions/
// the choices behind them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

// The type of a tensor's elements. The first ten have the same names as the peaks of a device. No
// tensor is stored as tf32; it is only a type to compute in.
enum class ElementType : std::uint8_t {
  fp64,
  fp32,
  tf32,
  fp16,
  bf16,
  fp8,
  fp6,
  fp4,
  int8,
  int4,
  int64,
  int32,
  int16,
  uint8,
  boolean,
  complex32,
  complex64,
  complex128,
  unknown
};
inline constexpr std::size_t kElementTypeCount = static_cast<std::size_t>(ElementType::unknown) + 1;

std::string_view name_of(ElementType type);
// Reads a name as torch, its profiler or this library writes it: "c10::BFloat16", "float",
// "torch.float16", "Half", "bf16". Any other name is `unknown`.
ElementType parse_element_type(std::string_view name);
// From the number in torch's c10::ScalarType (6 is float32, 15 is bfloat16).
ElementType element_type_of_torch(std::int64_t scalar_type);
// Stored bytes per element. fp4 and int4 are stored in pairs of one byte, and the sizes of such a
// tensor count pairs. None for `unknown`.
std::optional<std::uint32_t> bytes_of(ElementType type);

// One positional argument of an operator's schema.
struct Argument {
  enum class Kind : std::uint8_t {
    unknown,      // it was given, but nothing about it was recorded
    absent,       // None, or an optional that was not given
    tensor,       // its sizes are in `integers`
    tensor_list,  // a list of tensors; their sizes are not known
    integers,     // a list of integers, or of booleans as 0 and 1
    integer,      // in integers[0]
    number,
    boolean,  // in integers[0]
    text
  };
  Kind kind = Kind::unknown;
  ElementType type = ElementType::unknown;  // of a tensor
  std::span<const std::int64_t> integers = {};
  std::span<const std::int64_t> values = {};  // content of a tensor, if known (sequence offsets)
  double number = 0;
  std::string_view text = {};
};

// Builds arguments and owns what they point to. clear() keeps the memory for the next call.
class ArgumentList {
 public:
  void clear();
  void add_absent();
  void add_unknown();
  void add_tensor(ElementType type, std::span<const std::int64_t> sizes,
                  std::span<const std::int64_t> values = {});
  void add_tensor(ElementType type, std::initializer_list<std::int64_t> sizes);
  void add_tensor_list();
  void add_integers(std::span<const std::int64_t> integers);
  void add_integers(std::initializer_list<std::int64_t> integers);
  void add_integer(std::int64_t value);
  void add_number(double value);
  void add_boolean(bool value);
  void add_text(std::string_view text);  // not copied: the text must outlive the list
  // Adds one argument as Kineto writes it: its "Input type", "Input Dims" and "Concrete Inputs"
  // (the last is empty if the trace has none). The strings need not outlive the call.
  void add_recorded(std::string_view type, std::span<const std::int64_t> sizes,
                    std::string_view concrete);
  // Valid until the list changes.
  std::span<const Argument> view();

 private:
  struct Range {
    std::size_t first = 0, count = 0, values_first = 0, values_count = 0;
  };
  void add(Argument argument, std::span<const std::int64_t> integers,
           std::span<const std::int64_t> values = {});

  std::vector<Argument> arguments_;
  std::vector<Range> ranges_;
  std::vector<std::int64_t> storage_;
};

enum class OperatorKind : std::uint8_t {
  matmul,
  convolution,
  attention,
  recurrent,  // LSTM, GRU and plain RNN layers
  lookup,     // embedding tables: 0 FLOP, bytes only
  fourier,    // not a matrix multiply: estimated, but never part of the counts
  linear_algebra,
  elementwise
};

std::string_view name_of(OperatorKind kind);

// Operators call other operators, and both the dispatcher and a profiler file show the outer and
// the inner ones. Go from the outside in: count the first leaf or cover, and nothing inside it. A
// wrapper is not counted itself; what it calls is.
enum class OperatorRole : std::uint8_t {
  leaf,       // counts; calls no operator of this table
  cover,      // counts; what it calls must not be counted again (_grouped_mm calls mm.out)
  wrapper,    // what it calls counts; its own formula is used only if nothing was seen inside
  free,       // 0 FLOP, only bytes
  uncounted,  // its arguments do not tell its FLOPs, or they are not those of a matrix multiply
};

std::string_view name_of(OperatorRole role);

// What was assumed. If the arguments do not settle the cost, the largest possible one is counted.
enum class Assumption : std::uint8_t {
  none,
  mask_is_tensor,  // attention: all pairs are counted, but the mask may need fewer
  causal_unknown,  // attention: all pairs are counted, because the flag was not recorded
  groups_full,     // grouped matmul: all rows are counted, but the offsets may use fewer
  gradients_all    // convolution backward: both gradients, because the mask was not recorded
};

// The code of a note: "mask_is_tensor". Empty for `none`.
std::string_view name_of(Assumption assumption);

struct OperatorCost {
  FlopCount model_flop;  // needed; without the scores that fused attention computes a second time
  FlopCount hardware_flop;  // executed
  // Not part of the two above: the usual 5·N·log2 N of a Fourier transform.
  FlopCount estimated_flop;
  // Each operand is read once and each result written once. None if an element type is unknown.
  std::optional<std::uint64_t> read_bytes, written_bytes;
  ElementType compute_type = ElementType::unknown;  // what the multiplies run in
  Assumption assumption = Assumption::none;
};

struct OperatorFormula;  // in src/ops/

struct Operator {
  std::string_view name;  // "aten::mm"; overloads share an entry unless their arguments differ
  OperatorKind kind = OperatorKind::matmul;
  OperatorRole role = OperatorRole::leaf;
  const OperatorFormula* formula = nullptr;  // if null, cost_of() fails and says why
  std::string_view note = {};                // what to know about it, or why it is uncounted
};

// Every operator of the table, sorted by name.
std::span<const Operator> all_operators();

// Finds an operator by its qualified name, with or without overload: "aten::mm", "aten::addmm.out",
// "aten::baddbmm_", "FlashAttnFunc". Null if the table does not have it.
const Operator* find_operator(std::string_view name);

// The cost of one call. Fails with `unsupported` if the arguments do not tell enough (strides that
// were not recorded, packed lengths that are inside a tensor), and with `malformed` if they
// contradict each other. `result` is the operator's first result, if the caller has it: some
// weights are opaque (quantized::linear), and only the result tells their size.
Result<OperatorCost> cost_of(const Operator& op, std::span<const Argument> arguments,
                             const Argument& result = {});

// The position of the mask tensor among the given number of arguments of an attention operator. The
// values of that tensor say which pairs are needed. None if the operator takes no mask tensor.
std::optional<std::size_t> mask_argument(const Operator& op, std::size_t arguments);

// The position of the query offsets of a packed attention; those of the keys follow. None if it is
// not packed.
std::optional<std::size_t> offsets_argument(const Operator& op, std::size_t arguments);

// The bytes of weights that a call reads: the right side of a matrix multiply, the kernel of a
// convolution, or those of the grouped matrices that have rows. None if there is no weight or if it
// is packed.
std::optional<std::uint64_t> weight_bytes(const Operator& op, std::span<const Argument> arguments);

// The sizes of an attention forward that has a batch dimension; none for any other call.
struct AttendedSizes {
  std::uint64_t batch = 0, queries = 0, keys = 0, query_heads = 0, key_heads = 0;
  std::uint64_t key_width = 0, value_width = 0, element_bytes = 0;
};
std::optional<AttendedSizes> attended_sizes(const Operator& op,
                                            std::span<const Argument> arguments);

// A formula that a user wrote. `flop` is an expression ("2*m*n*k"), and `where` says how its names
// come from the arguments of a call (m: "a0.shape[0]"). The name of a Triton kernel is
// "triton::NAME".
struct UserFormula {
  std::string name, flop;
  std::vector<std::pair<std::string, std::string>> where;
  std::string type;  // "bf16"; empty means the type of the first tensor
  // Used instead of `flop`. It is called for each call, with its arguments and its first result.
  using Function = Result<std::uint64_t> (*)(const UserFormula& formula,
                                             std::span<const Argument> arguments,
                                             const Argument& result);
  Function function = nullptr;
};

// From now on the operator of that name has this cost, and what it calls is not counted again.
// Fails with `invalid_argument`, saying what is wrong and where in the expression.
Result<void> add_formula(const UserFormula& formula);
std::uint64_t formulas_added();  // so far; if it has grown, ask find_operator() again

// Reads and adds all formulas of a YAML file: formulas: [{name, kind: operator|triton, flop, where,
// dtype}].
Result<std::vector<UserFormula>> read_formulas(const std::string& path);

// Whether a name that is not in the table sounds like a matrix multiply, convolution, attention,
// recurrence or transform. Such an operator is listed as uncounted.
bool looks_flop_carrying(std::string_view name);

}  // namespace mfu
