#include "mfu/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/yaml.h"
#include "monitor/config_keys.h"
#include "monitor/metrics_endpoint.h"

namespace mfu {

namespace {

bool is_root(std::string_view key) {
  return key == "monitoring" || key == "monitor";
}

const ConfigKey* find_key(std::string_view path) {
  for (const ConfigKey& key : config_keys()) {
    if (std::find(key.paths.begin(), key.paths.end(), path) != key.paths.end()) return &key;
  }
  return nullptr;
}

bool is_section(std::string_view path) {
  for (const ConfigKey& key : config_keys()) {
    for (std::string_view known : key.paths) {
      if (known.starts_with(path) && known.substr(path.size()).starts_with('.')) return true;
    }
  }
  return false;
}

// Compares the whole path, then only its last word, to find a setting that is in the wrong section.
std::string suggestion(const std::string& root, std::string_view path) {
  std::vector<std::string> paths, words;
  std::string_view word = path.substr(path.rfind('.') == path.npos ? 0 : path.rfind('.') + 1);
  for (const ConfigKey& key : config_keys()) {
    for (std::string_view known : key.paths) {
      paths.emplace_back(known);
      words.emplace_back(known.substr(known.rfind('.') == known.npos ? 0 : known.rfind('.') + 1));
    }
  }
  std::vector<std::string> near = closest(path, paths, 1);
  if (near.empty()) {
    std::vector<std::string> near_word = closest(word, words, 1);
    for (std::size_t i = 0; i < words.size() && !near_word.empty() && near.empty(); ++i) {
      if (words[i] == near_word[0]) near = {paths[i]};
    }
  }
  if (near.empty()) return "; docs/monitor.md lists them all";
  return fmt::format("; did you mean '{}.{}'?", root, near[0]);
}

class ConfigReader {
 public:
  void read(const YamlNode& document, std::string_view name) {
    begin(name);
    if (document.kind != YamlNode::Kind::map && document.kind != YamlNode::Kind::null) {
      problem(document, "a file of sections was expected");
    }
    for (const auto& [key, value] : document.members) {
      if (is_root(key.text)) {
        read_section(key.text, "", value);
      } else if (edit_distance(key.text, "monitoring") <= 2 ||
                 edit_distance(key.text, "monitor") <= 1) {
        problem(key, fmt::format("there is no section '{}'; did you mean 'monitoring'?",
                                 printable(key.text)));
      }
    }
  }

  void read(const std::vector<GivenSetting>& given, std::string_view name) {
    begin(name);
    for (const GivenSetting& each : given) {
      YamlNode value{
          .kind = YamlNode::Kind::scalar, .line = 0, .text = each.value, .quoted = each.words};
      if (const ConfigKey* known = find_key(each.key)) {
        read_setting("monitoring." + each.key, *known, value);
      } else {
        unknown(value, "monitoring", each.key);
      }
    }
  }

  void problem(const std::string& what) { reading_.problems.push_back(what); }

  ConfigReading finished() {
    reading_.config = draft_.finished();
    for (std::size_t i = 0; i < reading_.settings.size(); ++i) {
      reading_.settings[i].meaning = keys_[i]->meaning(reading_.config);
    }
    return std::move(reading_);
  }

 private:
  void begin(std::string_view name) {
    name_ = name;
    earlier_ = keys_.size();
  }

  void problem(const YamlNode& at, std::string_view what) {
    problem(fmt::format("{}: {}", at.line == 0 ? std::string(name_) : place_of(at, name_), what));
  }

  void unknown(const YamlNode& at, const std::string& root, const std::string& path) {
    problem(at, is_section(path)
                    ? fmt::format("'{}.{}' is a section: its settings go below it", root, path)
                    : fmt::format("there is no setting '{}.{}'{}", root, printable(path),
                                  suggestion(root, path)));
  }

  void read_section(const std::string& root, const std::string& section, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) return;
    if (node.kind != YamlNode::Kind::map) {
      problem(node, fmt::format("'{}{}{}' is a section: its settings go below it, one per line",
                                root, section.empty() ? "" : ".", section));
      return;
    }
    for (const auto& [key, value] : node.members) {
      std::string path = section.empty() ? key.text : section + "." + key.text;
      if (const ConfigKey* known = find_key(path)) {
        read_setting(root + "." + path, *known, value);
      } else if (is_section(path)) {
        read_section(root, path, value);
      } else {
        unknown(key, root, path);
      }
    }
  }

