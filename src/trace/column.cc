#include "trace/column.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "mfu/result.h"
#include "trace/spill.h"

namespace mfu {
namespace {

// A smaller column is in the heap. A larger one has its own pages, which grow without a copy.
constexpr std::size_t kHeapBytes = 64u << 10;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLargeBytes = 4u << 20;

std::size_t round_up(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// A file without a name: it is gone when the process ends, however that happens. /var/tmp is
// preferred, because /tmp is often in memory.
int unnamed_file() {
  const char* chosen = std::getenv("TMPDIR");
  for (const char* folder : {chosen, "/var/tmp", "/tmp"}) {
    if (folder == nullptr || *folder == '\0') continue;
    int file = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) return file;
    std::string path = std::string(folder) + "/mfu-spill-XXXXXX";
    file = ::mkostemp(path.data(), O_CLOEXEC);
    if (file < 0) continue;
    ::unlink(path.c_str());
    return file;
  }
  return -1;
}

// Disk space is reserved, because a store into a mapping of a full disk would raise SIGBUS.
void* map_file(int file, std::size_t bytes) {
  if (::posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0) return MAP_FAILED;
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

}  // namespace

void ColumnStorage::grow(std::size_t at_least_bytes) {
  std::size_t wanted = std::max(at_least_bytes, capacity_bytes_ + capacity_bytes_ / 2);
  if (wanted < 256) wanted = 256;
  if (wanted > kHeapBytes) wanted = round_up(wanted);
  std::size_t had = capacity_bytes_;
  if (file_ >= 0) {
    if (::posix_fallocate(file_, 0, static_cast<off_t>(wanted)) == 0) {
      bytes_ = ::mremap(bytes_, had, wanted, MREMAP_MAYMOVE);
      MFU_ASSERT(bytes_ != MAP_FAILED);
      capacity_bytes_ = wanted;
      return;
    }
  } else if (spill_ && wanted > kHeapBytes &&
             spill_->in_memory_bytes + (wanted - had) > spill_->budget_bytes) {
    int file = unnamed_file();
    void* mapped = file >= 0 ? map_file(file, wanted) : MAP_FAILED;
    if (mapped != MAP_FAILED) {
      if (had > 0) std::memcpy(mapped, bytes_, had);
      SpillHandle spill = spill_;
      release();
      spill_ = std::move(spill);
      bytes_ = mapped;
      capacity_bytes_ = wanted;
      file_ = file;
      mapped_ = true;
      spill_->spilled = true;
      return;
    }
    if (file >= 0) ::close(file);
  }
  // In memory.
  if (wanted <= kHeapBytes) {
    bytes_ = std::realloc(bytes_, wanted);
    MFU_ASSERT(bytes_ != nullptr);
  } else if (mapped_ && file_ < 0) {
    bytes_ = ::mremap(bytes_, had, wanted, MREMAP_MAYMOVE);
    MFU_ASSERT(bytes_ != MAP_FAILED);
  } else {
    void* pages =
        ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MFU_ASSERT(pages != MAP_FAILED);
    if (had > 0) std::memcpy(pages, bytes_, had);
    SpillHandle spill = spill_;
    release();
    spill_ = std::move(spill);
    had = 0;
    bytes_ = pages;
    mapped_ = true;
  }
  // Large pages, if the system has some: the first touch of small ones is a tenth of reading.
  if (wanted >= kLargeBytes) ::madvise(bytes_, wanted, MADV_HUGEPAGE);
  capacity_bytes_ = wanted;
  if (spill_) spill_->in_memory_bytes += wanted - had;
}

void ColumnStorage::release() {
  if (bytes_ == nullptr) return;
  if (mapped_) {
    ::munmap(bytes_, capacity_bytes_);
  } else {
    std::free(bytes_);
  }
  if (file_ >= 0) {
    ::close(file_);
  } else if (spill_) {
    spill_->in_memory_bytes -= capacity_bytes_;
  }
  bytes_ = nullptr;
  capacity_bytes_ = 0;
  file_ = -1;
  mapped_ = false;
}

}  // namespace mfu
