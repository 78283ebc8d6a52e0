// What every command shares: global options, help, error messages, exit status, colour, settings.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/suggest.h"
#include "sinks/table.h"

namespace mfu::app {

// Exit statuses: 0 success, 1 threshold not met, 2 wrong use or bad input, 70 a bug in mfu.
constexpr int kGood = 0;
constexpr int kThreshold = 1;
constexpr int kMisuse = 2;
constexpr int kBug = 70;

struct Example {
  std::string command;
  std::string meaning;
};

// What --help, the man page and completion all say.
struct CommandText {
  std::string name;
  std::string summary;      // one line: the question that the command answers
  std::string description;  // paragraphs, separated by blank lines
  std::vector<Example> examples;
};

class Context;

struct Command {
  CommandText text;
  std::function<void(CLI::App&)> add_options;
  std::function<Result<int>(Context&)> run;
};

// What a command gets when it runs: the settings, the catalogue, and a place for its answer.
class Context {
 public:
  Context(const Settings& settings, std::vector<Command>& commands, CLI::App& root)
      : settings_(settings), commands_(commands), root_(root) {}

  const Settings& settings() const { return settings_; }
  bool json() const { return json_; }
  const TextStyle& style() const { return style_; }
  const std::vector<Command>& commands() const { return commands_; }
  CLI::App& root() const { return root_; }

  void set_output(bool json, const TextStyle& style);
  // The error in a broken settings file, for `mfu doctor` to show. Empty if there is none.
  void set_settings_problem(std::string problem) { settings_problem_ = std::move(problem); }
  const std::string& settings_problem() const { return settings_problem_; }

  // Prints text for people on standard output. With --json the text is wrapped into an object of
  // the schema mfu.text/1.
  void print_text(const std::string& text) const;
  // Prints the answer on standard output. Nothing but the answer may go there.
  void print(const std::string& text) const;
  // Prints a diagnostic on standard error.
  void warn(const std::string& text) const;
  void warn(const Diagnostics& diagnostics) const;

  // The user's catalogue, if there is one, in front of the built-in one. If the user's cannot be
  // read, a warning is printed and the built-in one is used alone.
  const Catalog& catalog();
  // The Python interpreter to use: from --python, else from MFU_PYTHON, else python3.
  std::string python() const;

 private:
  const Settings& settings_;
  std::vector<Command>& commands_;
  CLI::App& root_;
  bool json_ = false;
  TextStyle style_;
  std::string settings_problem_;
  std::optional<Catalog> catalog_;  // both catalogues together, made at the first question
};

// An option that takes a value; `type` is the word for that value in --help.
template <typename T>
CLI::Option* add_value(CLI::App& app, const char* name, const char* type, T& value,
                       const char* meaning) {
  return app.add_option(name, value, meaning)->type_name(type);
}

// An option that takes a whole number above 0. Unchecked, CLI11 would read -1 as 2^64 - 1.
CLI::Validator whole_number();
template <typename T>
CLI::Option* add_count(CLI::App& app, const char* name, T& value, const char* meaning) {
  return add_value(app, name, "N", value, meaning)->check(whole_number());
}

// All settings. Each is also a global option of the same name.
const std::vector<SettingKey>& setting_keys();

// Checks the values themselves. Reading a settings file only checks its form.
Result<void> check_values(const Settings& settings);

class Cli {
 public:
  explicit Cli(std::vector<Command> commands) : commands_(std::move(commands)) {}
  int run(int argc, char** argv);

 private:
  int dispatch(CLI::App& root, int argc, char** argv);
  int execute(CLI::App& root);
  int misuse(const CLI::App& root, const CLI::ParseError& problem) const;
  int report(const Error& error) const;

  std::vector<Command> commands_;
  bool json_ = false;
  std::map<std::string, std::string> flags_;  // settings given as options
};

}  // namespace mfu::app
