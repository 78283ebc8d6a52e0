#include "base/settings.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"

namespace mfu {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string place(const std::string& path, const YAML::Mark& mark) {
  return fmt::format("{}:{}:{}", path, mark.line + 1, mark.column + 1);
}

Failure unknown_key(const std::vector<SettingKey>& keys, const std::string& key,
                    const std::string& where) {
  std::vector<std::string> names;
  for (const SettingKey& known : keys) names.push_back(known.key);
  std::vector<std::string> near = closest(key, names, 1);
  return fail(ErrorCode::malformed,
              fmt::format("{}: there is no setting '{}'{}", where, printable(key),
                          near.empty() ? "; mfu config show lists them all"
                                       : fmt::format("; did you mean '{}'?", near[0])));
}

// The settings in the file. yaml-cpp throws exceptions; they are caught here.
Result<std::map<std::string, Setting>> read_settings(const std::vector<SettingKey>& keys,
                                                     const std::string& path) {
  std::map<std::string, Setting> found;
  Result<std::string> text = read_named_file(path, 1u << 20);
  if (!text.has_value() && text.error().code == ErrorCode::not_found) return found;
  if (!text.has_value()) return Failure{text.error()};
  try {
    YAML::Node document = YAML::Load(*text);
    if (document.IsNull()) return found;
    if (!document.IsMap()) {
      return fail(ErrorCode::malformed, fmt::format("{}: `key: value` lines were expected",
                                                    place(path, document.Mark())));
    }
    for (const auto& entry : document) {
      std::string key = entry.first.Scalar();
      std::string where = place(path, entry.first.Mark());
      bool known = false;
      for (const SettingKey& wanted : keys) known = known || wanted.key == key;
      if (!known) return unknown_key(keys, key, where);
      if (!entry.second.IsScalar() && !entry.second.IsNull()) {
        return fail(ErrorCode::malformed,
                    fmt::format("{}: '{}' takes one value", place(path, entry.second.Mark()), key));
      }
      if (entry.second.IsScalar()) {
        found[key] = {entry.second.Scalar(),
                      fmt::format("file {}:{}", path, entry.first.Mark().line + 1)};
      }
    }
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: not YAML: {}", place(path, problem.mark), problem.msg));
  }
  return found;
}

std::string under_home(const char* variable, const char* home_folder) {
  std::string base = environment(variable);
  if (!base.empty()) return base + "/mfu";
  return environment("HOME") + "/" + home_folder + "/mfu";
}

}  // namespace

Result<Settings> Settings::resolve(const std::vector<SettingKey>& keys,
                                   const std::map<std::string, std::string>& flags,
                                   const std::string& path) {
  std::map<std::string, Setting> file = MFU_TRY(read_settings(keys, path));
  Settings settings;
  for (const SettingKey& key : keys) {
    Setting& setting = settings.settings_[key.key];
    setting = {key.fallback, "default"};
    if (auto found = file.find(key.key); found != file.end()) setting = found->second;
    if (std::string value = environment(key.environment.c_str()); !value.empty()) {
      setting = {value, "environment " + key.environment};
    }
    if (auto flag = flags.find(key.key); flag != flags.end()) setting = {flag->second, "flag"};
  }
  return settings;
}

const Setting& Settings::setting(std::string_view key) const {
  auto found = settings_.find(key);
  MFU_ASSERT(found != settings_.end());
  return found->second;
}

std::string settings_path() {
  std::string named = environment("MFU_CONFIG");
  return named.empty() ? under_home("XDG_CONFIG_HOME", ".config") + "/config.yaml" : named;
}

std::string cache_directory() {
  std::string named = environment("MFU_CACHE_DIR");
  return named.empty() ? under_home("XDG_CACHE_HOME", ".cache") : named;
}

}  // namespace mfu
