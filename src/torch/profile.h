// One session of torch's own profiler on the calling thread, started and stopped from C++. It does
// what Python's torch.profiler does, without the interpreter's lock and without its event tables.
// There is one session per process, and nothing here throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mfu::observer {

struct ProfileOptions {
  bool stacks = false;
  std::int16_t device = -1;  // type << 8 | index of the device that the loop computes on
  std::int32_t rank = -1, world_size = -1;
};

// Whether any profiler runs on this thread.
bool profiler_runs() noexcept;

// Starts the profiler on this thread and on those that work for it. Returns an empty text, or the
// reason why it did not start.
std::string begin_profile(const ProfileOptions& options) noexcept;

// Stops it, on the thread that started it. The function that comes back writes the trace, on any
// thread, and returns an empty text or an error. It is null if nothing was recorded.
using WriteTrace = std::function<std::string(const std::string& path)>;
WriteTrace end_profile() noexcept;

// Marks a step of the session in the trace. The step ends with the object, on the same thread.
class ProfiledStep {
 public:
  explicit ProfiledStep(std::uint64_t number);
  ~ProfiledStep();
  ProfiledStep(const ProfiledStep&) = delete;
  ProfiledStep& operator=(const ProfiledStep&) = delete;

 private:
  struct Range;
  std::unique_ptr<Range> range_;
};

// For a forked child, which inherits a session that nobody will end.
void drop_profile() noexcept;

}  // namespace mfu::observer
