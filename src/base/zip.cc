#include "base/zip.h"

#include <zstd.h>

namespace mfu {

namespace {

// A higher level packs twice as long and gains less than one percent.
constexpr int kLevel = 12;

}  // namespace

std::string zipped(std::string_view bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  MFU_ASSERT(ZSTD_isError(size) == 0);  // it fails only if there is no memory
  packed.resize(size);
  return packed;
}

Result<std::string> unzipped(std::string_view bytes, std::uint64_t size) {
  // One byte more than expected shows whether the content is longer.
  std::string whole(size + 1, '\0');
  std::size_t got = ZSTD_decompress(whole.data(), whole.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != size) {
    return fail(ErrorCode::malformed, "the packed data do not unpack");
  }
  whole.resize(size);
  return whole;
}

}  // namespace mfu
