// Makes the text of --help, of the man pages and of shell completions, all from one description of
// the commands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli.h"

namespace mfu::app {

// An option as people see it: "--color WHEN" and what it does.
struct OptionText {
  std::string names;  // "-h, --help"
  std::string long_name;
  std::string value;  // "WHEN"; empty: a switch
  std::string meaning;
  std::vector<std::string> choices;
  bool positional = false;
};

// The options of that app alone, without those of its parent. Hidden options are left out.
std::vector<OptionText> options_of(const CLI::App& app);

std::string usage_line(const CommandText& text, const CLI::App& app);
std::string root_help(const std::vector<Command>& commands, const CLI::App& root,
                      const TextStyle& style);
std::string command_help(const CommandText& text, const CLI::App& app, const CLI::App& root,
                         const TextStyle& style);

// Man pages in roff; completions for bash, zsh and fish.
std::string root_manual(const std::vector<Command>& commands, const CLI::App& root);
std::string command_manual(const CommandText& text, const CLI::App& app);
std::string completion_script(const std::string& shell, const std::vector<Command>& commands,
                              const CLI::App& root);

inline constexpr const char* kTagline =
    "how much of its hardware a model uses, where the rest went, what to change";

}  // namespace mfu::app
