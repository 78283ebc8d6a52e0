#include "trace/builder.h"

#include <algorithm>

#include "trace/link.h"
#include "trace/number.h"
#include "trace/stride.h"

namespace mfu {
namespace {

// Rows are numbered in 32 bits.
constexpr std::size_t kMostRows = kNone - 1;
// A file with more threads or streams than this is not a trace of anything that ran.
constexpr std::size_t kMostThreads = 1u << 14;
// Records of collectives are kept in memory.
constexpr std::size_t kMostBuiltCollectives = 1u << 20;

std::int64_t id_of(const EventText& event, Key key) {
  return event.has(key) ? parse_id(event.value(key)).value_or(kNoId) : kNoId;
}

std::optional<std::int64_t> optional_id(const EventText& event, Key key) {
  return event.has(key) ? parse_id(event.value(key)) : std::nullopt;
}

// Two numbers as a key of a hash map.
std::uint64_t pair_key(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) * 0x9e3779b97f4a7c15 ^ static_cast<std::uint64_t>(b);
}

// Text that will be parsed again: printable ASCII, whatever it was.
void append_printable(std::string& out, std::string_view text) {
  std::size_t begin = out.size();
  out += text;
  if (is_printable(text.data(), text.size())) return;
  for (char* c = out.data() + begin; c != out.data() + out.size(); ++c) {
    bool printable = *c >= 0x20 && *c < 0x7f;
    if (!printable) *c = *c == '\n' || *c == '\t' || *c == '\r' ? ' ' : '?';
  }
}

template <typename... Columns>
void use_spill(const SpillHandle& spill, Columns&... columns) {
  ((columns = Columns(spill)), ...);
}

}  // namespace

TraceBuilder::TraceBuilder(const SpillHandle& spill) {
  trace_.texts = std::make_unique<Texts>(spill);
  DeviceEvents& device = trace_.device;
  use_spill(spill, device.start_ns, device.duration_ns, device.name, device.kind, device.lane,
            device.correlation, device.external_id, device.graph_node, device.bytes,
            device.geometry, device.launch, device.host, device.collective);
  Launches& launches = trace_.launches;
  use_spill(spill, launches.start_ns, launches.duration_ns, launches.name, launches.kind,
            launches.thread, launches.correlation, launches.external_id, launches.host);
  HostEvents& host = trace_.host;
  use_spill(spill, host.start_ns, host.duration_ns, host.name, host.kind, host.thread,
            host.external_id, host.sequence, host.inputs, host.stack, host.parent, host.forward,
            host.collective, host.backward, host.recomputed);
  use_spill(spill, unlinked_.launch_flows, unlinked_.backward_flows, trace_.clips);
}

void TraceBuilder::event(const EventText& event) {
  TraceCoverage& coverage = trace_.coverage;
  std::string_view phase = event.inside(Key::ph);
  Category category = parse_category(event.inside(Key::cat));
  bool flow = category == Category::launch_flow || category == Category::backward_flow;
  if (flow && (phase == "s" || phase == "f" || phase == "t")) {
    flow_event(event, category);
    ++coverage.ignored_events;
    return;
  }
  if (phase.empty()) {
    ++coverage.skipped_events;
    return;
  }
  if (phase != "X" || category == Category::other || flow) {
    if (phase == "M") {  // these are names and labels of processes, such as their command lines
      find_secrets_in_member(coverage, event.inside(Key::name), event.value(Key::args));
    }
    ++coverage.ignored_events;
    return;
  }
  if (!read_times(event)) {
    ++coverage.skipped_events;
    return;
  }
  switch (category) {
    case Category::kernel:
      return device_event(event, DeviceKind::compute);
    case Category::copy:
      return device_event(event, DeviceKind::memcpy);
    case Category::set:
      return device_event(event, DeviceKind::memset);
    case Category::runtime:
      return runtime_event(event);
    case Category::op:
      return host_event(event, HostKind::op);
    case Category::annotation:
      return host_event(event, HostKind::annotation);
    case Category::python:
      return host_event(event, HostKind::python);
    default:
      return;
  }
}

void TraceBuilder::member(std::string_view name, std::string_view value) {
  read_info_member(trace_.info, name, value);
  find_secrets_in_member(trace_.coverage, name, value);
}

// False if there is no start, if the duration is negative, or if a time is so large that a
// difference of two would not fit 64 bits of nanoseconds.
bool TraceBuilder::read_times(const EventText& event) {
  std::string_view start = event.value(Key::ts), duration = event.value(Key::dur);
  std::optional<std::int64_t> start_ns = parse_ns(start);
  std::optional<std::int64_t> duration_ns = event.has(Key::dur) ? parse_ns(duration) : 0;
  if (!start_ns || !duration_ns || *duration_ns < 0) return false;
  constexpr std::int64_t kFarthestNs = 4'000'000'000'000'000'000;  // since 1970: the year 2096
  if (*start_ns < -kFarthestNs || *start_ns > kFarthestNs || *duration_ns > kMostSpanNs) {
    return false;
  }
  unlinked_.first_ns = std::min(unlinked_.first_ns, *start_ns);
  unlinked_.last_ns = std::max(unlinked_.last_ns, *start_ns);
  start_ns_ = *start_ns;
  duration_ns_ = *duration_ns;
  if (unlinked_.whole_microseconds) {
    unlinked_.whole_microseconds = start_ns_ % 1000 == 0 && duration_ns_ % 1000 == 0;
  }
  return true;
}

