// Finds which device events communicate, and what was recorded about it.
#include <numeric>
#include <vector>

#include "trace/link.h"

namespace mfu {
namespace {

constexpr std::string_view kRecord = "record_param_comms";
constexpr std::size_t kMostCollectives = 1u << 20;

// The back end's own annotation, such as "nccl:all_reduce" or "gloo:all_reduce". Older traces have
// nothing else.
std::string_view annotated_collective(std::string_view name) {
  for (std::string_view backend : {"nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:"}) {
    if (name.starts_with(backend)) return name.substr(backend.size());
  }
  return {};
}

std::optional<std::int64_t> elements_of(const std::vector<OperatorInput>& inputs) {
  std::int64_t elements = 0;
  bool any = false;
  for (const OperatorInput& input : inputs) {
    for (const std::vector<std::int64_t>& shape : input.shapes) {
      std::int64_t product = 1;
      for (std::int64_t size : shape) {
        if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
      }
      if (__builtin_add_overflow(elements, product, &elements)) return std::nullopt;
      any = true;
    }
  }
  return any ? std::optional(elements) : std::nullopt;
}

// Gives annotations a row of Trace::collectives if the operator around them has none.
void describe_annotations(Trace& trace) {
  HostEvents& host = trace.host;
  std::vector<std::uint8_t> annotates(trace.text_count());
  for (std::uint32_t text = 0; text < annotates.size(); ++text) {
    annotates[text] = !annotated_collective(trace.text(text)).empty();
  }
  for (std::uint32_t row = 0; row < host.size(); ++row) {
    if (host.collective[row] != kNone) trace.collectives[host.collective[row]].host = row;
    if (host.kind[row] == HostKind::python || host.collective[row] != kNone) continue;
    if (annotates[host.name[row]] == 0 || trace.collectives.size() >= kMostCollectives) continue;
    std::uint32_t parent = host.parent[row];
    if (parent != kNone && host.collective[parent] != kNone) {
      host.collective[row] = host.collective[parent];
      continue;
    }
    std::vector<OperatorInput> inputs = parse_inputs(trace.text(host.inputs[row]));
    Collective collective;
    collective.name = host.name[row];
    collective.elements_in = elements_of(inputs);
    collective.host = row;
    if (!inputs.empty()) collective.dtype = trace.texts->intern(inputs[0].type);
    host.collective[row] = static_cast<std::uint32_t>(trace.collectives.size());
    trace.collectives.push_back(collective);
  }
}

}  // namespace

void link_collectives(Trace& trace) {
  describe_annotations(trace);
  const HostEvents& host = trace.host;
  DeviceEvents& device = trace.device;
  for (std::size_t i = 0; i < device.size(); ++i) {
    if (device.kind[i] != DeviceKind::compute && device.kind[i] != DeviceKind::communication)
      continue;
    std::uint32_t op = trace.enclosing(device.host[i], HostKind::op);
    // A kernel that the collective itself launched, whatever its name is.
    bool direct = op != kNone && trace.text(host.name[op]) == kRecord;
    if (direct) device.kind[i] = DeviceKind::communication;
    if (device.kind[i] != DeviceKind::communication) continue;
    std::uint32_t at = device.host[i];
    while (at != kNone && host.collective[at] == kNone) at = host.parent[at];
    if (at == kNone) continue;
    if (device.collective[i] == kNone) {
      device.collective[i] = host.collective[at];
    } else {
      trace.collectives[device.collective[i]].host = at;
    }
  }
}

}  // namespace mfu
