#include "base/append.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/fork.h"

namespace mfu {

namespace {

std::string reason(int number) {
  return std::error_code(number, std::generic_category()).message();
}

// Where the last whole line ends. Only the last 16 MiB are searched, because we write no longer
// line.
off_t end_of_last_line(int file, off_t size) {
  constexpr off_t kBlock = 65536;
  char block[kBlock];
  for (off_t end = size; end > 0 && size - end < (16 << 20);) {
    off_t from = end > kBlock ? end - kBlock : 0;
    ssize_t count = ::pread(file, block, static_cast<std::size_t>(end - from), from);
    if (count != end - from) return size;
    for (ssize_t at = count; at > 0; --at) {
      if (block[at - 1] == '\n') return from + at;
    }
    end = from;
  }
  return size < (16 << 20) ? 0 : size;
}

std::string read_at(int file, off_t from, off_t until) {
  std::string bytes(static_cast<std::size_t>(until - from), '\0');
  ssize_t count = ::pread(file, bytes.data(), bytes.size(), from);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return bytes;
}

}  // namespace

AppendFile::AppendFile(AppendFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      was_empty_(other.was_empty_),
      path_(std::move(other.path_)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  close();
  file_ = std::exchange(other.file_, -1);
  was_empty_ = other.was_empty_;
  path_ = std::move(other.path_);
  return *this;
}

void AppendFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

Result<AppendFile> AppendFile::open(const std::string& path, bool lines) {
  MFU_TRY(make_folder_of(path));
  AppendFile opened;
  opened.path_ = path;
  opened.file_ =
      beyond_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (opened.file_ < 0) {
    return fail(ErrorCode::io, fmt::format("cannot write {}: {}", path, reason(errno)));
  }
  struct stat status = {};
  if (::fstat(opened.file_, &status) != 0 || !S_ISREG(status.st_mode)) return opened;
  off_t size = status.st_size;
  if (lines && size > 0) {
    off_t whole = end_of_last_line(opened.file_, size);
    if (whole != size && ::ftruncate(opened.file_, whole) == 0) size = whole;
  }
  opened.was_empty_ = size == 0;
  return opened;
}

Result<void> AppendFile::append(std::string_view bytes) {
  struct stat before = {};
  bool regular = ::fstat(file_, &before) == 0 && S_ISREG(before.st_mode);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      int number = errno;
      bool taken_back =
          rest.size() == bytes.size() || (regular && ::ftruncate(file_, before.st_size) == 0);
      return fail(ErrorCode::io,
                  fmt::format("cannot write {}: {}{}", path_, reason(number),
                              taken_back ? "" : ", and half a record is left in it"));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

bool AppendFile::moved() const {
  struct stat mine = {}, named = {};
  if (file_ < 0 || ::fstat(file_, &mine) != 0 || !S_ISREG(mine.st_mode)) return false;
  if (::stat(path_.c_str(), &named) != 0) return errno == ENOENT || errno == ENOTDIR;
  return mine.st_dev != named.st_dev || mine.st_ino != named.st_ino;
}

Result<std::uint64_t> AppendFile::renew(std::uint64_t restored_most) {
  AppendFile made = MFU_TRY(open(path_, false));
  struct stat before = {};
  bool deleted = file_ >= 0 && ::fstat(file_, &before) == 0 && before.st_nlink == 0;
  auto left = deleted ? static_cast<std::uint64_t>(before.st_size) : 0;
  if (left <= restored_most) {
    constexpr off_t kBlock = 1 << 20;
    for (off_t at = 0; at < static_cast<off_t>(left); at += kBlock) {
      off_t end = std::min(at + kBlock, static_cast<off_t>(left));
      MFU_TRY(made.append(read_at(file_, at, end)));
    }
    left = 0;
  }
  *this = std::move(made);
  return left;
}

Result<FileEnds> file_ends(const std::string& path) {
  constexpr off_t kMostShown = 4096;
  FileEnds ends;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return ends;
  }
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return fail(ErrorCode::io, fmt::format("cannot read {}: {}", path, reason(errno)));
  ends.empty = false;
  off_t size = status.st_size, whole = end_of_last_line(file, size);
  ends.first = read_at(file, 0, std::min(size, kMostShown));
  std::size_t end = ends.first.find('\n');
  ends.lines = end != std::string::npos || (whole != 0 && whole != size);
  ends.half = read_at(file, whole, std::min(size, whole + kMostShown));
  if (end != std::string::npos) ends.first.resize(end);
  ::close(file);
  return ends;
}

}  // namespace mfu
