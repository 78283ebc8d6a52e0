#include <fmt/format.h>

#include "help.h"

namespace mfu::app {

namespace {

struct Words {
  std::string command;
  std::string summary;
  std::vector<OptionText> options;  // its own and the global ones
};

std::vector<Words> words_of(const std::vector<Command>& commands, const CLI::App& root) {
  std::vector<Words> all;
  for (const Command& command : commands) {
    Words words{command.text.name, command.text.summary,
                options_of(*root.get_subcommand(command.text.name))};
    for (const OptionText& option : options_of(root)) words.options.push_back(option);
    all.push_back(std::move(words));
  }
  return all;
}

// Puts the text into single quotes for a shell.
std::string shell_quoted(std::string_view text) {
  std::string safe = "'";
  for (char letter : text) safe += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return safe + "'";
}

std::string bash_script(const std::vector<Words>& all) {
  std::string names;
  std::string cases;
  std::string values;
  for (const Words& words : all) {
    names += words.command + " ";
    std::string options;
    for (const OptionText& option : words.options) {
      if (option.positional) options += fmt::format("{} ", fmt::join(option.choices, " "));
      if (!option.long_name.empty()) options += "--" + option.long_name + " ";
      if (!option.choices.empty() && !option.positional) {
        values += fmt::format("    {}:--{}) words={} ;;\n", words.command, option.long_name,
                              shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
      } else if (!option.value.empty() && !option.positional) {
        values += fmt::format("    {}:--{}) compopt -o default; COMPREPLY=(); return ;;\n",
                              words.command, option.long_name);
      }
    }
    cases += fmt::format("    {}) words={} ;;\n", words.command, shell_quoted(options));
  }
  return fmt::format(
      "# bash completion of mfu: source <(mfu completion bash)\n"
      "_mfu() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= "
      "words= word\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case $word in -*) ;; *) command=$word; break ;; esac\n"
      "  done\n"
      "  case $command in\n    '') words={} ;;\n{}  esac\n"
      "  case $command:$before in\n{}    *) ;;\n  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\ncomplete -F _mfu mfu\n",
      shell_quoted(names), cases, values);
}

// Brackets and colons have a meaning in zsh's _arguments.
std::string zsh_escaped(std::string_view text) {
  std::string safe;
  for (char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':') safe += '\\';
    safe += letter;
  }
  return safe;
}

std::string zsh_script(const std::vector<Words>& all) {
  std::string commands;
  std::string cases;
  for (const Words& words : all) {
    commands += fmt::format("    {}\n", shell_quoted(words.command + ":" + words.summary));
    std::string arguments;
    for (const OptionText& option : words.options) {
      std::string values = fmt::format("({})", fmt::join(option.choices, " "));
      if (option.positional) {
        arguments += " " + shell_quoted(fmt::format(":{}:{}", option.names,
                                                    option.choices.empty() ? "_files" : values));
      } else {
        std::string spec = fmt::format("--{}[{}]", option.long_name, zsh_escaped(option.meaning));
        if (!option.value.empty())
          spec += fmt::format(":{}:{}", zsh_escaped(option.value),
                              option.choices.empty() ? "_files" : values);
        arguments += " " + shell_quoted(spec);
      }
    }
    cases += fmt::format("    {}) _arguments{} ;;\n", words.command, arguments);
  }
  return fmt::format(
      "#compdef mfu\n# zsh completion of mfu: mfu completion zsh > \"${{fpath[1]}}/_mfu\"\n"
      "_mfu() {{\n  local -a commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n{}  "
      "esac\n}}\n"
      "compdef _mfu mfu\n",
      commands, cases);
}

std::string fish_script(const std::vector<Words>& all) {
  std::string text =
      "# fish completion of mfu: mfu completion fish > ~/.config/fish/completions/mfu.fish\n";
  for (const Words& words : all) {
    text += fmt::format("complete -c mfu -n __fish_use_subcommand -f -a {} -d {}\n", words.command,
                        shell_quoted(words.summary));
    std::string when =
        fmt::format("complete -c mfu -n '__fish_seen_subcommand_from {}'", words.command);
    for (const OptionText& option : words.options) {
      std::string values =
          option.choices.empty()
              ? ""
              : " -f -a " + shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      if (option.positional) {
        if (!values.empty()) text += when + values + "\n";
        continue;
      }
      text += fmt::format("{} -l {}{}{} -d {}\n", when, option.long_name,
                          option.value.empty() ? "" : " -r", values, shell_quoted(option.meaning));
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell, const std::vector<Command>& commands,
                              const CLI::App& root) {
  std::vector<Words> all = words_of(commands, root);
  if (shell == "zsh") return zsh_script(all);
  return shell == "fish" ? fish_script(all) : bash_script(all);
}

}  // namespace mfu::app
