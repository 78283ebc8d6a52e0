#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace mfu {

namespace {

std::string reason() {
  return std::error_code(errno, std::generic_category()).message();
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

Result<void> write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return fail(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason()));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::uint64_t most) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) {
    ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
    return fail(code, fmt::format("cannot open {}: {}", path, reason()));
  }
  struct stat status = {};
  if (::fstat(file.number(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::io, fmt::format("{} is a folder, not a file", path));
  }
  std::string bytes;
  char block[65536];
  while (true) {
    ssize_t count = ::read(file.number(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(ErrorCode::io, fmt::format("cannot read {}: {}", path, reason()));
    if (count == 0) return bytes;
    bytes.append(block, static_cast<std::size_t>(count));
    if (bytes.size() > most) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("{} is larger than the {} bytes that are read of such a file", path, most));
    }
  }
}

Result<void> make_folder_of(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::io,
                fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  }
  return {};
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  MFU_TRY(make_folder_of(path));
  std::string beside = fmt::format("{}.{}.tmp", path, ::getpid());
  Result<void> written;
  {
    Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.number() < 0) {
      return fail(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason()));
    }
    written = write_all(file.number(), bytes, path);
  }
  if (written.has_value() && ::rename(beside.c_str(), path.c_str()) != 0) {
    written = fail(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason()));
  }
  if (!written.has_value()) ::unlink(beside.c_str());
  return written;
}

}  // namespace mfu
