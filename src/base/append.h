// A file that only ever grows by whole records: a record that does not fit (a full disk) is taken
// back, so that what stands there is always a valid prefix.
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

  // Makes the folder and the file. With `lines`, half a line that a killed process left at the end
  // is cut off: only for a file that is known to be ours (file_ends).
  static Result<AppendFile> open(const std::string& path, bool lines);

  // All of it or nothing.
  Result<void> append(std::string_view bytes);
  // The name does not lead to this file any more: it was deleted, or renamed as rotated logs are.
  bool moved() const;
  // Opens the name again, making the folder and the file. What stood in a file that was deleted is
  // written to the new one where it is at most `restored_most` bytes; a renamed file keeps it.
  // Gives the number of bytes that are gone.
  Result<std::uint64_t> renew(std::uint64_t restored_most);
  // Whether anything stood in it when it was opened.
  bool was_empty() const { return was_empty_; }
  void close();

 private:
  int file_ = -1;
  bool was_empty_ = true;
  std::string path_;
};

// How a text file begins and ends, by which its writer is known before anything is cut or added.
struct FileEnds {
  bool empty = true;   // or not there, or no regular file
  std::string first;   // the first line without its end, at most 4096 bytes of it
  std::string half;    // what follows the last line's end, at most 4096 bytes of it
  bool lines = false;  // there is a line's end at all
};
Result<FileEnds> file_ends(const std::string& path);

}  // namespace mfu
