// A file that grows only by whole records. If a record cannot be written completely (a full disk),
// its beginning is removed again, so the file always holds whole records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mfu/result.h"

namespace mfu {

class AppendFile {
 public:
  AppendFile() = default;
  ~AppendFile() { close(); }
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  // Makes the folder and the file. With `lines`, an incomplete last line that a killed process left
  // is removed. Use that only for a file that is known to be ours (see file_ends).
  static Result<AppendFile> open(const std::string& path, bool lines);

  // Writes all bytes or none.
  Result<void> append(std::string_view bytes);
  // Whether the name no longer leads to this file, because it was deleted or renamed (log
  // rotation).
  bool moved() const;
  // Opens the name again and makes the folder and the file. The content of a deleted file is copied
  // to the new one if it has at most `restored_most` bytes; a renamed file keeps its content.
  // Returns the number of bytes that are lost.
  Result<std::uint64_t> renew(std::uint64_t restored_most);
  // Whether the file was empty when it was opened.
  bool was_empty() const { return was_empty_; }
  void close();

 private:
  int file_ = -1;
  bool was_empty_ = true;
  std::string path_;
};

// How a text file begins and ends. It shows who wrote the file, before we change anything in it.
struct FileEnds {
  bool empty = true;   // also if it does not exist or is no regular file
  std::string first;   // the first line without its newline, at most 4096 bytes
  std::string half;    // what follows the last newline, at most 4096 bytes
  bool lines = false;  // whether it has a newline at all
};
Result<FileEnds> file_ends(const std::string& path);

}  // namespace mfu
