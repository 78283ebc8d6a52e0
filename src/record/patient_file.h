// A file that is only ever appended to, on a disk that may be full, gone or read-only: what it
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
  // True: nothing is left to write. False: problem() says why.
  bool flush();

  const std::string& path() const { return path_; }
  const std::string& pending() const { return pending_; }
  const std::string& problem() const { return problem_; }
  // Nothing is there yet.
  bool is_new() const;
  // What reached the disk, also where the file was deleted since, and what is pending.
  std::string whole() const;

 private:
  std::string path_, pending_, problem_;
  int descriptor_ = -1;
};

}  // namespace mfu