std::uint32_t TraceBuilder::name_of(const EventText& event) {
  return trace_.texts->intern_raw(event.inside(Key::name));
}

TraceBuilder::NameFacts& TraceBuilder::facts_of(std::uint32_t name) {
  if (name >= facts_.size()) facts_.resize(std::max<std::size_t>(name + 1, facts_.size() * 2));
  NameFacts& facts = facts_[name];
  if (!facts.known) {
    std::string_view text = trace_.texts->text(name);
    facts = {.known = true,
             .communication = is_communication_kernel(text),
             .fused_all_reduce = is_fused_all_reduce(text),
             .annotation = is_annotation(text),
             .launch = launch_kind(text)};
  }
  return facts;
}

// A process, thread or stream id. If it is not a number, a number that stands for the text.
std::int64_t TraceBuilder::number_or_text_id(std::string_view token) {
  if (std::optional<std::int64_t> number = parse_id(token)) return *number;
  if (token.size() >= 2 && token.front() == '"') token = token.substr(1, token.size() - 2);
  constexpr std::string_view kStream = "stream ";
  if (token.starts_with(kStream)) {
    if (std::optional<std::int64_t> number = parse_id(token.substr(kStream.size()))) return *number;
  }
  return INT64_MIN + 1 + trace_.texts->intern_raw(token);
}

std::uint32_t TraceBuilder::thread_of(const EventText& event) {
  std::int64_t process = number_or_text_id(event.value(Key::pid));
  std::int64_t id = number_or_text_id(event.value(Key::tid));
  if (last_thread_ != kNone && trace_.threads[last_thread_].process == process &&
      trace_.threads[last_thread_].id == id) {
    return last_thread_;
  }
  std::vector<std::uint32_t>& rows = threads_[pair_key(process, id)];
  for (std::uint32_t row : rows) {
    if (trace_.threads[row].process == process && trace_.threads[row].id == id) {
      return last_thread_ = row;
    }
  }
  if (trace_.threads.size() >= kMostThreads) return kNone;
  rows.push_back(static_cast<std::uint32_t>(trace_.threads.size()));
  trace_.threads.push_back({.process = process, .id = id});
  return last_thread_ = rows.back();
}

std::uint32_t TraceBuilder::lane_of(const EventText& event, bool may_add) {
  bool has_device = event.has(Key::device), has_stream = event.has(Key::stream);
  std::int64_t device = number_or_text_id(event.value(has_device ? Key::device : Key::pid));
  std::int64_t stream = number_or_text_id(event.value(has_stream ? Key::stream : Key::tid));
  if (last_lane_ != kNone && trace_.lanes[last_lane_].device == device &&
      trace_.lanes[last_lane_].stream == stream) {
    return last_lane_;
  }
  std::vector<std::uint32_t>& rows = lanes_[pair_key(device, stream)];
  for (std::uint32_t row : rows) {
    if (trace_.lanes[row].device == device && trace_.lanes[row].stream == stream) {
      return last_lane_ = row;
    }
  }
  if (!may_add || trace_.lanes.size() >= kMostThreads) return kNone;
  rows.push_back(static_cast<std::uint32_t>(trace_.lanes.size()));
  trace_.lanes.push_back({.device = device, .stream = stream});
  return last_lane_ = rows.back();
}

void TraceBuilder::device_event(const EventText& event, DeviceKind kind) {
  DeviceEvents& device = trace_.device;
  std::uint32_t lane = lane_of(event, true);
  if (lane == kNone || device.size() >= kMostRows) {
    ++trace_.coverage.skipped_events;
    return;
  }
  std::uint32_t name = name_of(event);
  bool collective = event.has(Key::collective);
  if (kind == DeviceKind::compute) fused_all_reduces_ += facts_of(name).fused_all_reduce;
  if (kind == DeviceKind::compute && (collective || facts_of(name).communication)) {
    kind = DeviceKind::communication;
  }
  std::uint32_t geometry = kNone;
  if (event.has(Key::grid) || event.has(Key::block)) {
    scratch_.clear();
    append_printable(scratch_, event.value(Key::grid));
    append_printable(scratch_, event.value(Key::block));
    geometry = trace_.texts->intern(scratch_);
  }
  std::int64_t correlation = id_of(event, Key::correlation);
  device_without_correlation_ |= correlation == kNoId;
  device.start_ns.push_back(start_ns_);
  device.duration_ns.push_back(duration_ns_);
  device.name.push_back(name);
  device.kind.push_back(kind);
  device.lane.push_back(lane);
  device.correlation.push_back(correlation);
  device.external_id.push_back(id_of(event, Key::external_id));
  device.graph_node.push_back(id_of(event, Key::graph_node));
  device.bytes.push_back(id_of(event, Key::bytes));
  device.geometry.push_back(geometry);
  device.collective.push_back(collective ? collective_of(event) : kNone);
}

