#include <fmt/format.h>

#include "help.h"

namespace mfu::app {

namespace {

// In roff a leading dot or quote starts a request, a backslash starts an escape and a bare hyphen
// is a dash. This escapes all of them.
std::string roff(std::string_view text) {
  std::string safe;
  bool line_start = true;
  for (char letter : text) {
    if (line_start && (letter == '.' || letter == '\'')) safe += "\\&";
    if (letter == '\\') {
      safe += "\\e";
    } else if (letter == '-') {
      safe += "\\-";
    } else {
      safe += letter;
    }
    line_start = letter == '\n';
  }
  return safe;
}

std::string title(const std::string& name) {
  return fmt::format(".TH \"{}\" 1 \"\" \"mfu {}\" \"User Commands\"\n", roff(name), MFU_VERSION);
}

std::string options_section(std::string_view heading, const CLI::App& app) {
  std::string text = fmt::format(".SH {}\n", heading);
  for (const OptionText& option : options_of(app)) {
    std::string value = option.positional || option.value.empty() ? "" : " " + option.value;
    text +=
        fmt::format(".TP\n\\fB{}\\fR{}\n{}", roff(option.names), roff(value), roff(option.meaning));
    if (!option.choices.empty())
      text += fmt::format(" ({})", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
    text += '\n';
  }
  return text;
}

constexpr const char* kStatus =
    ".SH EXIT STATUS\n0: success. 1: a threshold was not met, or a comparison came out worse. 2: "
    "wrong use or bad input. 70: a bug in mfu.\n";

}  // namespace

std::string root_manual(const std::vector<Command>& commands, const CLI::App& root) {
  std::string text = title("mfu") + fmt::format(".SH NAME\nmfu \\- {}\n", roff(kTagline));
  text += ".SH SYNOPSIS\n\\fBmfu\\fR COMMAND [OPTIONS]\n.SH COMMANDS\n";
  for (const Command& command : commands) {
    text += fmt::format(".TP\n\\fBmfu {}\\fR\n{}\n", roff(command.text.name),
                        roff(command.text.summary));
  }
  text += options_section("OPTIONS OF EVERY COMMAND", root);
  text += ".SH ENVIRONMENT\n";
  for (const SettingKey& key : setting_keys()) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(key.environment), roff(key.meaning));
  }
  text +=
      ".SH FILES\n.TP\n$XDG_CONFIG_HOME/mfu/config.yaml\nSettings. mfu config show \\-\\-origin "
      "shows each value and where it comes from.\n.TP\n$XDG_CACHE_HOME/mfu/ceilings.json\nMeasured "
      "ceilings.\n";
  return text + kStatus;
}

std::string command_manual(const CommandText& command, const CLI::App& app) {
  std::string name = "mfu-" + command.name;
  std::string text =
      title(name) + fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(command.summary));
  text += fmt::format(".SH SYNOPSIS\n{}\n", roff(usage_line(command, app)));
  text += ".SH DESCRIPTION\n";
  for (std::size_t start = 0; start < command.description.size();) {
    std::size_t end = std::min(command.description.find("\n\n", start), command.description.size());
    text += roff(command.description.substr(start, end - start)) + "\n.PP\n";
    start = end + 2;
  }
  text += options_section("OPTIONS", app) + ".SH EXAMPLES\n";
  for (const Example& example : command.examples) {
    text += fmt::format(".TP\n{}\n{}\n", roff(example.command), roff(example.meaning));
  }
  return text + kStatus + ".SH SEE ALSO\n\\fBmfu\\fR(1)\n";
}

}  // namespace mfu::app
