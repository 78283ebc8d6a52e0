#include "trace/decoder.h"

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>

namespace mfu {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
constexpr std::size_t kMostBytes = 1u << 30;  // the libraries count with 32 bits

// ISA-L is about twice as fast as zlib. Members may follow one another, as `cat a.gz b.gz` and pigz
// make them.
class GzipDecoder : public StreamDecoder {
 public:
  GzipDecoder() : state_(std::make_unique<inflate_state>()) { start_member(); }

  Step decode(std::string_view in, char* to, std::size_t most) override {
    Step step;
    if (complete_) {
      if (in.empty()) return step;
      if (!kGzipMagic.starts_with(in.substr(0, 1))) {
        problem_ = "bytes that are no gzip follow the gzip data";
        return step;
      }
      start_member();
    }
    auto given = static_cast<std::uint32_t>(std::min(in.size(), kMostBytes));
    auto room = static_cast<std::uint32_t>(std::min(most, kMostBytes));
    state_->next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(in.data()));
    state_->avail_in = given;
    state_->next_out = reinterpret_cast<std::uint8_t*>(to);
    state_->avail_out = room;
    int status = isal_inflate(state_.get());
    step.taken = given - state_->avail_in;
    step.given = room - state_->avail_out;
    begun_ = begun_ || given > 0;
    if (status < 0) {
      problem_ = status == ISAL_INCORRECT_CHECKSUM ? "the gzip checksum does not match"
                                                   : "the gzip data are damaged";
      return step;
    }
    complete_ = state_->block_state == ISAL_BLOCK_FINISH;
    step.at_end = complete_;
    return step;
  }
  std::optional<std::string> problem() const override { return problem_; }
  bool complete() const override { return complete_; }

 private:
  void start_member() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    complete_ = false;
  }
  std::unique_ptr<inflate_state> state_;
  std::optional<std::string> problem_;
  bool complete_ = false, begun_ = false;
};

class ZstdDecoder : public StreamDecoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    // A frame may ask for a window of gigabytes. The limit is that of the zstd command line, 2^27.
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 27);
  }
  Step decode(std::string_view in, char* to, std::size_t most) override {
    if (in.empty() && complete_) return {};
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer out{to, most, 0};
    std::size_t status = ZSTD_decompressStream(stream_.get(), &out, &from);
    if (ZSTD_isError(status) != 0) {
      problem_ = std::string("the zstd data are damaged: ") + ZSTD_getErrorName(status);
    } else {
      complete_ = status == 0;
    }
    return {.taken = from.pos, .given = out.pos, .at_end = complete_};
  }
  std::optional<std::string> problem() const override { return problem_; }
  bool complete() const override { return complete_; }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
  std::optional<std::string> problem_;
  bool complete_ = false;
};

}  // namespace

std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes) {
  if (first_bytes.starts_with(kGzipMagic)) return std::make_unique<GzipDecoder>();
  if (first_bytes.starts_with(kZstdMagic)) return std::make_unique<ZstdDecoder>();
  return nullptr;
}

}  // namespace mfu
