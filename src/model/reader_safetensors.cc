// Reads safetensors: 8 bytes with a length, a JSON header of that length, then data, which is never
// read.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/json.h"
#include "base/text.h"
#include "model/tensors.h"

namespace mfu {
namespace {

constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit

std::optional<std::uint64_t> bits_of(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::uint64_t> kTypes[] = {
      {"F64", 64},    {"I64", 64}, {"U64", 64},    {"F32", 32},    {"I32", 32},
      {"U32", 32},    {"F16", 16}, {"BF16", 16},   {"I16", 16},    {"U16", 16},
      {"I8", 8},      {"U8", 8},   {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [name, bits] : kTypes) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

Result<TensorInfo> tensor_of(const std::string& name, const Json& entry, std::string_view file) {
  auto bad = [&](std::string_view what) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: tensor {}: {}", file, printable(name), what));
  };
  TensorInfo tensor;
  tensor.name = name;
  const Json* dtype = entry.find("dtype");
  const Json* shape = entry.find("shape");
  const Json* offsets = entry.find("data_offsets");
  if (dtype == nullptr || dtype->string() == nullptr) return bad("no dtype");
  std::optional<std::uint64_t> bits = bits_of(*dtype->string());
  if (!bits) return bad("unknown dtype " + printable(*dtype->string()));
  if (shape == nullptr || !shape->is(Json::Kind::array) || shape->elements().size() > 16) {
    return bad("no shape");
  }
  for (const Json& side : shape->elements()) {
    if (!side.count()) return bad("a side of its shape is not a whole number");
    tensor.shape.push_back(*side.count());
  }
  std::optional<std::uint64_t> elements = checked_product(tensor.shape);
  if (!elements || *elements > 1ull << 56) return bad("its shape is too large");
  tensor.elements = *elements;
  tensor.bytes = (*elements * *bits + 7) / 8;
  bool pair = offsets != nullptr && offsets->elements().size() == 2;
  std::optional<std::uint64_t> from = pair ? offsets->elements()[0].count() : std::nullopt;
  std::optional<std::uint64_t> to = pair ? offsets->elements()[1].count() : std::nullopt;
  if (!from || !to || *to < *from) return bad("no data_offsets");
  if (*to - *from != tensor.bytes) return bad("its data_offsets do not fit its shape and dtype");
  tensor.from = *from;
  return tensor;
}

// In this format every byte belongs to one tensor.
Result<void> check_apart(const TensorFile& file) {
  std::vector<const TensorInfo*> sorted;
  for (const TensorInfo& tensor : file.tensors) {
    if (tensor.bytes != 0) sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->from < b->from; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->from >= sorted[i - 1]->from + sorted[i - 1]->bytes) continue;
    return fail(ErrorCode::malformed,
                fmt::format("{}: tensors {} and {} share bytes of the file: it is damaged",
                            file.file, printable(sorted[i - 1]->name), printable(sorted[i]->name)));
  }
  return {};
}

}  // namespace

Result<TensorFile> parse_safetensors_header(std::string_view json, std::string_view file) {
  Json document = MFU_TRY(parse_json(json, file));
  if (!document.is(Json::Kind::object)) {
    return fail(ErrorCode::malformed, fmt::format("{}: its header is not an object", file));
  }
  TensorFile tensors;
  tensors.file = file;
  for (const auto& [name, entry] : document.members()) {
    if (name == "__metadata__") continue;
    tensors.tensors.push_back(MFU_TRY(tensor_of(name, entry, file)));
  }
  MFU_TRY(check_apart(tensors));
  return tensors;
}

Result<ModelSpec> read_safetensors(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::not_found, fmt::format("{}: cannot be opened", path));
  std::array<unsigned char, 8> prefix{};
  stream.read(reinterpret_cast<char*>(prefix.data()), 8);
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | prefix[i];
  if (!stream || length < 2 || length > kMostHeader) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: not safetensors: a header of {} bytes", path, length));
  }
  // Reads piece by piece, so that a length that the file does not have costs nothing.
  std::string header;
  std::array<char, 65536> block{};
  while (header.size() < length && stream) {
    std::uint64_t want = std::min<std::uint64_t>(block.size(), length - header.size());
    stream.read(block.data(), static_cast<std::streamsize>(want));
    header.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (header.size() < length) {
    return fail(ErrorCode::malformed, fmt::format("{}: cut off: header of {} bytes, {} there", path,
                                                  length, header.size()));
  }
  TensorFile tensors = MFU_TRY(parse_safetensors_header(header, path));
  return model_of_tensors(tensors);
}

}  // namespace mfu
