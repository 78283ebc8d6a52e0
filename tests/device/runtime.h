// A device that runs late: streams are queues with a worker thread each, events are marks in them.
// Knows nothing of torch; backend.cc and fallback.cc make a PrivateUse1 device of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace late {

using Work = std::function<void()>;

inline constexpr int kMostDevices = 8;

// LATE_DEVICES, 2 where it is not set.
int device_count();

// Streams are numbered from 0, the default one, in each device; asking for the next makes it.
struct StreamName {
  int device = 0;
  std::int64_t stream = 0;
};
std::int64_t new_stream(int device);

// Runs `work` later, in order. The host waits only where LATE_QUEUE (1024) launches are waiting.
void launch(StreamName where, Work work);
// The same for work that is a kernel: it takes at least kernel_ns() of the device's time.
void launch_kernel(StreamName where, Work work);
// Keeps the stream busy, as torch.cuda._sleep does.
void launch_sleep(StreamName where, std::uint64_t duration_ns);

void synchronize(StreamName where);
void synchronize_device(int device);
bool is_idle(StreamName where);

// How long a kernel takes at least; 0 at first, or LATE_KERNEL_US.
void set_kernel_ns(std::uint64_t duration_ns);

// Where in a stream's order something lies; the device's clock when it got there.
class Mark {
 public:
  bool is_reached() const;
  void wait() const;
  std::uint64_t time_ns() const;  // 0: not reached
  void reach();

 private:
  struct State;
  std::shared_ptr<State> state_ = make();
  static std::shared_ptr<State> make();
};
Mark record(StreamName where);
void wait_for(StreamName where, const Mark& mark);  // the stream waits, not the host

// What was asked of the device so far, for tests: launches, waits of the host, queries by a thread
// that launched nothing.
struct Counts {
  std::uint64_t launches, host_waits, foreign_queries, queries;
};
Counts counts();
void note_query();

// Between them nothing may be queried or waited for, as while a CUDA graph is captured; what is,
// counts.
void set_capturing(bool capturing);
bool is_capturing();
std::uint64_t capture_breaks();

// No work runs any more.
void stop();

}  // namespace late
