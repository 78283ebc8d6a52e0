// Reads GGUF (ggml docs/gguf.md), versions 2 and 3: metadata and tensor shapes, but never tensor
// data.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>

#include "base/text.h"
#include "model/tensors.h"

namespace mfu {
namespace {

constexpr std::uint64_t kMostEntries = 1'000'000;
constexpr std::uint64_t kMostGgufHeader = 256u << 20;

struct GgmlType {
  std::uint32_t id;
  std::uint64_t block, bytes;  // elements of a block, and its size in bytes
};
constexpr GgmlType kTypes[] = {
    {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
    {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
    {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
    {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
    {35, 256, 66},  {39, 32, 17}};

// The bytes of metadata values by type. 0 stands for a string (8) or an array (9).
constexpr std::uint64_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

class Cursor {
 public:
  Cursor(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  Result<void> skip(std::uint64_t count) {
    if (count > bytes_.size() - at_) return cut_off();
    at_ += count;
    return {};
  }
  template <typename T>
  Result<T> number() {
    if (sizeof(T) > bytes_.size() - at_) return cut_off();
    T value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  Result<std::string> text() {
    std::uint64_t length = MFU_TRY(number<std::uint64_t>());
    if (length > bytes_.size() - at_) return cut_off();
    std::string text(bytes_.substr(at_, length));
    at_ += length;
    return text;
  }
  Failure wrong(std::string_view what) const {
    return fail(ErrorCode::malformed, fmt::format("{}: byte {}: {}", file_, at_, what));
  }

 private:
  // With `io` the reader tries again with a longer piece of the file.
  Failure cut_off() const {
    return fail(ErrorCode::io, fmt::format("{}: byte {}: cut off inside the header", file_, at_));
  }
  std::string_view bytes_, file_;
  std::uint64_t at_ = 0;
};

Result<void> skip_array(Cursor& cursor) {
  std::uint32_t type = MFU_TRY(cursor.number<std::uint32_t>());
  std::uint64_t count = MFU_TRY(cursor.number<std::uint64_t>());
  if (type >= std::size(kValueBytes) || type == 9) return cursor.wrong("unknown array type");
  if (type != 8) {
    if (count > kMostGgufHeader) return cursor.wrong("an array is too long");
    return cursor.skip(count * kValueBytes[type]);
  }
  // Each string takes at least 8 bytes, so the end of the header limits this loop.
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t length = MFU_TRY(cursor.number<std::uint64_t>());
    MFU_TRY(cursor.skip(length));
  }
  return {};
}

struct Metadata {
  std::map<std::string, std::uint64_t> numbers;
  std::string architecture;
};

Result<void> read_value(Cursor& cursor, const std::string& key, Metadata& metadata) {
  std::uint32_t type = MFU_TRY(cursor.number<std::uint32_t>());
  if (type >= std::size(kValueBytes)) return cursor.wrong("unknown metadata type");
  if (type == 9) return skip_array(cursor);
  if (type == 8) {
    std::string text = MFU_TRY(cursor.text());
    if (key == "general.architecture") metadata.architecture = printable(text);
    return {};
  }
  if (type == 4 || type == 5) {
    metadata.numbers[key] = MFU_TRY(cursor.number<std::uint32_t>());
    return {};
  }
  if (type == 10) {
    metadata.numbers[key] = MFU_TRY(cursor.number<std::uint64_t>());
    return {};
  }
  return cursor.skip(kValueBytes[type]);
}

Result<TensorInfo> read_tensor(Cursor& cursor) {
  TensorInfo tensor;
  tensor.name = MFU_TRY(cursor.text());
  std::uint32_t sides = MFU_TRY(cursor.number<std::uint32_t>());
  if (sides == 0 || sides > 8) return cursor.wrong("a tensor of no or more than 8 sides");
  for (std::uint32_t i = 0; i < sides; ++i) {
    tensor.shape.push_back(MFU_TRY(cursor.number<std::uint64_t>()));
  }
  std::reverse(tensor.shape.begin(), tensor.shape.end());  // ggml puts the fastest dimension first
  std::uint32_t type = MFU_TRY(cursor.number<std::uint32_t>());
  MFU_TRY(cursor.skip(8));  // the offset
  std::optional<std::uint64_t> elements = checked_product(tensor.shape);
  if (!elements || *elements > 1ull << 56) return cursor.wrong("a tensor is too large");
  tensor.elements = *elements;
  const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [type](const GgmlType& row) { return row.id == type; });
  if (known == std::end(kTypes)) {
    return cursor.wrong(
        fmt::format("tensor {}: unknown ggml type {}", printable(tensor.name), type));
  }
  tensor.bytes = (*elements + known->block - 1) / known->block * known->bytes;
  return tensor;
}

void take_metadata(TensorFile& file, const Metadata& metadata) {
  file.architecture = metadata.architecture;
  auto number = [&](std::string_view key) -> std::optional<std::uint64_t> {
    auto at = metadata.numbers.find(fmt::format("{}.{}", metadata.architecture, key));
    bool usable = at != metadata.numbers.end() && at->second >= 1 && at->second <= 1u << 31;
    return usable ? std::optional(at->second) : std::nullopt;
  };
  file.heads = number("attention.head_count");
  file.kv_heads = number("attention.head_count_kv");
  file.key_dim = number("attention.key_length");
  file.value_dim = number("attention.value_length");
  file.experts_active = number("expert_used_count");
  auto blocks = metadata.numbers.find(metadata.architecture + ".block_count");
  if (blocks != metadata.numbers.end()) file.layers = blocks->second;
  std::optional<std::uint64_t> width = number("embedding_length");
  if (!file.key_dim && width && file.heads)
    file.key_dim = std::max<std::uint64_t>(1, *width / *file.heads);
}

}  // namespace

Result<TensorFile> parse_gguf_header(std::string_view bytes, std::string_view file) {
  Cursor cursor(bytes, file);
  std::uint32_t magic = MFU_TRY(cursor.number<std::uint32_t>());
  if (magic != 0x46554747) return cursor.wrong("not GGUF");
  std::uint32_t version = MFU_TRY(cursor.number<std::uint32_t>());
  if (version != 2 && version != 3) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: GGUF version {}: 2 and 3 are known", file, version));
  }
  std::uint64_t tensors = MFU_TRY(cursor.number<std::uint64_t>());
  std::uint64_t entries = MFU_TRY(cursor.number<std::uint64_t>());
  if (tensors > kMostEntries || entries > kMostEntries) {
    return cursor.wrong("more than a million tensors or metadata entries");
  }
  Metadata metadata;
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::string key = MFU_TRY(cursor.text());
    MFU_TRY(read_value(cursor, key, metadata));
  }
  TensorFile result;
  result.file = file;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    result.tensors.push_back(MFU_TRY(read_tensor(cursor)));
  }
  take_metadata(result, metadata);
  return result;
}

Result<ModelSpec> read_gguf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::not_found, fmt::format("{}: cannot be opened", path));
  std::string bytes;
  // Headers have a few megabytes, nearly all of it vocabulary. We read more only if that was not
  // enough.
  for (std::uint64_t want = 4u << 20; want <= kMostGgufHeader; want *= 4) {
    std::size_t before = bytes.size();
    bytes.resize(want);
    stream.read(bytes.data() + before, static_cast<std::streamsize>(want - before));
    bytes.resize(before + static_cast<std::size_t>(stream.gcount()));
    auto header = parse_gguf_header(bytes, path);
    if (header) return model_of_tensors(*header);
    bool whole = bytes.size() < want;
    if (header.error().code != ErrorCode::io || whole) {
      return fail(ErrorCode::malformed, header.error().message);
    }
  }
  return fail(ErrorCode::malformed, fmt::format("{}: a header of more than 256 MB", path));
}

}  // namespace mfu
