#include "trace/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trace/decoder.h"

namespace mfu {
namespace {

// A few megabytes of gzip can unpack to gigabytes of blanks or of one event. Traces that profilers
// wrote shrink to between a fifth and a fortieth.
constexpr std::uint64_t kMostRatio = 100, kFreeBytes = 64u << 20;

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(char* to, std::size_t most) override {
    std::size_t size = std::min(most, bytes_.size() - at_);
    if (size > 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
    return size;
  }
  std::optional<std::string> problem() const override { return std::nullopt; }
  std::uint64_t file_bytes() const override { return at_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

class FileSource : public ByteSource {
 public:
  FileSource(int file, const std::atomic<bool>* cancel) : file_(file), cancel_(cancel) {}
  ~FileSource() override {
    if (file_ > STDIN_FILENO) ::close(file_);
  }
  std::size_t read(char* to, std::size_t most) override {
    while (true) {
      if (cancel_ != nullptr && cancel_->load()) return 0;
      ssize_t size = ::read(file_, to, most);
      if (size >= 0) {
        taken_ += static_cast<std::uint64_t>(size);
        return static_cast<std::size_t>(size);
      }
      if (errno != EINTR) break;
    }
    problem_ = fmt::format("reading failed: {}", std::strerror(errno));
    return 0;
  }
  std::optional<std::string> problem() const override { return problem_; }
  std::uint64_t file_bytes() const override { return taken_; }

 private:
  int file_;
  const std::atomic<bool>* cancel_;
  std::uint64_t taken_ = 0;
  std::optional<std::string> problem_;
};

// Looks at the first bytes of a source, and inserts a decoder if they are those of an archive.
class SniffedSource : public ByteSource {
 public:
  explicit SniffedSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {
    while (filled_ < 4 && fill()) {
    }
    decoder_ = decoder_for({buffer_.get(), filled_});
  }

  std::size_t read(char* to, std::size_t most) override {
    if (!decoder_) return read_plain(to, most);
    while (!decoder_->problem()) {
      if (at_ == filled_) fill();
      std::string_view in(buffer_.get() + at_, filled_ - at_);
      StreamDecoder::Step step = decoder_->decode(in, to, most);
      at_ += step.taken;
      given_ += step.given;
      if (is_bomb()) {
        ended_ = fmt::format(
            "it unpacks to more than {} times its size, which no profiler's trace does; unpack it "
            "yourself if it is one",
            kMostRatio);
        return 0;
      }
      if (step.given > 0) return step.given;
      if (in.empty() && step.taken == 0 && !step.at_end) {
        if (!decoder_->complete()) ended_ = "the archive ends too early";
        return 0;
      }
      if (!in.empty() && step.taken == 0 && !step.at_end && !decoder_->problem()) {
        ended_ = "the archive is damaged";
        return 0;
      }
    }
    return 0;
  }
  std::optional<std::string> problem() const override {
    if (inner_->problem()) return inner_->problem();
    if (decoder_ && decoder_->problem()) return decoder_->problem();
    return ended_;
  }
  std::uint64_t file_bytes() const override { return inner_->file_bytes(); }
  bool refused() const override { return is_bomb(); }

 private:
  bool is_bomb() const { return given_ > kFreeBytes && given_ / kMostRatio > inner_->file_bytes(); }
  bool fill() {
    if (at_ == filled_) at_ = filled_ = 0;
    std::size_t size = inner_->read(buffer_.get() + filled_, kWindowBytes - filled_);
    filled_ += size;
    return size > 0;
  }
  std::size_t read_plain(char* to, std::size_t most) {
    if (at_ == filled_) return inner_->read(to, most);
    std::size_t size = std::min(most, filled_ - at_);
    std::memcpy(to, buffer_.get() + at_, size);
    at_ += size;
    return size;
  }

  std::unique_ptr<ByteSource> inner_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kWindowBytes);
  std::size_t at_ = 0, filled_ = 0;
  std::uint64_t given_ = 0;  // bytes unpacked so far
  std::optional<std::string> ended_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const std::atomic<bool>* cancel) {
  int file = STDIN_FILENO;
  if (path != "-") {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                  fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
    }
    struct stat status{};
    if (::fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(file);
      return fail(ErrorCode::invalid_argument, fmt::format("{}: is a directory", path));
    }
    ::posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  auto plain = std::make_unique<FileSource>(file, cancel);
  return std::unique_ptr<ByteSource>(std::make_unique<SniffedSource>(std::move(plain)));
}

std::unique_ptr<ByteSource> memory_source(std::string_view bytes) {
  return std::make_unique<SniffedSource>(std::make_unique<MemorySource>(bytes));
}

}  // namespace mfu
