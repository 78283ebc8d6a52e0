// The manners every command shares: options, help, errors, exit status, colour, settings.
#pragma once

#include <mfu/mfu.h>

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/suggest.h"
#include "sinks/table.h"

namespace mfu::app {

// Exit statuses (STYLE: 0 good, 1 threshold not met, 2 misuse or bad input, 70 a bug of ours).
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
  std::string summary;      // one line, a question it answers
  std::string description;  // paragraphs, apart by blank lines
  std::vector<Example> examples;
};

class Context;

struct Command {
  CommandText text;
  std::function<void(CLI::App&)> add_options;
  std::function<Result<int>(Context&)> run;
};

// What a running command has: settings, the catalogue, and where its answer goes.
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
  // What a broken settings file said, for the doctor; empty: none.
  void set_settings_problem(std::string problem) { settings_problem_ = std::move(problem); }
  const std::string& settings_problem() const { return settings_problem_; }

  // To standard output: the answer, nothing else; with --json, text for people goes out as
  // mfu.text/1.
  void print_text(const std::string& text) const;
  // To standard output: the answer, nothing else.
  void print(const std::string& text) const;
  // To standard error: diagnostics.
  void warn(const std::string& text) const;
  void warn(const Diagnostics& diagnostics) const;

  // The built-in catalogue with the user's before it; a broken one is a warning, and the built-in
  // still serves.
  const Catalog& catalog();
  // The interpreter to measure and probe with: --python, MFU_PYTHON, python3.
  std::string python() const;

 private:
  const Settings& settings_;
  std::vector<Command>& commands_;
  CLI::App& root_;
  bool json_ = false;
  TextStyle style_;
  std::string settings_problem_;
  std::optional<Catalog> catalog_;  // with the user's, once asked for
};

// The settings there are, each a global option of the same name.
const std::vector<SettingKey>& setting_keys();

// What is wrong with a value, beyond what reading it could tell.
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