void TraceBuilder::runtime_event(const EventText& event) {
  Launches& launches = trace_.launches;
  std::uint32_t thread = thread_of(event);
  if (thread == kNone || launches.size() >= kMostRows) {
    ++trace_.coverage.skipped_events;
    return;
  }
  std::uint32_t name = name_of(event);
  launches.start_ns.push_back(start_ns_);
  launches.duration_ns.push_back(duration_ns_);
  launches.name.push_back(name);
  launches.kind.push_back(facts_of(name).launch);
  launches.thread.push_back(thread);
  launches.correlation.push_back(id_of(event, Key::correlation));
  launches.external_id.push_back(id_of(event, Key::external_id));
}

void TraceBuilder::host_event(const EventText& event, HostKind kind) {
  HostEvents& host = trace_.host;
  std::uint32_t thread = thread_of(event);
  if (thread == kNone || host.size() >= kMostRows) {
    ++trace_.coverage.skipped_events;
    return;
  }
  std::uint32_t name = name_of(event);
  if (kind == HostKind::op && facts_of(name).annotation) kind = HostKind::annotation;
  host.start_ns.push_back(start_ns_);
  host.duration_ns.push_back(duration_ns_);
  host.name.push_back(name);
  host.kind.push_back(kind);
  host.thread.push_back(thread);
  bool python = kind == HostKind::python;
  std::string_view stack = event.inside(Key::call_stack);
  if (stack.empty()) stack = event.inside(Key::module_hierarchy);
  host.external_id.push_back(python ? kNoId : id_of(event, Key::external_id));
  std::int64_t sequence = python ? kNoId : id_of(event, Key::sequence);
  host.sequence.push_back(sequence < 0 ? kNoId : sequence);
  host.inputs.push_back(python ? kNone : inputs_of(event));
  host.stack.push_back(python || stack.empty() ? kNone : trace_.texts->intern_raw(stack));
  host.collective.push_back(!python && event.has(Key::collective) ? collective_of(event) : kNone);
  // Autograd numbers threads from 1: this is the thread on which the forward of a backward operator
  // ran. 0 means that the operator is not a backward.
  host.backward.push_back(!python && optional_id(event, Key::forward_thread).value_or(0) > 0);
}

// Joins dims|types|concrete, which parse_inputs() takes apart.
std::uint32_t TraceBuilder::inputs_of(const EventText& event) {
  if (!event.has(Key::input_dims) && !event.has(Key::input_types)) return kNone;
  scratch_.clear();
  append_printable(scratch_, event.value(Key::input_dims));
  scratch_ += '|';
  append_printable(scratch_, event.value(Key::input_types));
  scratch_ += '|';
  append_printable(scratch_, event.value(Key::concrete_inputs));
  return trace_.texts->intern(scratch_);
}

std::uint32_t TraceBuilder::collective_of(const EventText& event) {
  auto text_of = [&](Key key) {
    return event.has(key) ? trace_.texts->intern_raw(event.inside(key)) : kNone;
  };
  if (trace_.collectives.size() >= kMostBuiltCollectives) return kNone;
  trace_.collectives.push_back({.name = text_of(Key::collective),
                                .group = text_of(Key::group),
                                .ranks = text_of(Key::ranks),
                                .dtype = text_of(Key::dtype),
                                .elements_in = optional_id(event, Key::elements_in),
                                .elements_out = optional_id(event, Key::elements_out),
                                .group_size = optional_id(event, Key::group_size),
                                .sequence = optional_id(event, Key::collective_sequence)});
  return static_cast<std::uint32_t>(trace_.collectives.size() - 1);
}

void TraceBuilder::flow_event(const EventText& event, Category category) {
  // Almost every trace has correlation ids, which say the same as the arrows.
  constexpr std::size_t kEnoughToKnow = 1000;
  bool launch = category == Category::launch_flow;
  if (launch && !device_without_correlation_ && trace_.device.size() > kEnoughToKnow) return;
  std::optional<std::int64_t> time_ns = parse_ns(event.value(Key::ts));
  std::optional<std::int64_t> id = parse_id(event.value(Key::id));
  if (!time_ns || !id) return;
  // The head of an arrow follows the device event that it points to. Other arrows point to the
  // host.
  bool start = event.inside(Key::ph) == "s";
  std::uint32_t where = launch && !start ? lane_of(event, false) : thread_of(event);
  Column<FlowEnd>& flows = launch ? unlinked_.launch_flows : unlinked_.backward_flows;
  if (where == kNone || flows.size() >= kMostRows) return;
  flows.push_back({.id = *id, .time_ns = *time_ns, .where = where, .start = start});
}

}  // namespace mfu
