#include "monitor/step_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "base/file.h"
#include "base/fork.h"

namespace mfu {

namespace {

std::string reason(int number) {
  return std::error_code(number, std::generic_category()).message();
}

struct Mapping {
  void* memory;
  int lock;
};

Result<Mapping> map(const std::string& path, std::size_t bytes) {
  if (path.empty()) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return fail(ErrorCode::io, "no memory for the queue of steps");
    return Mapping{memory, -1};
  }
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    return fail(ErrorCode::io, fmt::format("cannot make {}: {}", path, reason(errno)));
  }
  // Reserve all of it now: a store into a page that the file system has no room for is a SIGBUS.
  int refused = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (refused == 0) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) refused = errno;
  }
  ::close(file);
  if (memory == MAP_FAILED) {
    ::unlink(path.c_str());
    return fail(ErrorCode::io,
                fmt::format("cannot reserve {} bytes in {}: {}", bytes, path, reason(refused)));
  }
  // Lock it through a separate descriptor. The mapping keeps the descriptor that it was made from,
  // also in a forked child, which would then go on holding the lock of its dead parent.
  int lock = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock >= 0) {
    ::flock(lock, LOCK_EX | LOCK_NB);
    close_in_children(lock);
  }
  return Mapping{memory, lock};
}

}  // namespace

Result<StepQueue> StepQueue::create(const std::string& path, std::size_t capacity) {
  if (capacity < 2 || capacity > kMostQueue || (capacity & (capacity - 1)) != 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a queue of {} steps: it takes a power of two, 2 to {}", capacity, kMostQueue));
  }
  StepQueue queue;
  queue.bytes_ = sizeof(QueueHeader) + capacity * sizeof(QueueSlot);
  Mapping mapping = MFU_TRY(map(path, queue.bytes_));
  queue.memory_ = mapping.memory;
  queue.lock_ = mapping.lock;
  queue.mask_ = capacity - 1;
  queue.header_ = new (queue.memory_) QueueHeader{};
  char* after = static_cast<char*>(queue.memory_) + sizeof(QueueHeader);
  queue.slots_ = reinterpret_cast<QueueSlot*>(after);
  for (std::size_t i = 0; i < capacity; ++i) {
    auto* slot = new (after + i * sizeof(QueueSlot)) QueueSlot{};
    slot->turn.store(i, std::memory_order_relaxed);
  }
  queue.header_->capacity = capacity;
  queue.header_->magic = kQueueMagic;
  return queue;
}

StepQueue::StepQueue(StepQueue&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      lock_(std::exchange(other.lock_, -1)),
      header_(other.header_),
      slots_(other.slots_),
      mask_(other.mask_) {}

StepQueue& StepQueue::operator=(StepQueue&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(lock_, other.lock_);
  header_ = other.header_;
  slots_ = other.slots_;
  mask_ = other.mask_;
  return *this;
}

StepQueue::~StepQueue() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  if (lock_ < 0) return;
  forget_descriptor(lock_);
  ::close(lock_);
}

DeadQueue::DeadQueue(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(file_);
  file_ = -1;
}

DeadQueue::~DeadQueue() {
  if (file_ >= 0) ::close(file_);
}

Result<LeftInQueue> read_queue(const std::string& path) {
  std::string bytes =
      MFU_TRY(read_file(path, sizeof(QueueHeader) + kMostQueue * sizeof(QueueSlot)));
  auto word = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  if (bytes.size() < sizeof(QueueHeader) || word(0) != kQueueMagic) {
    return fail(ErrorCode::malformed, fmt::format("{} is no queue of steps", path));
  }
  std::uint64_t capacity = word(offsetof(QueueHeader, capacity));
  if (capacity == 0 || capacity > kMostQueue || (capacity & (capacity - 1)) != 0 ||
      bytes.size() != sizeof(QueueHeader) + capacity * sizeof(QueueSlot)) {
    return fail(ErrorCode::malformed, fmt::format("{} is damaged: its size is not its own", path));
  }
  LeftInQueue left;
  left.dropped = word(offsetof(QueueHeader, dropped));
  for (std::uint64_t i = 0; i < capacity; ++i) {
    std::size_t offset = sizeof(QueueHeader) + i * sizeof(QueueSlot);
    std::uint64_t turn = word(offset + offsetof(QueueSlot, turn));
    if (turn == 0 || ((turn - 1) & (capacity - 1)) != i) continue;
    LeftInQueue::Entry entry{.position = turn - 1, .step = {}};
    std::memcpy(static_cast<void*>(&entry.step), bytes.data() + offset + offsetof(QueueSlot, step),
                sizeof(LoggedStep));
    left.entries.push_back(entry);
  }
  std::sort(left.entries.begin(), left.entries.end(),
            [](const auto& a, const auto& b) { return a.position < b.position; });
  return left;
}

}  // namespace mfu
