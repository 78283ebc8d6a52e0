// Makes archives for tests, with the libraries that read them.
#pragma once

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <cstring>
#include <string>
#include <vector>

namespace mfu {

inline std::string gzipped(std::string text) {
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  std::vector<std::uint8_t> level(ISAL_DEF_LVL1_DEFAULT);
  stream.level = 1;
  stream.level_buf = level.data();
  stream.level_buf_size = static_cast<std::uint32_t>(level.size());
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  std::string out(text.size() * 2 + 1024, '\0');
  stream.next_in = reinterpret_cast<std::uint8_t*>(text.data());
  stream.avail_in = static_cast<std::uint32_t>(text.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  isal_deflate_stateless(&stream);
  out.resize(stream.total_out);
  return out;
}

inline std::string zstd_compressed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

}  // namespace mfu
