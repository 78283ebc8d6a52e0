// Any bytes, taken as a trace, are read and linked, and every question is asked of them. Every row
// must point at a valid row.
#include <cstdint>
#include <vector>

#include "trace/collective.h"
#include "trace/trace.h"

namespace {

void check(bool holds) {
  if (!holds) __builtin_trap();
}

void check_host(const mfu::Trace& trace) {
  const mfu::HostEvents& host = trace.host;
  for (std::uint32_t i = 0; i < host.size(); ++i) {
    check(host.duration_ns[i] >= 0 && host.thread[i] < trace.threads.size());
    check(host.parent[i] == mfu::kNone || host.parent[i] < i);
    check(host.forward[i] == mfu::kNone || host.forward[i] < host.size());
    check(host.collective[i] == mfu::kNone || host.collective[i] < trace.collectives.size());
    check(host.name[i] < trace.text_count());
    if (host.inputs[i] != mfu::kNone) (void)mfu::parse_inputs(trace.text(host.inputs[i]));
  }
  for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
    check(trace.launches.host[i] == mfu::kNone || trace.launches.host[i] < host.size());
  }
}

void check_device(const mfu::Trace& trace) {
  const mfu::DeviceEvents& device = trace.device;
  for (std::size_t i = 0; i < device.size(); ++i) {
    check(device.duration_ns[i] >= 0 && device.lane[i] < trace.lanes.size());
    check(i == 0 || device.start_ns[i - 1] <= device.start_ns[i]);
    check(device.launch[i] == mfu::kNone || device.launch[i] < trace.launches.size());
    check(device.host[i] == mfu::kNone || device.host[i] < trace.host.size());
    check(device.collective[i] == mfu::kNone || device.collective[i] < trace.collectives.size());
    std::int64_t clipped = trace.clipped_duration_ns(i);
    check(clipped >= 0 && clipped <= device.duration_ns[i]);
    (void)trace.outermost_operator(device.host[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto trace = mfu::read_trace_bytes(bytes, "fuzz.json");
  if (!trace.has_value()) return 0;
  check_host(*trace);
  check_device(*trace);
  auto again = mfu::read_trace_bytes(bytes, "fuzz.json");
  check(again.has_value() && again->device.size() == trace->device.size());
  std::vector<mfu::Trace> traces;
  traces.push_back(std::move(trace).value());
  traces.push_back(std::move(again).value());
  (void)mfu::match_collectives(traces);
  return 0;
}
