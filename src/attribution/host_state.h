// What the threads of the host were doing at each instant, as far as the trace shows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "trace/trace.h"

namespace mfu {

// If several apply, the first one counts: a synchronise inside the data loader is data loading.
enum class HostState : std::uint8_t {
  data,         // in a range that fetches the next batch
  synchronize,  // in a call that waits for the device, or an operator that does
  blocked,      // in a Python call that waits for something else
  cpu_work,     // in a long operator that launches nothing
  busy,         // in any other operator, runtime call or Python frame
  unseen        // in nothing that was recorded
};
inline constexpr std::size_t kHostStateCount = 5;  // without unseen

struct HostSpan {
  std::int64_t start_ns = 0, end_ns = 0;
  HostState state = HostState::unseen;
  std::uint32_t host = kNone;    // the range or operator; kNone for a runtime call
  std::uint32_t launch = kNone;  // the runtime call
};

class HostStates {
 public:
  // Gaps of up to interpreter_ns between two events of one thread count as busy: the interpreter
  // runs then, and it is not recorded.
  HostStates(const Trace& trace, std::int64_t interpreter_ns);

  using Visit = std::function<void(const HostSpan&)>;
  // Finds the states of a thread of the trace before they are first needed. Several threads may
  // call this at once, each for another thread of the trace.
  void prepare(std::uint32_t thread) { known_spans(thread); }
  // The states of a thread from from_ns to to_ns, in order and without gaps.
  void on_thread(std::uint32_t thread, std::int64_t from_ns, std::int64_t to_ns,
                 const Visit& visit);
  // The same for all threads of a process together. Python frames are left out, because they never
  // end.
  void on_process(std::int64_t process, std::int64_t from_ns, std::int64_t to_ns,
                  const Visit& visit);
  // The thread that launches the most events.
  std::uint32_t main_thread() const { return main_thread_; }

 private:
  enum class TextFact : std::uint8_t {
    unknown,
    nothing,
    data,
    blocking,
    synchronizing,
    copying,
    bookkeeping
  };
  TextFact fact_of(std::uint32_t name);
  std::vector<HostSpan> spans_of(std::uint32_t thread, bool python);
  const std::vector<HostSpan>& known_spans(std::uint32_t thread);
  std::vector<std::uint32_t> waiting_operators(std::uint32_t thread);
  bool waits(std::uint32_t launch);
  static void visit(const std::vector<HostSpan>& spans, std::int64_t from_ns, std::int64_t to_ns,
                    const Visit& visit);

  const Trace& trace_;
  std::int64_t interpreter_ns_;
  std::uint32_t main_thread_ = kNone;
  bool has_python_ = false;
  std::vector<TextFact> facts_;
  std::vector<std::optional<std::vector<HostSpan>>> by_thread_;
  std::map<std::int64_t, std::vector<HostSpan>> by_process_;
};

}  // namespace mfu
