// A file that is only appended to, on a disk that may be full, gone or read-only. What the disk
// refuses is kept in memory and tried again.
#pragma once

#include <string>
#include <string_view>

namespace mfu {

class PatientFile {
 public:
  explicit PatientFile(std::string path) : path_(std::move(path)) {}
  ~PatientFile();
  PatientFile(const PatientFile&) = delete;
  PatientFile& operator=(const PatientFile&) = delete;

  void add(std::string_view bytes) { pending_ += bytes; }
  // Returns true if nothing is left to write. Otherwise problem() says why.
  bool flush();

  const std::string& path() const { return path_; }
  const std::string& pending() const { return pending_; }
  const std::string& problem() const { return problem_; }
  // Whether the file does not exist yet.
  bool is_new() const;
  // What was written to the disk, even if the file was deleted since, and what is pending.
  std::string whole() const;

 private:
  std::string path_, pending_, problem_;
  int descriptor_ = -1;
};

}  // namespace mfu
