#include "help.h"

#include <fmt/format.h>

#include <CLI/Option.hpp>
#include <algorithm>
#include <string_view>

namespace mfu::app {

namespace {

// CLI11 keeps the allowed values of an option in its type name: "WHEN:{auto,always,never}".
std::pair<std::string, std::vector<std::string>> value_and_choices(const CLI::Option& option) {
  std::string type = option.get_type_name();
  std::vector<std::string> choices;
  std::size_t open = type.find(":{");
  if (open == std::string::npos) {
    // CLI11 adds what a check allows after a colon, but a name may have a colon too: HOST:PORT.
    std::size_t colon = std::min(type.rfind(':'), type.size());
    std::string_view check = std::string_view(type).substr(colon);
    bool checked = check == ":POSITIVE" || check.find(" in [") != check.npos;
    return {type.substr(0, checked ? colon : type.size()), choices};
  }
  std::string list = type.substr(open + 2, type.rfind('}') - open - 2);
  std::size_t start = 0;
  while (start <= list.size()) {
    std::size_t end = std::min(list.find(',', start), list.size());
    choices.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return {type.substr(0, open), choices};
}

// Counts code points, because a terminal column holds one of them, not one byte.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0) != 0x80;
  }));
}

std::string option_lines(const std::vector<OptionText>& options, const TextStyle& style) {
  std::string text;
  constexpr std::size_t kIndent = 26;
  for (const OptionText& option : options) {
    std::string left =
        "  " + option.names + (option.value.empty() || option.positional ? "" : " " + option.value);
    std::string right = option.meaning;
    if (!option.choices.empty()) right += fmt::format(" ({})", fmt::join(option.choices, ", "));
    text += inked(left, Ink::cyan, style);
    text += columns_of(left) + 2 > kIndent ? "\n" + std::string(kIndent, ' ')
                                           : std::string(kIndent - columns_of(left), ' ');
    text += wrapped(right, style.width, kIndent) + "\n";
  }
  return text;
}

std::string paragraphs(const std::string& text, const TextStyle& style) {
  std::string whole;
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t end = std::min(text.find("\n\n", start), text.size());
    whole += wrapped(text.substr(start, end - start), style.width, 0) + "\n\n";
    start = end + 2;
  }
  return whole;
}

// Breaks a command that is wider than the terminal so that a shell still takes it: between words,
// outside quotes, with a backslash.
std::string command_lines(const std::string& command, std::size_t width) {
  constexpr std::size_t kIndent = 6;
  std::string text;
  std::size_t column = 2;
  bool quoted = false;
  for (std::size_t start = 0; start < command.size();) {
    std::size_t end = start;
    for (; end < command.size() && (quoted || command[end] != ' '); ++end) {
      if (command[end] == '"') quoted = !quoted;
    }
    if (column + (end - start) + 2 > width && !text.empty()) {
      text += "\\\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    text += command.substr(start, end - start) + (end < command.size() ? " " : "");
    column += end - start + 1;
    start = end + 1;
  }
  return text;
}

std::string heading(std::string_view text, const TextStyle& style) {
  return inked(text, Ink::bold, style) + "\n";
}

}  // namespace

std::vector<OptionText> options_of(const CLI::App& app) {
  std::vector<OptionText> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionText text;
    text.positional = option->get_positional();
    auto [value, choices] = value_and_choices(*option);
    text.value = option->get_items_expected_max() == 0 ? "" : value;
    text.choices = choices;
    text.meaning = option->get_description();
    if (text.positional) text.names = value.empty() ? option->get_name() : value;
    for (const std::string& name : option->get_snames())
      text.names += (text.names.empty() ? "-" : ", -") + name;
    for (const std::string& name : option->get_lnames()) {
      text.names += (text.names.empty() ? "--" : ", --") + name;
      if (text.long_name.empty()) text.long_name = name;
    }
    options.push_back(std::move(text));
  }
  return options;
}

std::string usage_line(const CommandText& text, const CLI::App& app) {
  std::string line = fmt::format("mfu {} [OPTIONS]", text.name);
  for (const OptionText& option : options_of(app)) {
    if (option.positional) line += fmt::format(" [{}]", option.names);
  }
  return line;
}

std::string root_help(const std::vector<Command>& commands, const CLI::App& root,
                      const TextStyle& style) {
  std::string text = fmt::format("{}: {}\n\n", inked("mfu", Ink::bold, style), kTagline);
  text += heading("Usage", style) + "  mfu COMMAND [OPTIONS]\n\n" + heading("Commands", style);
  for (const Command& command : commands) {
    text += "  " + inked(fmt::format("{:<12}", command.text.name), Ink::cyan, style) +
            wrapped(command.text.summary, style.width, 14) + "\n";
  }
  text += "\n" + heading("Options of every command", style) + option_lines(options_of(root), style);
  text += "\nmfu COMMAND --help explains a command, with examples. Start with: mfu demo\n";
  return text;
}

std::string command_help(const CommandText& text, const CLI::App& app, const CLI::App& root,
                         const TextStyle& style) {
  std::string help =
      fmt::format("{}: {}\n\n", inked("mfu " + text.name, Ink::bold, style), text.summary);
  help += heading("Usage", style) + "  " + usage_line(text, app) + "\n\n";
  help += paragraphs(text.description, style);
  if (std::string own = option_lines(options_of(app), style); !own.empty())
    help += heading("Options", style) + own + "\n";
  help += heading("Options of every command", style) + option_lines(options_of(root), style) + "\n";
  help += heading("Examples", style);
  for (const Example& example : text.examples) {
    help += "  " + inked(command_lines(example.command, style.width), Ink::cyan, style) +
            "\n      " + wrapped(example.meaning, style.width, 6) + "\n";
  }
  return help;
}

}  // namespace mfu::app
