// What one operator costs, from its name and arguments: FLOP needed and executed, bytes read and
// written. Shared by the observer inside PyTorch and the reader of profiler files; knows neither.
//
//   mfu::ArgumentList arguments;
//   arguments.add_tensor(mfu::ElementType::bf16, {{128, 256}});
//   arguments.add_tensor(mfu::ElementType::bf16, {{256, 512}});
//   const mfu::Operator* mm = mfu::find_operator("aten::mm");
//   auto cost = mfu::cost_of(*mm, arguments.view());  // 2·128·256·512 FLOP in bf16
//
// What is counted: a matrix multiply is 2mnk, whatever its element type; a convolution the same as
// the matrix multiply it is (padding counted as if it were there); fused attention 2·pairs·(d_qk +
// d_v) forward, where pairs are the attended ones if the operator is told that it is causal or
// windowed and the full rectangle if it only gets a mask tensor. Everything else is 0, and what
// looks as if it were not (a factorisation, an unknown attention) is named instead of counted:
// role uncounted, or an Error. docs/formulas.md has the equations, docs/decisions/ the choices.
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

// What a tensor's elements are. The first ten carry the names of a device's peaks (fp64 fp32 tf32
// fp16 bf16 fp8 fp6 fp4 int8 int4); tf32 is never stored, only computed in.
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
// As torch, its profiler and this library write it: "c10::BFloat16", "float", "torch.float16",
// "Half", "bf16". Anything else is unknown.
ElementType parse_element_type(std::string_view name);
// By torch's c10::ScalarType (6 is float32, 15 bfloat16).
ElementType element_type_of_torch(std::int64_t scalar_type);
// Of one element as it is stored: fp4 and int4 come in pairs, one byte a pair, and a tensor's sizes
// count the pairs. Empty for unknown.
std::optional<std::uint32_t> bytes_of(ElementType type);

// One positional argument of an operator's schema.
struct Argument {
  enum class Kind : std::uint8_t {
    unknown,      // there, but what it is was not recorded
    absent,       // None, or an optional that was not given
    tensor,       // integers: its sizes
    tensor_list,  // nothing more is known of it
    integers,     // a list of integers or of booleans (0 and 1)
    integer,      // integers[0]
    number,
    boolean,  // integers[0]
    text
  };
  Kind kind = Kind::unknown;
  ElementType type = ElementType::unknown;  // of a tensor
  std::span<const std::int64_t> integers = {};
  std::span<const std::int64_t> values =
      {};  // a tensor's content where it is known (sequence offsets)
  double number = 0;
  std::string_view text = {};
};

// Builds arguments and owns what they point to. clear() keeps the memory, so that one list serves a
// whole trace.
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
  void add_text(std::string_view text);  // not copied
  // One argument as Kineto writes it: its "Input type", its "Input Dims" and its "Concrete Inputs"
  // (empty where the trace has none). Strings are not kept.
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
  fourier,    // not a matrix multiply: an estimate, never part of the counts
  linear_algebra,
  elementwise
};

std::string_view name_of(OperatorKind kind);

// Operators call operators, and both the dispatcher and a profiler file show the outer and the
// inner one. Walking from the outside in, a leaf or a cover that is met counts and nothing below it
// does (only below a cover is there anything that could); a wrapper leaves it to what it calls.
enum class OperatorRole : std::uint8_t {
  leaf,       // counts; calls no operator of this table
  cover,      // counts; what it calls must not be counted again (_grouped_mm calls mm.out)
  wrapper,    // what it calls is counted; its own formula, if any, serves where nothing was seen
  free,       // 0 FLOP: bytes only
  uncounted,  // does arithmetic that cannot be told from its arguments, or is no matrix multiply
};

std::string_view name_of(OperatorRole role);

// Where the arguments leave it open, the most it can be is counted, and said.
enum class Assumption : std::uint8_t {
  none,
  mask_is_tensor,  // attention: all pairs are counted, the mask may need fewer
  causal_unknown,  // attention: all pairs are counted, the flag was not recorded
  groups_full,     // grouped matmul: all rows are counted, the offsets may use fewer
  gradients_all    // convolution backward: both gradients are counted, the mask was not recorded
};

