#include "record/region_open.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace mfu {

namespace {

class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }
  // 0 if it is no plain file.
  std::size_t size() const {
    struct stat status{};
    if (fstat(number_, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    return static_cast<std::size_t>(status.st_size);
  }

 private:
  int number_;
};

Failure open_failure(const std::string& path) {
  return fail(ErrorCode::io, path + ": " + std::strerror(errno));
}

Failure not_a_region(const std::string& path) {
  return fail(ErrorCode::malformed,
              path + ": no region that this version of mfu reads (layouts 1 and " +
                  std::to_string(kRegionVersion) + ")");
}

// For a copy or a mapping of the right size.
template <class Layout>
bool is_region(const Layout& region, std::uint32_t version) {
  return region.header.magic == kRegionMagic && region.header.version == version &&
         region.header.region_bytes == sizeof(Layout);
}

template <class Layout>
Layout* map_whole(const OpenFile& file) {
  void* memory =
      mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Layout*>(memory);
}

template <class Layout>
Result<std::unique_ptr<Layout>> read_whole(const OpenFile& file, const std::string& path,
                                           std::uint32_t version) {
  auto region = std::make_unique<Layout>();
  char* to = reinterpret_cast<char*>(region.get());
  std::size_t done = 0;
  while (done < sizeof(Layout)) {
    ssize_t size = pread(file.number(), to + done, sizeof(Layout) - done, static_cast<off_t>(done));
    if (size < 0) return open_failure(path);
    if (size == 0) break;
    done += static_cast<std::size_t>(size);
  }
  if (done != sizeof(Layout) || !is_region(*region, version)) return not_a_region(path);
  // Records that were drained during the copy may have been overwritten. They are on the disk.
  std::uint64_t tail = 0;
  auto place = reinterpret_cast<const char*>(&region->header.step_tail) - to;
  if (pread(file.number(), &tail, sizeof tail, place) == sizeof tail) {
    region->header.step_tail = tail;
  }
  return region;
}

}  // namespace

void OpenRegion::Unmapper::operator()(Region* region) const {
  munmap(region, sizeof(Region));
}

void OpenRegion::Unmapper::operator()(v1::Region* region) const {
  munmap(region, sizeof(v1::Region));
}

Result<OpenRegion> OpenRegion::open(const std::string& path) {
  OpenFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return open_failure(path);
  OpenRegion opened;
  if (file.size() == sizeof(Region)) {
    opened.mapped_.reset(map_whole<Region>(file));
    if (opened.mapped_ == nullptr) return open_failure(path);
    if (!is_region(*opened.mapped_, kRegionVersion)) return not_a_region(path);
    return opened;
  }
  if (file.size() != sizeof(v1::Region)) return not_a_region(path);
  opened.older_.reset(map_whole<v1::Region>(file));
  if (opened.older_ == nullptr) return open_failure(path);
  if (!is_region(*opened.older_, v1::kRegionVersion)) return not_a_region(path);
  opened.copy_ = std::make_unique<Region>();
  opened.refresh();
  return opened;
}

void OpenRegion::refresh() {
  if (older_) v1::copy_to(*older_, *copy_);
}

void OpenRegion::set_tail(std::uint64_t tail) {
  if (older_) {
    older_->header.step_tail.store(tail, std::memory_order_release);
    copy_->header.step_tail.store(tail, std::memory_order_release);
  } else {
    mapped_->header.step_tail.store(tail, std::memory_order_release);
  }
}

bool OpenRegion::request(std::uint64_t word) {
  if (!mapped_) return false;
  mapped_->header.request.store(word, std::memory_order_release);
  return true;
}

Result<std::unique_ptr<Region>> copy_region(const std::string& path) {
  OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return open_failure(path);
  if (file.size() == sizeof(Region)) return read_whole<Region>(file, path, kRegionVersion);
  if (file.size() != sizeof(v1::Region)) return not_a_region(path);
  Result<std::unique_ptr<v1::Region>> older =
      read_whole<v1::Region>(file, path, v1::kRegionVersion);
  if (!older.has_value()) return Failure{older.error()};
  auto region = std::make_unique<Region>();
  v1::copy_to(*older.value(), *region);
  return region;
}

}  // namespace mfu
