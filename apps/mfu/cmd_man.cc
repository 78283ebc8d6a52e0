#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "commands.h"
#include "help.h"

namespace mfu::app {

namespace {

struct ManOptions {
  std::string command;
  std::string folder;
};

Result<void> write_page(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  bool good = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  good = (file == nullptr || std::fclose(file) == 0) && good;
  if (!good) return fail(ErrorCode::io, "cannot write " + path);
  return {};
}

Result<int> run(Context& context, const ManOptions& options) {
  CLI::App& root = context.root();
  if (!options.folder.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.folder, problem);
    MFU_TRY(write_page(options.folder + "/mfu.1", root_manual(context.commands(), root)));
    for (const Command& command : context.commands()) {
      MFU_TRY(write_page(fmt::format("{}/mfu-{}.1", options.folder, command.text.name),
                         command_manual(command.text, *root.get_subcommand(command.text.name))));
    }
    return kGood;
  }
  if (options.command.empty()) {
    context.print_text(root_manual(context.commands(), root));
    return kGood;
  }
  for (const Command& command : context.commands()) {
    if (command.text.name != options.command) continue;
    context.print_text(command_manual(command.text, *root.get_subcommand(command.text.name)));
    return kGood;
  }
  return fail(ErrorCode::not_found,
              fmt::format("there is no command '{}'; mfu --help lists them", options.command));
}

}  // namespace

Command man_command() {
  auto options = std::make_shared<ManOptions>();
  CommandText text{"man",
                   "Print the manual pages",
                   "Prints a manual page in roff, made from the same text as --help. cmake "
                   "--install puts all pages where man finds them.",
                   {{"mfu man peak | man -l -", "read a page without installing it"},
                    {"mfu man --folder DIR", "write all pages into a folder"}}};
  auto add = [options](CLI::App& app) {
    add_value(app, "COMMAND", "COMMAND", options->command,
              "Command whose page to print (default: mfu itself)");
    add_value(app, "--folder", "DIR", options->folder, "Write every page into this folder");
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
