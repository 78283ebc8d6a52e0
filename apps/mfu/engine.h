// Reads traces elsewhere: by Ray's workers, or from object stores.
#pragma once

#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

// A folder that is deleted when it is no longer needed.
class PassingFolder {
 public:
  static Result<PassingFolder> make();
  PassingFolder(PassingFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PassingFolder& operator=(PassingFolder&&) = delete;
  ~PassingFolder();
  const std::string& path() const { return path_; }

 private:
  explicit PassingFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct EngineQuestion {
  std::string engine;  // "ray", "ray=ADDRESS", "local"; empty: on this machine
  std::string window;
  std::vector<std::string> paths;
};

// Whether a path is an address of an object store ("s3://bucket/run").
bool is_remote(const std::string& path);

// Returns paths of part files in the folder and paths on this machine, in place of the given ones.
Result<std::vector<std::string>> gather_elsewhere(Context& context, const EngineQuestion& question,
                                                  const PassingFolder& folder);

}  // namespace mfu::app
