// The text of a trace in chunks that begin at events as far as can be seen, and their events, read
// by several threads ahead of the one that uses them.
//
// Where an event begins is a guess from the text. It decides how fast reading is and never what is
// read: the document takes events from a chunk only where it stands at the chunk's first byte
// itself and every event in it was whole, else it reads the chunk's text as it reads any other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "trace/document.h"
#include "trace/source.h"

namespace mfu {

struct Chunk {
  std::unique_ptr<char[]> bytes;
  std::size_t size = 0;
  bool last = false;             // nothing comes behind it
  std::uint64_t file_bytes = 0;  // taken from the file up to here
  PackedEvents events;           // of the whole text; only where `clean`
  bool clean = false;

  std::string_view text() const { return {bytes.get(), size}; }
};

// Cuts what a source gives into chunks. A chunk that is not the last one and is not empty ends
// before an event where one is seen to begin in its last part.
class ChunkCutter {
 public:
  explicit ChunkCutter(ByteSource& source) : source_(source) {}
  void next(Chunk& chunk, const std::atomic<bool>* cancel);

 private:
  ByteSource& source_;
  std::vector<char> carried_;  // read already, belongs to the next chunk
};

// Chunks in order. With more than one thread, and once the text turns out to be long, chunks are
// read from the source and taken apart by all threads, the caller's among them, a few chunks ahead.
class ChunkReader {
 public:
  ChunkReader(ByteSource& source, unsigned threads, const std::atomic<bool>* cancel);
  ~ChunkReader();  // waits for the threads
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // The next chunk; null after the last. It is valid until the next call.
  Chunk* next();

 private:
  struct Slot {
    Chunk chunk;
    bool ready = false;
  };
  class Parser;

  Chunk* next_alone();
  void start();
  void work();
  bool may_read() const { return !read_all_ && !stop_ && next_read_ - next_used_ < slots_.size(); }
  void read_one(std::unique_lock<std::mutex>& lock, Parser& parser);

  ChunkCutter cutter_;
  const std::atomic<bool>* cancel_;
  unsigned threads_;
  std::uint64_t alone_ = 0;  // chunks that were read without help
  bool ended_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // chunk number n is in slot n modulo their number
  std::uint64_t next_read_ = 0, next_used_ = 0;
  bool reading_ = false, read_all_ = false, stop_ = false;
  std::unique_ptr<Parser> parser_;  // the caller's own
  std::vector<std::thread> workers_;
};

}  // namespace mfu
