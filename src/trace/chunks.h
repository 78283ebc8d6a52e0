// Divides the text of a trace into chunks that begin at an event, as far as that can be seen.
// Several threads read their events ahead of the thread that uses them.
//
// Where an event begins is only a guess from the text. A wrong guess makes reading slower but never
// changes the result: the document takes the events of a chunk only if it has itself arrived at the
// chunk's first byte and if every event in it was complete. Otherwise it reads the chunk's text in
// the usual way.
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
  bool last = false;             // no chunk follows
  std::uint64_t file_bytes = 0;  // bytes of the file that were read up to here
  PackedEvents events;           // of the whole text; valid only if `clean`
  bool clean = false;

  std::string_view text() const { return {bytes.get(), size}; }
};

// Divides what a source gives into chunks. Every chunk but the last, unless it is empty, ends
// before an event if an event is seen to begin in its last part.
class ChunkCutter {
 public:
  explicit ChunkCutter(ByteSource& source) : source_(source) {}
  void next(Chunk& chunk, const std::atomic<bool>* cancel);

 private:
  ByteSource& source_;
  std::vector<char> carried_;  // was read already, but belongs to the next chunk
};

// Gives chunks in order. If there are several threads and the text turns out to be long, all
// threads, including the caller's, read chunks from the source and take them apart, a few chunks
// ahead.
class ChunkReader {
 public:
  ChunkReader(ByteSource& source, unsigned threads, const std::atomic<bool>* cancel);
  ~ChunkReader();  // waits for the threads
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // The next chunk, or null after the last one. It is valid until the next call.
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
  std::uint64_t alone_ = 0;  // chunks that were read by one thread alone
  bool ended_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // chunk n is in slot n modulo the number of slots
  std::uint64_t next_read_ = 0, next_used_ = 0;
  bool reading_ = false, read_all_ = false, stop_ = false;
  std::unique_ptr<Parser> parser_;  // the caller's own
  std::vector<std::thread> workers_;
};

}  // namespace mfu
