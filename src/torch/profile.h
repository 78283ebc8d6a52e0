// One session of torch's own profiler on the calling thread, begun and ended from C++: what
// Python's torch.profiler does, without the interpreter's lock and without its tables of events.
// One session a process; nothing here throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mfu::observer {

struct ProfileOptions {
  bool stacks = false;
  std::int16_t device = -1;  // type << 8 | index of what the loop computes on
  std::int32_t rank = -1, world_size = -1;
};

// Whether somebody's profiler runs on this thread.
bool profiler_runs() noexcept;

// Empty: it runs from now on, on this thread and on those that work for it. Else why not.
std::string begin_profile(const ProfileOptions& options) noexcept;

// Ends it, on the thread that began it. What comes back writes the trace, on any thread; it gives
// an empty text, or why it could not. Null: nothing was recorded.
using WriteTrace = std::function<std::string(const std::string& path)>;
WriteTrace end_profile() noexcept;

// A step of the session, as traces mark it. Ends with the object, on the same thread.
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

// In a forked child, which inherits a session that nobody will end.
void drop_profile() noexcept;

}  // namespace mfu::observer
