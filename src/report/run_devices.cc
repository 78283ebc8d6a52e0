#include "report/run_devices.h"

#include <algorithm>
#include <charconv>

namespace mfu {

namespace {

using std::chrono::nanoseconds;

FlopCount hardware_of(const FlopByType& flop) {
  FlopCount sum;
  for (const auto& [type, each] : flop) sum += each.hardware_flop;
  return sum;
}

std::string place_of(const ProcessRecord& process) {
  const std::string* said = process.fact("device");
  if (said == nullptr || said->empty() || said->starts_with("cpu")) return "cpu";
  return said->substr(0, said->find(' '));
}

FlopByType totals_of(const ProcessRecord& process) {
  FlopByType flop;
  for (const OperatorTotal& each : process.totals) {
    if (each.reason.empty()) add(flop[each.type], each.flop);
  }
  return flop;
}

void take_off(FlopCount& from, FlopCount less) {
  from = from > less ? from - less : FlopCount(0);
}

// What the process counted beyond what its lines hold.
FlopByType rest_of(const ProcessRecord& process, const std::vector<DeviceUse>& uses) {
  FlopByType rest = totals_of(process);
  for (const DeviceUse& use : uses) {
    for (const auto& [type, flop] : use.flop) {
      CountedFlop& left = rest[type];
      take_off(left.model_flop, flop.model_flop);
      take_off(left.hardware_flop, flop.hardware_flop);
      take_off(left.recomputed_flop, flop.recomputed_flop);
    }
  }
  return rest;
}

std::string name_of(const ProcessRecord& process, const std::string& place) {
  if (place == "cpu") return "cpu";
  if (const std::string* said = process.fact("device_name@" + place)) return *said;
  const std::string* first = process.fact("device");
  if (first != nullptr && first->starts_with(place + " ")) return first->substr(place.size() + 1);
  return place;
}

DeviceTraits traits_of(const ProcessRecord& process, const DeviceUse& use) {
  DeviceTraits traits{.name = use.name};
  auto fact = [&](const std::string& key) {
    const std::string* said = process.fact(key + "@" + use.place);
    return said == nullptr && place_of(process) == use.place ? process.fact(key) : said;
  };
  auto number = [&](const std::string& key) -> std::optional<std::uint64_t> {
    const std::string* text = fact(key);
    std::uint64_t value = 0;
    if (text == nullptr) return std::nullopt;
    auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
    return value;
  };
  if (const std::string* said = fact("device_architecture")) traits.architecture = *said;
  if (auto units = number("device_units"); units && *units > 0 && *units < 1'000'000) {
    traits.units = static_cast<std::uint32_t>(*units);
  }
  if (auto memory = number("device_memory")) traits.memory = Bytes{*memory};
  return traits;
}

std::string key_of(const ProcessRecord& process, const DeviceUse& use) {
  if (!use.is_accelerator()) return process.host;
  if (!use.identity.empty()) return use.identity;
  const std::string* uuid = process.fact("device_uuid");
  if (uuid != nullptr && place_of(process) == use.place) return *uuid;
  return process.host + "#" + std::to_string(process.pid) + "#" + use.place;
}

CountedFlop scaled(const CountedFlop& flop, const CountedFlop& part, const CountedFlop& whole) {
  auto share = [](FlopCount count, FlopCount of, FlopCount all) {
    if (of == all) return count;
    double fraction = all > FlopCount(0) ? of.to_double() / all.to_double() : 0;
    return FlopCount::from_wide(static_cast<Uint128>(count.to_double() * fraction));
  };
  return {share(flop.model_flop, part.model_flop, whole.model_flop),
          share(flop.hardware_flop, part.hardware_flop, whole.hardware_flop),
          share(flop.recomputed_flop, part.recomputed_flop, whole.recomputed_flop)};
}

std::vector<TypedWork> work_of(const FlopByType& flop, const PeakQuestion& question,
                               const Tf32& tf32) {
  std::vector<TypedWork> work;
  const auto main = std::max_element(flop.begin(), flop.end(), [](const auto& a, const auto& b) {
    return a.second.model_flop < b.second.model_flop;
  });
  for (const auto& [type, count] : flop) {
    if (count.hardware_flop == FlopCount(0) && count.model_flop == FlopCount(0)) continue;
    // A step has room for a few types. The rest is compared with the peak of the most used type.
    const std::string& against = type == "other" ? main->first : type;
    work.push_back(
        {count.model_flop, count.hardware_flop, choose_peak(question, against, tf32).rate});
  }
  return work;
}

std::optional<Utilization> complete(const UtilizationInput& input) {
  Result<Utilization> used = utilization_of(input);
  if (!used.has_value() || !used->complete) return std::nullopt;
  return std::move(used).value();
}

std::optional<std::uint64_t> index_of(const std::string& place) {
  std::size_t colon = place.find(':');
  std::uint64_t index = 0;
  if (colon == std::string::npos) return std::nullopt;
  const char *first = place.data() + colon + 1, *last = place.data() + place.size();
  auto [end, error] = std::from_chars(first, last, index);
  return error == std::errc() && end == last ? std::optional(index) : std::nullopt;
}

// The uses of every device, summed over all processes.
std::map<std::string, DeviceUse> all_uses(const RunRecord& record) {
  std::map<std::string, DeviceUse> all;
  for (const ProcessRecord& process : record.processes) {
    if (process.totals.empty()) continue;
    for (DeviceUse& use : uses_of(process)) {
      auto [there, is_new] = all.try_emplace(use.key, use);
      if (is_new) continue;
      for (const auto& [type, flop] : use.flop) add(there->second.flop[type], flop);
    }
  }
  return all;
}

}  // namespace

void add(CountedFlop& to, const CountedFlop& more) {
  to.model_flop += more.model_flop;
  to.hardware_flop += more.hardware_flop;
  to.recomputed_flop += more.recomputed_flop;
}

std::vector<DeviceUse> uses_of(const ProcessRecord& process) {
  std::vector<DeviceUse> uses;
  for (const PhaseTotal& phase : process.phases) {
    for (const PhaseTotal::Line& line : phase.lines) {
      if (line.device.empty()) continue;
      auto same = [&](const DeviceUse& each) { return each.place == line.device; };
      auto found = std::find_if(uses.begin(), uses.end(), same);
      if (found == uses.end()) found = uses.insert(found, {.place = line.device});
      if (!line.identity.empty()) found->identity = line.identity;
      add(found->flop[line.type], line.flop);
    }
  }
  if (uses.empty()) uses.push_back({.place = place_of(process)});
  std::stable_sort(uses.begin(), uses.end(), [](const DeviceUse& a, const DeviceUse& b) {
    if (a.is_accelerator() != b.is_accelerator()) return a.is_accelerator();
    return hardware_of(a.flop) > hardware_of(b.flop);
  });
  for (const auto& [type, flop] : rest_of(process, uses)) {
    if (flop.hardware_flop > FlopCount(0)) add(uses.front().flop[type], flop);
  }
  for (DeviceUse& use : uses) {
    use.name = name_of(process, use.place);
    use.traits = traits_of(process, use);
    use.key = key_of(process, use);
  }
  return uses;
}

bool uses_accelerators(const RunRecord& record) {
  return std::any_of(record.processes.begin(), record.processes.end(),
                     [](const auto& each) { return uses_of(each).front().is_accelerator(); });
}

bool times_by_device(const ProcessRecord& process) {
  return std::any_of(process.steps.begin(), process.steps.end(),
                     [](const Step& each) { return each.device_time.has_value(); });
}

void withhold_host_times(const RunRecord& record, RunReport& report) {
  report.asynchronous = uses_accelerators(record);
  if (!report.asynchronous) return;
  bool timed = true, steps = false;
  for (const ProcessRecord& each : record.processes) {
    if (each.steps.empty() || !uses_of(each).front().is_accelerator()) continue;
    steps = true;
    timed = timed && times_by_device(each);
  }
  report.device_timed = timed && steps;
  auto withhold = [&](std::optional<Fraction>(&phase)[kStepPhases]) {
    for (std::size_t i = 0; i < kStepPhases; ++i) {
      auto part = static_cast<StepPhase>(i);
      bool seen = part == StepPhase::data_wait || part == StepPhase::optimizer;
      if (!seen || !report.device_timed) phase[i].reset();
    }
  };
  withhold(report.phase);
  for (RunRankReport& each : report.by_rank) {
    withhold(each.phase);
    each.own.reset();
  }
  report.notes.push_back({report.device_timed ? "timed_by_device" : "timed_by_host", {}});
}

std::map<std::string, FlopByType> shared_out(const FlopByType& flop,
                                             const std::vector<DeviceUse>& uses) {
  std::map<std::string, FlopByType> shared;
  for (const auto& [type, count] : flop) {
    CountedFlop whole;
    for (const DeviceUse& use : uses) {
      if (auto part = use.flop.find(type); part != use.flop.end()) add(whole, part->second);
    }
    if (whole.hardware_flop == FlopCount(0)) {
      shared[uses.front().key][type] = count;
      continue;
    }
    for (const DeviceUse& use : uses) {
      auto part = use.flop.find(type);
      if (part != use.flop.end()) add(shared[use.key][type], scaled(count, part->second, whole));
    }
  }
  return shared;
}

PeakQuestion peak_question(const RunQuestion& question, const std::string& key) {
  PeakQuestion asked = peak_question(question);
  for (const UsedDevice& each : question.device.used) {
    if (each.key != key) continue;
    asked.device = each.device ? &*each.device : nullptr;
    if (!each.counts) asked.given.reset();  // the given peak is that of the accelerators
  }
  return asked;
}

std::optional<Utilization> utilization_of_devices(const RunRecord& record,
                                                  const RunQuestion& question,
                                                  const KeptByDevice& kept) {
  bool accelerators = uses_accelerators(record);
  Tf32 tf32 = tf32_of(record);
  std::map<std::string, DeviceUse> uses = all_uses(record);
  UtilizationInput input;
  for (const auto& [key, device] : kept) {
    auto use = uses.find(key);
    if (accelerators && (use == uses.end() || !use->second.is_accelerator())) continue;
    for (TypedWork& each : work_of(device.flop, peak_question(question, key), tf32)) {
      input.work.push_back(each);
    }
    input.duration += union_of(device.intervals);
  }
  return complete(input);
}

std::optional<Utilization> utilization_of_wall(const RunRecord& record, const RunQuestion& question,
                                               nanoseconds wall) {
  std::map<std::string, DeviceUse> uses = all_uses(record);
  bool accelerators = uses_accelerators(record);
  UtilizationInput input{.duration = wall, .devices = 0};
  for (const auto& [key, use] : uses) {
    if (accelerators && !use.is_accelerator()) continue;
    for (TypedWork& each : work_of(use.flop, peak_question(question, key), tf32_of(record))) {
      input.work.push_back(each);
    }
    ++input.devices;
  }
  return complete(input);
}

void add_devices(const RunRecord& record, const RunQuestion& question, const KeptByDevice& kept,
                 RunReport& report) {
  Tf32 tf32 = tf32_of(record);
  for (const auto& [key, use] : all_uses(record)) {
    RunDeviceReport device;
    device.device = use.name;
    device.index = index_of(use.place);
    device.identity = use.identity;
    PeakQuestion asked = peak_question(question, key);
    std::string main;
    for (const auto& [type, flop] : use.flop) {
      add(device.flop, flop);
      if (main.empty() || use.flop.at(main).model_flop < flop.model_flop) main = type;
    }
    if (asked.device != nullptr && use.place == "cpu") device.device = asked.device->name;
    if (!main.empty()) device.peak = choose_peak(asked, main, tf32).rate;
    if (auto found = kept.find(key); found != kept.end()) {
      auto used = complete({.work = work_of(found->second.flop, asked, tf32),
                            .duration = union_of(found->second.intervals)});
      if (used) device.mfu = used->mfu;
    }
    report.by_device.push_back(std::move(device));
  }
}

}  // namespace mfu
