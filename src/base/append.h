// A file that only ever grows by whole records: a record that does not fit (a full disk) is taken
// back, so that what stands there is always a valid prefix.
#pragma once

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
  // is cut off.
  static Result<AppendFile> open(const std::string& path, bool lines);

  // All of it or nothing.
  Result<void> append(std::string_view bytes);
  // Whether anything stood in it when it was opened.
  bool was_empty() const { return was_empty_; }
  void close();

 private:
  int file_ = -1;
  bool was_empty_ = true;
  std::string path_;
};

}  // namespace mfu