// A sentence for a note; empty for none.
std::string_view describe(Assumption assumption);

struct OperatorCost {
  FlopCount model_flop;     // needed: a fused attention backward without its second scores
  FlopCount hardware_flop;  // executed
  // Outside the counts: a Fourier transform by the usual 5·N·log2 N.
  FlopCount estimated_flop;
  // Each operand read once, each result written once; empty where an element type is unknown.
  std::optional<std::uint64_t> read_bytes, written_bytes;
  ElementType compute_type = ElementType::unknown;  // what the multiplies run in
  Assumption assumption = Assumption::none;
};

struct OperatorFormula;  // in src/ops/

struct Operator {
  std::string_view name;  // "aten::mm"; overloads share it unless their arguments differ
  OperatorKind kind = OperatorKind::matmul;
  OperatorRole role = OperatorRole::leaf;
  const OperatorFormula* formula = nullptr;  // null: cost_of fails and says why
  std::string_view note = {};                // what to know; why it is uncounted
};

// Every operator of the table, by name.
std::span<const Operator> all_operators();

// By qualified name, with or without overload: "aten::mm", "aten::addmm.out", "aten::baddbmm_",
// "FlashAttnFunc". Null for a name that is not in the table.
const Operator* find_operator(std::string_view name);

// Fails with `unsupported` where the arguments do not say what is needed (strides that were not
// recorded, packed lengths that are in a tensor), with `malformed` where they contradict each
// other.
// `result` is the operator's first result where the caller has it: some weights are opaque
// (quantized::linear) and only the result tells their size.
Result<OperatorCost> cost_of(const Operator& op, std::span<const Argument> arguments,
                             const Argument& result = {});

// Where an attention takes a mask as a tensor, among so many arguments: its values say what of the
// rectangle is needed. None: it takes none.
std::optional<std::size_t> mask_argument(const Operator& op, std::size_t arguments);

// Where a packed attention takes the offsets of its queries; those of its keys follow. None: it is
// not packed.
std::optional<std::size_t> offsets_argument(const Operator& op, std::size_t arguments);

// What an operator reads of a weight: the right side of a product with a matrix, a convolution's
// kernel, of grouped matrices those that have rows. None: it has none, or it is packed.
std::optional<std::uint64_t> weight_bytes(const Operator& op, std::span<const Argument> arguments);

// An attention's sizes, of a forward with a batch.
struct AttendedSizes {
  std::uint64_t batch = 0, queries = 0, keys = 0, query_heads = 0, key_heads = 0;
  std::uint64_t key_width = 0, value_width = 0, element_bytes = 0;
};
std::optional<AttendedSizes> attended_sizes(const Operator& op,
                                            std::span<const Argument> arguments);

// A formula of the user's: `flop` in names that `where` defines, of the arguments of a call
// ("2*m*n*k", m: "a0.shape[0]"). A Triton kernel's name is "triton::NAME".
struct UserFormula {
  std::string name, flop;
  std::vector<std::pair<std::string, std::string>> where;
  std::string type;  // "bf16"; empty: of the first tensor
  // Instead of `flop`: asked for each call with its arguments and its first result.
  using Function = Result<std::uint64_t> (*)(const UserFormula& formula,
                                             std::span<const Argument> arguments,
                                             const Argument& result);
  Function function = nullptr;
};

// From now on the operator of that name costs that, and covers what it calls. `invalid_argument`
// says what is wrong, and where in the expression.
Result<void> add_formula(const UserFormula& formula);
std::uint64_t formulas_added();  // so far: who keeps what find_operator() said asks again

// Reads and adds all formulas of a YAML file: formulas: [{name, kind: operator|triton, flop, where,
// dtype}].
Result<std::vector<UserFormula>> read_formulas(const std::string& path);

// A name that is not in the table but smells of a matrix multiply, convolution, attention,
// recurrence or transform: to be listed as uncounted.
bool looks_flop_carrying(std::string_view name);

}  // namespace mfu
