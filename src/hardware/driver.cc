#include "hardware/driver.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/process.h"
#include "base/text.h"

namespace mfu {

namespace {

constexpr std::chrono::milliseconds kPatience(1800);
constexpr std::size_t kMostDevices = 1024;

std::vector<std::string> candidates(const Driver& driver) {
  const char* named = std::getenv(driver.variable);
  if (named != nullptr && *named != '\0') return {named};
  return driver.libraries;
}

std::string asked_in_child(const Driver& driver) {
  JsonWriter answer;
  answer.begin_object();
  for (const std::string& name : candidates(driver)) {
    Library library(name);
    if (!library.open()) continue;
    answer.member("library", name);
    driver.ask(library, answer);
    break;
  }
  return answer.end_object().text();
}

std::string name_in(const Json& object, std::string_view name) {
  return printable(trim(object.text_at(name)));
}

std::optional<double> known_number(const Json& object, std::string_view name) {
  std::optional<double> number = object.number_at(name);
  return number && *number > 0 ? number : std::nullopt;  // a driver's 0 is "not known"
}

FoundDevice device_of(const Json& entry, const Driver& driver) {
  FoundDevice found;
  found.driver_name = name_in(entry, "name");
  found.source = driver.name;
  found.index = static_cast<std::uint32_t>(known_number(entry, "index").value_or(0));
  found.uuid = name_in(entry, "uuid");
  found.pci = name_in(entry, "pci");
  if (auto bytes = known_number(entry, "memory_bytes"); bytes && *bytes < 1e18) {
    found.memory = Bytes{static_cast<std::uint64_t>(*bytes)};
  }
  found.clock_hz = known_number(entry, "clock_hz");
  found.clock_most_hz = known_number(entry, "clock_most_hz");
  found.power_limit_w = known_number(entry, "power_limit_w");
  found.partition = name_in(entry, "partition");
  if (auto slices = known_number(entry, "guessed_slices")) {
    double megabytes = known_number(entry, "guessed_megabytes").value_or(0);
    found.notes.push_back({"profile_guessed",
                           {{"profile", found.partition},
                            {"slices", static_cast<std::int64_t>(*slices)},
                            {"megabytes", static_cast<std::int64_t>(std::min(megabytes, 1e15))}}});
  }
  return found;
}

DriverAnswer failed(const Driver& driver, std::string finding, std::string remedy) {
  return {{driver.name, false, std::move(finding), std::move(remedy)}, {}};
}

DriverAnswer understood(const Driver& driver, const ProcessEnd& end, Diagnostics& diagnostics) {
  Result<Json> answer = parse_json(end.output, driver.name);
  if (!end.good() || !answer.has_value()) {
    std::string finding =
        fmt::format("the {} library {}", driver.name,
                    end.good() ? "gave an answer that makes no sense" : end.describe());
    diagnostics.warn(fmt::format("{}; its devices are left out. mfu doctor says more.", finding));
    return failed(driver, finding, "check the driver: nvidia-smi or amd-smi should answer at once");
  }
  if (answer->find("library") == nullptr) {
    return failed(driver, fmt::format("{} is not there", candidates(driver)[0]), driver.remedy);
  }
  if (std::string problem = name_in(*answer, "problem"); !problem.empty()) {
    diagnostics.warn(fmt::format("{}: {}", driver.name, problem));
    return failed(driver, problem,
                  "check that the kernel module is loaded and that its version is the library's");
  }
  DriverAnswer found;
  if (const Json* devices = answer->find("devices")) {
    for (const Json& entry : devices->elements()) {
      if (found.devices.size() < kMostDevices) found.devices.push_back(device_of(entry, driver));
    }
  }
  std::string version = name_in(*answer, "driver");
  found.probe = {
      driver.name, true,
      fmt::format("{} device{}{}{}", found.devices.size(), found.devices.size() == 1 ? "" : "s",
                  version.empty() ? "" : ", driver ", version),
      found.devices.empty() ? "the library answers but has no device: is one fitted, and "
                              "visible in this container?"
                            : ""};
  return found;
}

}  // namespace

std::vector<DriverAnswer> ask_drivers(const std::vector<Driver>& drivers,
                                      Diagnostics& diagnostics) {
  std::vector<std::unique_ptr<IsolatedWork>> under_way;
  for (const Driver& driver : drivers) {
    under_way.push_back(
        std::make_unique<IsolatedWork>([&driver] { return asked_in_child(driver); }, kPatience));
  }
  std::vector<DriverAnswer> answers;
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    answers.push_back(understood(drivers[i], under_way[i]->finish(), diagnostics));
  }
  return answers;
}

}  // namespace mfu
