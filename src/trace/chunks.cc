#include "trace/chunks.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "trace/layout.h"

namespace mfu {
namespace {

// For fewer chunks than this, a thread costs more than it saves.
#ifdef MFU_FUZZED
constexpr std::uint64_t kChunksAlone = 2;
#else
constexpr std::uint64_t kChunksAlone = 8;
#endif
// How far from the end of a chunk we look for the beginning of an event.
constexpr std::ptrdiff_t kLookBack = 16 << 10;

// Finds where the last event begins: a "{" after a comma after another event, with a key of an
// event in it. nullptr if there is none.
const char* last_event_start(const char* begin, const char* end) {
  const char* limit = end - begin > kLookBack ? end - kLookBack : begin;
  for (const char* at = end; at > limit;) {
    const void* found = ::memrchr(limit, '{', static_cast<std::size_t>(at - limit));
    if (found == nullptr) return nullptr;
    at = static_cast<const char*>(found);
    const char* before = at;
    while (before > begin && is_space(before[-1])) --before;
    if (before == begin || before[-1] != ',') continue;
    do {
      --before;
    } while (before > begin && is_space(before[-1]));
    if (before == begin || before[-1] != '}') continue;
    if (find_event_start(at, end) == at) return at;
  }
  return nullptr;
}

}  // namespace

void ChunkCutter::next(Chunk& chunk, const std::atomic<bool>* cancel) {
  if (!chunk.bytes) chunk.bytes = std::make_unique_for_overwrite<char[]>(kWindowBytes);
  chunk.size = carried_.size();
  std::copy(carried_.begin(), carried_.end(), chunk.bytes.get());
  carried_.clear();
  chunk.last = chunk.clean = false;
  // Fills the chunk, however little a pipe gives at a time.
  while (!chunk.last && chunk.size < kWindowBytes) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    std::size_t read = source_.read(chunk.bytes.get() + chunk.size, kWindowBytes - chunk.size);
    chunk.last = read == 0;
    chunk.size += read;
  }
  chunk.file_bytes = source_.file_bytes();
  if (chunk.last) return;
  const char* end = chunk.bytes.get() + chunk.size;
  const char* cut = last_event_start(chunk.bytes.get(), end);
  if (cut == nullptr) return;
  carried_.assign(cut, end);
  chunk.size = static_cast<std::size_t>(cut - chunk.bytes.get());
}

class ChunkReader::Parser {
 public:
  void parse(Chunk& chunk) {
    chunk.clean =
        chunk.size < UINT32_MAX && read_events(chunk.text(), event_, layouts_, chunk.events);
  }

 private:
  EventText event_;
  Layouts layouts_;
};

ChunkReader::ChunkReader(ByteSource& source, unsigned threads, const std::atomic<bool>* cancel)
    : cutter_(source), cancel_(cancel), threads_(threads), slots_(1) {}

ChunkReader::~ChunkReader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Chunk* ChunkReader::next_alone() {
  Chunk& chunk = slots_[0].chunk;
  cutter_.next(chunk, cancel_);
  ended_ = chunk.last;
  ++alone_;
  return &chunk;
}

void ChunkReader::start() {
  slots_ = std::vector<Slot>(2 * threads_ + 2);
  parser_ = std::make_unique<Parser>();
  try {
    for (unsigned i = 1; i < threads_; ++i) workers_.emplace_back([this] { work(); });
    // the system gives no more threads, so those that exist do the work
  } catch (const std::system_error&) {
    if (workers_.empty()) threads_ = 1;
  }
}

// Reads a chunk and takes it apart. One thread at a time reads from the source.
void ChunkReader::read_one(std::unique_lock<std::mutex>& lock, Parser& parser) {
  reading_ = true;
  Slot& slot = slots_[next_read_++ % slots_.size()];
  lock.unlock();
  cutter_.next(slot.chunk, cancel_);
  lock.lock();
  reading_ = false;
  if (slot.chunk.last) read_all_ = true;
  lock.unlock();
  changed_.notify_all();
  parser.parse(slot.chunk);
  lock.lock();
  slot.ready = true;
  changed_.notify_all();
}

void ChunkReader::work() {
  Parser parser;
  std::unique_lock lock(mutex_);
  while (!stop_ && !read_all_) {
    if (may_read() && !reading_) {
      read_one(lock, parser);
    } else {
      changed_.wait(lock);
    }
  }
}

Chunk* ChunkReader::next() {
  if (ended_) return nullptr;
  bool first = workers_.empty();
  if (first && threads_ > 1 && alone_ >= kChunksAlone) start();
  if (workers_.empty()) return next_alone();
  std::unique_lock lock(mutex_);
  if (!first) {  // the caller has finished the previous chunk
    slots_[next_used_++ % slots_.size()].ready = false;
    changed_.notify_all();
  }
  Slot& slot = slots_[next_used_ % slots_.size()];
  while (!slot.ready) {
    if (may_read() && !reading_) {
      read_one(lock, *parser_);
    } else {
      changed_.wait(lock);
    }
  }
  ended_ = slot.chunk.last;
  return &slot.chunk;
}

}  // namespace mfu
