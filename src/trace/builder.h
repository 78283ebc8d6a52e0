// Turns the events of a file, one by one, into the columns of a Trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/category.h"
#include "trace/document.h"
#include "trace/texts.h"
#include "trace/trace.h"

namespace mfu {

// One end of an arrow between two events.
struct FlowEnd {
  std::int64_t id = 0, time_ns = 0;
  std::uint32_t where = 0;  // row of lanes or threads
  bool start = false;
};

// What linking needs and the finished trace does not.
struct Unlinked {
  Column<FlowEnd> launch_flows;  // kept only if device events lack a correlation id
  Column<FlowEnd> backward_flows;
  std::int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;  // over all starts
  bool whole_microseconds = true;  // no time has a fraction, so ends may be off by one
};

class TraceBuilder : public DocumentSink {
 public:
  explicit TraceBuilder(const SpillHandle& spill);

  void event(const EventText& event) override;
  void member(std::string_view name, std::string_view value) override;

  Trace& trace() { return trace_; }
  Unlinked& unlinked() { return unlinked_; }
  std::uint64_t fused_all_reduces() const { return fused_all_reduces_; }

 private:
  void device_event(const EventText& event, DeviceKind kind);
  void runtime_event(const EventText& event);
  void host_event(const EventText& event, HostKind kind);
  void flow_event(const EventText& event, Category category);
  bool read_times(const EventText& event);
  std::uint32_t name_of(const EventText& event);
  std::uint32_t thread_of(const EventText& event);
  std::uint32_t lane_of(const EventText& event, bool may_add);
  std::uint32_t inputs_of(const EventText& event);
  std::uint32_t collective_of(const EventText& event);
  std::int64_t number_or_text_id(std::string_view token);

  struct NameFacts {  // about a text; found out once
    bool known = false, communication = false, fused_all_reduce = false, annotation = false;
    LaunchKind launch = LaunchKind::other;
  };
  NameFacts& facts_of(std::uint32_t name);

  Trace trace_;
  Unlinked unlinked_;
  std::int64_t start_ns_ = 0, duration_ns_ = 0;  // of the current event
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> threads_, lanes_;
  std::uint32_t last_thread_ = kNone, last_lane_ = kNone;
  std::vector<NameFacts> facts_;
  std::string scratch_;
  bool device_without_correlation_ = false;
  std::uint64_t fused_all_reduces_ = 0;
};

// Fills info from a member of the file: deviceProperties, distributedInfo, versions …
void read_info_member(TraceInfo& info, std::string_view name, std::string_view value);
// Notes that a member of the file holds what looks like a credential.
void find_secrets_in_member(TraceCoverage& coverage, std::string_view name, std::string_view value);
// Called when reading is over. Does the same for the file's own name, and for names, inputs and
// call stacks, where it overwrites the secrets.
void hide_secrets_in_texts(Trace& trace);

}  // namespace mfu
