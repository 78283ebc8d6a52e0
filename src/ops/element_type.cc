#include <algorithm>
#include <array>

#include "mfu/ops.h"

namespace mfu {
namespace {

struct Described {
  std::string_view name;
  std::uint32_t bytes;  // 0: unknown
};

constexpr std::array<Described, kElementTypeCount> kTypes{{{"fp64", 8},
                                                           {"fp32", 4},
                                                           {"tf32", 4},
                                                           {"fp16", 2},
                                                           {"bf16", 2},
                                                           {"fp8", 1},
                                                           {"fp6", 1},
                                                           {"fp4", 1},
                                                           {"int8", 1},
                                                           {"int4", 1},
                                                           {"int64", 8},
                                                           {"int32", 4},
                                                           {"int16", 2},
                                                           {"uint8", 1},
                                                           {"bool", 1},
                                                           {"complex32", 4},
                                                           {"complex64", 8},
                                                           {"complex128", 16},
                                                           {"unknown", 0}}};

struct Spelling {
  std::string_view text;
  ElementType type;
};

// Profiler files use C++ type names, schemas and dumps use c10::toString, Python uses torch.dtype.
constexpr Spelling kSpellings[] = {
    {"double", ElementType::fp64},
    {"Double", ElementType::fp64},
    {"float64", ElementType::fp64},
    {"float", ElementType::fp32},
    {"Float", ElementType::fp32},
    {"float32", ElementType::fp32},
    {"Half", ElementType::fp16},
    {"float16", ElementType::fp16},
    {"half", ElementType::fp16},
    {"BFloat16", ElementType::bf16},
    {"bfloat16", ElementType::bf16},
    {"Float4_e2m1fn_x2", ElementType::fp4},
    {"float4_e2m1fn_x2", ElementType::fp4},
    {"signed char", ElementType::int8},
    {"char", ElementType::int8},
    {"Char", ElementType::int8},
    {"qint8", ElementType::int8},
    {"QInt8", ElementType::int8},
    {"quint4x2", ElementType::int4},
    {"QUInt4x2", ElementType::int4},
    {"long", ElementType::int64},
    {"long int", ElementType::int64},
    {"long long", ElementType::int64},
    {"unsigned long", ElementType::int64},
    {"uint64", ElementType::int64},
    {"Long", ElementType::int64},
    {"int", ElementType::int32},
    {"unsigned int", ElementType::int32},
    {"uint32", ElementType::int32},
    {"Int", ElementType::int32},
    {"qint32", ElementType::int32},
    {"QInt32", ElementType::int32},
    {"short", ElementType::int16},
    {"short int", ElementType::int16},
    {"unsigned short", ElementType::int16},
    {"uint16", ElementType::int16},
    {"Short", ElementType::int16},
    {"unsigned char", ElementType::uint8},
    {"Byte", ElementType::uint8},
    {"quint8", ElementType::uint8},
    {"QUInt8", ElementType::uint8},
    {"bool", ElementType::boolean},
    {"Bool", ElementType::boolean},
    {"complex<c10::Half>", ElementType::complex32},
    {"ComplexHalf", ElementType::complex32},
    {"complex<float>", ElementType::complex64},
    {"ComplexFloat", ElementType::complex64},
    {"complex<double>", ElementType::complex128},
    {"ComplexDouble", ElementType::complex128},
};

// In the order of c10::ScalarType. Types without arithmetic (bits, odd integer widths) are unknown.
constexpr ElementType kScalarTypes[] = {
    ElementType::uint8,     ElementType::int8,      ElementType::int16,      ElementType::int32,
    ElementType::int64,     ElementType::fp16,      ElementType::fp32,       ElementType::fp64,
    ElementType::complex32, ElementType::complex64, ElementType::complex128, ElementType::boolean,
    ElementType::int8,      ElementType::uint8,     ElementType::int32,      ElementType::bf16,
    ElementType::int4,      ElementType::unknown,   ElementType::unknown,    ElementType::unknown,
    ElementType::unknown,   ElementType::unknown,   ElementType::unknown,    ElementType::fp8,
    ElementType::fp8,       ElementType::fp8,       ElementType::fp8,        ElementType::int16,
    ElementType::int32,     ElementType::int64};
constexpr std::int64_t kFloat8E8m0 = 44;
constexpr std::int64_t kFloat4E2m1Pair = 45;

}  // namespace

std::string_view name_of(ElementType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<std::uint32_t> bytes_of(ElementType type) {
  std::uint32_t bytes = kTypes[static_cast<std::size_t>(type)].bytes;
  if (bytes == 0) return std::nullopt;
  return bytes;
}

ElementType parse_element_type(std::string_view name) {
  for (std::string_view prefix : {"c10::", "torch.", "at::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name.starts_with("Float8") || name.starts_with("float8")) return ElementType::fp8;
  const auto* spelling =
      std::find_if(std::begin(kSpellings), std::end(kSpellings),
                   [&](const Spelling& candidate) { return candidate.text == name; });
  if (spelling != std::end(kSpellings)) return spelling->type;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<ElementType>(i);
  }
  return ElementType::unknown;
}

ElementType element_type_of_torch(std::int64_t scalar_type) {
  if (scalar_type == kFloat8E8m0) return ElementType::fp8;
  if (scalar_type == kFloat4E2m1Pair) return ElementType::fp4;
  bool listed = scalar_type >= 0 && static_cast<std::size_t>(scalar_type) < std::size(kScalarTypes);
  return listed ? kScalarTypes[scalar_type] : ElementType::unknown;
}

}  // namespace mfu
