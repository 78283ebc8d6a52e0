// The table of the monitor's settings: spellings, what sets each, and what it means.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml.h"
#include "mfu/monitor.h"

namespace mfu {

// A config in the making: settings of modes that may turn out not to be chosen stand beside it.
struct ConfigDraft {
  MonitorConfig config;
  std::string mode = "smart";
  SmartMode smart{};
  HybridMode hybrid{};
  std::optional<std::uint64_t> profile_every{}, measure_every{};

  MonitorConfig finished() const;
};

struct ConfigKey {
  std::vector<std::string_view> paths;  // below `monitoring` or `monitor`; the first is ours
  // Reads the scalar into the draft; a failure says what was expected.
  std::function<Result<void>(ConfigDraft&, const YamlNode&)> set;
  std::function<std::string(const MonitorConfig&)> meaning;
};

std::span<const ConfigKey> config_keys();

}  // namespace mfu
