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

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISREG(mode) ? "a file" : "a device";
}

Failure too_large(const std::string& path, std::uint64_t most) {
  return fail(ErrorCode::unsupported,
              fmt::format("{} is larger than the {} bytes that such a file may have", path, most));
}

enum class Take { anything, regular };

Result<void> read_blocks(const std::string& path, std::uint64_t most, Take take,
                         const std::function<void(std::string_view)>& give) {
  // Without O_NONBLOCK, opening a pipe waits for somebody to write to it.
  int flags = O_RDONLY | O_CLOEXEC | (take == Take::regular ? O_NONBLOCK : 0);
  Descriptor file(::open(path.c_str(), flags));
  if (file.number() < 0) {
    ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
    return fail(code, fmt::format("cannot open {}: {}", path, reason()));
  }
  struct stat status = {};
  bool known = ::fstat(file.number(), &status) == 0;
  if (known && S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::io, fmt::format("{} is a folder, not a file", path));
  }
  bool regular = known && S_ISREG(status.st_mode);
  if (take == Take::regular && !regular) {
    return fail(ErrorCode::malformed, fmt::format("{} is {}, no regular file: it is not read", path,
                                                  kind_of(status.st_mode)));
  }
  // Checked before anything is read, if the file has a size.
  if (regular && static_cast<std::uint64_t>(status.st_size) > most) return too_large(path, most);
  std::uint64_t bytes = 0;
  char block[65536];
  while (true) {
    ssize_t count = ::read(file.number(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(ErrorCode::io, fmt::format("cannot read {}: {}", path, reason()));
    if (count == 0) return {};
    bytes += static_cast<std::uint64_t>(count);
    if (bytes > most) return too_large(path, most);
    give({block, static_cast<std::size_t>(count)});
  }
}

Result<std::string> read_whole(const std::string& path, std::uint64_t most, Take take) {
  std::string bytes;
  MFU_TRY(read_blocks(path, most, take, [&](std::string_view block) { bytes += block; }));
  return bytes;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::uint64_t most) {
  return read_whole(path, most, Take::regular);
}

Result<void> read_file_blocks(const std::string& path, std::uint64_t most,
                              const std::function<void(std::string_view)>& give) {
  return read_blocks(path, most, Take::regular, give);
}

Result<std::string> read_named_file(const std::string& path, std::uint64_t most) {
  return read_whole(path, most, Take::anything);
}

Result<void> make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail(ErrorCode::io, fmt::format("cannot make the folder {}: {}", path, reason()));
  }
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::io, fmt::format("cannot look at {}: {}", path, reason()));
  }
  std::string why;
  if (!S_ISDIR(status.st_mode)) {
    why = fmt::format("is {}, not a folder", kind_of(status.st_mode));
  } else if (status.st_uid != ::geteuid()) {
    why = fmt::format("belongs to user {}, not to you (user {})", status.st_uid, ::geteuid());
  } else if ((status.st_mode & 022) != 0) {
    why = fmt::format("can be written by others (mode {:04o})", status.st_mode & 07777);
  } else {
    return {};
  }
  return fail(ErrorCode::io, fmt::format("{} is not used: it {}. Remove it if it is not "
                                         "somebody else's",
                                         path, why));
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

Result<std::string> set_aside(const std::string& path) {
  for (int number = 1; number < 1000; ++number) {
    std::string aside = path + ".other" + (number == 1 ? "" : fmt::format("-{}", number));
    // A link first, because a rename would replace a file that already has that name.
    if (::link(path.c_str(), aside.c_str()) != 0) {
      if (errno == EEXIST) continue;
      struct stat status = {};
      if (::lstat(aside.c_str(), &status) == 0) continue;
      // A file system without links.
      if (::rename(path.c_str(), aside.c_str()) == 0) return aside;
    } else if (::unlink(path.c_str()) == 0) {
      return aside;
    }
    break;
  }
  return fail(ErrorCode::io, fmt::format("cannot rename {}: {}", path, reason()));
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
