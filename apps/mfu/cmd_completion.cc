#include "commands.h"
#include "help.h"

namespace mfu::app {

Command completion_command() {
  auto shell = std::make_shared<std::string>();
  CommandText text{
      "completion",
      "Set up tab completion for bash, zsh or fish",
      "Prints a script that makes the shell complete commands, options and their values.",
      {{"source <(mfu completion bash)", "for this shell; put the line into ~/.bashrc to keep it"},
       {"mfu completion zsh > \"${fpath[1]}/_mfu\"", "for zsh"},
       {"mfu completion fish > ~/.config/fish/completions/mfu.fish", "for fish"}}};
  auto add = [shell](CLI::App& app) {
    add_value(app, "SHELL", "SHELL", *shell, "The shell")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  };
  auto run = [shell](Context& context) -> Result<int> {
    context.print_text(completion_script(*shell, context.commands(), context.root()));
    return kGood;
  };
  return {std::move(text), add, run};
}

}  // namespace mfu::app
