// The table of the monitor's settings: their names, how each is set, and what it means.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml.h"
#include "mfu/monitor.h"

namespace mfu {

// A config while it is being read. It also holds the settings of modes that may not be chosen.
struct ConfigDraft {
  MonitorConfig config;
  std::string mode = "smart";
  SmartMode smart{};
  HybridMode hybrid{};
  std::optional<std::uint64_t> profile_every{}, measure_every{};

  MonitorConfig finished() const;
};

struct ConfigKey {
  std::vector<std::string_view> paths;  // inside `monitoring` or `monitor`; the first is preferred
  // Reads the scalar into the draft. If it fails, the message says what was expected.
  std::function<Result<void>(ConfigDraft&, const YamlNode&)> set;
  std::function<std::string(const MonitorConfig&)> meaning;
};

std::span<const ConfigKey> config_keys();

}  // namespace mfu
