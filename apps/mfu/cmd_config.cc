#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"

namespace mfu::app {

namespace {

struct ConfigOptions {
  std::string action = "show";
  std::string file;
  bool origin = false;
};

Result<int> show(Context& context, bool origin) {
  std::string path = settings_path();
  if (context.json()) {
    context.print(to_json(setting_keys(), context.settings(), path));
    return kGood;
  }
  std::vector<TableColumn> columns = {{"setting"}, {"value"}};
  if (origin) columns.push_back({"from"});
  columns.push_back({"meaning"});
  Table table(columns);
  for (const SettingKey& key : setting_keys()) {
    const Setting& setting = context.settings().setting(key.key);
    std::vector<std::string> cells = {key.key, setting.value.empty() ? "-" : setting.value};
    if (origin) cells.push_back(setting.origin);
    cells.push_back(key.meaning);
    table.add(std::move(cells));
  }
  context.print(table.text(context.style()) + "\nflag > environment (MFU_COLOR …) > " + path +
                " > default\n");
  return kGood;
}

// Shows what each monitor setting in a training program's YAML means.
Result<int> check_monitor(Context& context, const std::string& file, const std::string& text) {
  ConfigReading reading = MFU_TRY(read_monitor_config(text, file));
  if (!reading.problems.empty()) {
    return fail(ErrorCode::malformed, fmt::format("{}", fmt::join(reading.problems, "\n")));
  }
  if (context.json()) {
    context.print(to_json(reading));
    return kGood;
  }
  // This is no table, because keys are long and each meaning is a sentence.
  std::string shown;
  for (const ConfigSetting& setting : reading.settings) {
    shown += fmt::format("{}: {}\n    {}\n", setting.key, setting.value, setting.meaning);
  }
  context.print(shown + file + ": good");
  return kGood;
}

Result<int> check(Context& context, const std::string& file) {
  if (file.empty())
    return fail(ErrorCode::invalid_argument, "name the file to check: mfu config check FILE");
  ConfigSource source = MFU_TRY(open_monitor_config(file));
  if (has_monitor_settings(source.text)) return check_monitor(context, file, source.text);
  Result<Settings> settings = Settings::resolve(setting_keys(), {}, file);
  if (!settings.has_value()) return Failure{settings.error()};
  MFU_TRY(check_values(*settings));
  context.print(context.json() ? R"({"schema":"mfu.config_check/1","good":true})"
                               : file + ": good");
  return kGood;
}

Result<int> run(Context& context, const ConfigOptions& options) {
  if (options.action == "check") return check(context, options.file);
  if (options.action == "path") {
    context.print_text(settings_path());
    return kGood;
  }
  return show(context, options.origin);
}

}  // namespace

Command config_command() {
  auto options = std::make_shared<ConfigOptions>();
  CommandText text{
      "config",
      "Which settings are in force, and where does each come from?",
      "An option on the command line wins over an environment variable. The environment variable "
      "wins over the settings file, and the file wins over the default. The file is YAML with one "
      "`key: value` per line.\n\n"
      "With check you can also name the YAML of your own training program: its settings below "
      "`monitoring:` or `monitor:` are shown, each with its meaning.",
      {{"mfu config show --origin", "every setting with its value and where it comes from"},
       {"mfu config check my.yaml", "if the file is wrong: exit status 2, with line and column"},
       {"mfu config path", "where the settings file is looked for"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "ACTION", "ACTION", options->action, "What to do")
        ->check(CLI::IsMember({"show", "check", "path"}));
    add_value(app, "FILE", "FILE", options->file, "With check: the file to check");
    app.add_flag("--origin", options->origin, "With show: also say where each value comes from");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