  void read_setting(const std::string& path, const ConfigKey& key, const YamlNode& value) {
    if (value.kind == YamlNode::Kind::null) return;
    if (value.kind != YamlNode::Kind::scalar) {
      problem(value, fmt::format("'{}' takes one value", path));
      return;
    }
    auto before = std::find(keys_.begin(), keys_.end(), &key);
    if (before != keys_.end()) {
      auto place = static_cast<std::size_t>(before - keys_.begin());
      const ConfigSetting& first = reading_.settings[place];
      if (first.value != value.text && place >= earlier_) {
        problem(value,
                fmt::format("'{}' is {} here and {} in line {} ('{}'): keep one", path,
                            printable(value.text), printable(first.value), first.line, first.key));
      }
      return;
    }
    Result<void> set = key.set(draft_, value);
    if (!set.has_value()) {
      problem(value, fmt::format("{}: {}", path, set.error().message));
      return;
    }
    keys_.push_back(&key);
    reading_.settings.push_back(
        {.key = path, .value = value.text, .meaning = "", .line = value.line});
  }

  std::string_view name_;
  std::size_t earlier_ = 0;  // number of settings from earlier sources; those win
  ConfigDraft draft_;
  ConfigReading reading_;
  std::vector<const ConfigKey*> keys_;  // of reading_.settings
};

}  // namespace

Result<ConfigReading> read_monitor_config(std::string_view text, std::string_view name) {
  YamlNode document = MFU_TRY(parse_yaml(text, name));
  ConfigReader reader;
  reader.read(document, name);
  return reader.finished();
}

ConfigReading read_monitor_config(std::span<const ConfigSource> sources) {
  ConfigReader reader;
  for (const ConfigSource& source : sources) {
    reader.read(source.given, source.name);
    Result<YamlNode> document = parse_yaml(source.text, source.name);
    if (document.has_value()) {
      reader.read(*document, source.name);
    } else {
      reader.problem(document.error().message + "; its settings are left at their defaults");
    }
  }
  return reader.finished();
}

Result<ConfigSource> open_monitor_config(const std::string& path) {
  Result<std::string> text = read_named_file(path, 1u << 20);
  if (text.has_value()) return ConfigSource{.name = path, .text = std::move(text).value()};
  if (text.error().code != ErrorCode::unsupported) return Failure{text.error()};
  return fail(ErrorCode::unsupported,
              fmt::format("{} is larger than 1 MB: that is no file of settings", path));
}

Result<MonitorConfig> parse_monitor_config(std::string_view text, std::string_view name) {
  ConfigReading reading = MFU_TRY(read_monitor_config(text, name));
  if (reading.problems.empty()) return reading.config;
  return fail(ErrorCode::malformed, join(reading.problems, "\n"));
}

MonitorConfig of_rank(MonitorConfig config, std::uint32_t rank) {
  if (rank == 0) return config;
  auto part = [rank](std::string& path) {
    if (path.empty()) return;
    std::string end = std::filesystem::path(path).extension().string();
    path = fmt::format("{}.rank{}{}", path.substr(0, path.size() - end.size()), rank, end);
  };
  part(config.log_file);
  part(config.jsonl);
  part(config.csv);
  // Ranks use different ports anyway.
  if (!parse_metrics_address(config.prometheus)) part(config.prometheus);
  if (!config.tensorboard.empty()) config.tensorboard += fmt::format("/rank{}", rank);
  config.console = false;
  return config;
}

std::string to_json(const ConfigReading& reading) {
  JsonWriter json;
  json.begin_object().member("schema", "mfu.config_check/1");
  json.member("good", reading.problems.empty());
  json.key("settings").begin_array();
  for (const ConfigSetting& setting : reading.settings) {
    json.begin_object();
    json.member("key", setting.key).member("value", setting.value);
    json.member("line", static_cast<std::uint64_t>(setting.line));
    json.member("meaning", setting.meaning);
    json.end_object();
  }
  json.end_array().strings("problems", reading.problems);
  json.end_object();
  return json.text();
}

bool has_monitor_settings(std::string_view text) {
  Result<YamlNode> document = parse_yaml(text, "");
  if (!document.has_value()) return false;
  for (const auto& [key, value] : document->members) {
    if (is_root(key.text)) return true;
  }
  return false;
}

}  // namespace mfu
