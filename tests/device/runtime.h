// A device that runs late. Each stream is a queue with a worker thread; an event is a mark in a
// queue. This file knows nothing of torch; backend.cc and fallback.cc make a PrivateUse1 device of
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace late {

using Work = std::function<void()>;

inline constexpr int kMostDevices = 8;

// LATE_DEVICES, or 2 if it is not set.
int device_count();

// Streams of each device are numbered from 0, the default one. Asking for the next number makes a
// stream.
struct StreamName {
  int device = 0;
  std::int64_t stream = 0;
};
std::int64_t new_stream(int device);

// Runs `work` later, in order. The host waits only if LATE_QUEUE (1024) launches are waiting.
void launch(StreamName where, Work work);
// The same for a kernel, which takes at least kernel_ns() of the device's time.
void launch_kernel(StreamName where, Work work);
// Keeps the stream busy, as torch.cuda._sleep does.
void launch_sleep(StreamName where, std::uint64_t duration_ns);

void synchronize(StreamName where);
void synchronize_device(int device);
bool is_idle(StreamName where);

// The least time that a kernel takes; 0 at first, or LATE_KERNEL_US.
void set_kernel_ns(std::uint64_t duration_ns);

// A place in the order of a stream, and the device's clock when the stream got there.
class Mark {
 public:
  bool is_reached() const;
  void wait() const;
  std::uint64_t time_ns() const;  // 0 means not reached yet
  void reach();

 private:
  struct State;
  std::shared_ptr<State> state_ = make();
  static std::shared_ptr<State> make();
};
Mark record(StreamName where);
void wait_for(StreamName where, const Mark& mark);  // the stream waits, not the host

// For tests: how often the device was asked for what so far. Counts launches, waits of the host,
// and queries by a thread that launched nothing.
struct Counts {
  std::uint64_t launches, host_waits, foreign_queries, queries;
};
Counts counts();
void note_query();

// Between these two calls nothing may be queried or waited for, as during the capture of a CUDA
// graph. Each query and wait is counted.
void set_capturing(bool capturing);
bool is_capturing();
std::uint64_t capture_breaks();

// No work runs any more.
void stop();

}  // namespace late
