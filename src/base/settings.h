// Settings, and where each comes from. A flag wins over the environment, the environment over the
// file, and the file over the default. The caller names the keys; nothing here knows what they
// mean.
//
//   std::vector<mfu::SettingKey> keys = {{"color", "MFU_COLOR", "auto", "auto, always or never"}};
//   auto settings = mfu::Settings::resolve(keys, {{"color", "never"}}, mfu::settings_path());
//   settings->value("color");  // "never", origin "flag"
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/result.h"

namespace mfu {

struct SettingKey {
  std::string key;          // in the file and as --key
  std::string environment;  // MFU_KEY
  std::string fallback;     // empty: unset
  std::string meaning;      // one line
};

struct Setting {
  std::string value;   // empty: unset
  std::string origin;  // "flag", "environment MFU_COLOR", "file PATH:LINE" or "default"
};

class Settings {
 public:
  // A missing file is no error. Fails with `malformed`, line and column if the file is not `key:
  // value` lines of YAML or has an unknown key.
  static Result<Settings> resolve(const std::vector<SettingKey>& keys,
                                  const std::map<std::string, std::string>& flags,
                                  const std::string& path);

  // Contract: `key` was among the keys asked for.
  const Setting& setting(std::string_view key) const;
  const std::string& value(std::string_view key) const { return setting(key).value; }

 private:
  std::map<std::string, Setting, std::less<>> settings_;
};

// $MFU_CONFIG, else $XDG_CONFIG_HOME/mfu/config.yaml, else ~/.config/mfu/config.yaml.
std::string settings_path();

// Where results are kept between runs: $MFU_CACHE_DIR, else $XDG_CACHE_HOME/mfu, else ~/.cache/mfu.
std::string cache_directory();

}  // namespace mfu
