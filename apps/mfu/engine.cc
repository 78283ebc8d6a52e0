#include "engine.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launch.h"

extern char** environ;

namespace mfu::app {

namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads the error that the script wrote: a code, a newline, a message.
Error error_in(const fs::path& folder, const std::string& python, int status) {
  std::string told = content_of(folder / "error");
  std::size_t line = told.find('\n');
  if (line == std::string::npos) {
    return {ErrorCode::io, fmt::format("--engine: {} ended with status {}; what it said is above",
                                       python, status)};
  }
  std::string code = told.substr(0, line);
  for (ErrorCode each : {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::malformed,
                         ErrorCode::unsupported, ErrorCode::io}) {
    if (name_of(each) == code) return {each, told.substr(line + 1)};
  }
  return {ErrorCode::io, told.substr(line + 1)};
}

Result<int> run_to_its_end(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& each : command) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  // The script's own output must not come between ours and a reader of --json.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  int problem = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    return fail(ErrorCode::io, fmt::format("{} could not be started: give --python PATH or "
                                           "MFU_PYTHON",
                                           command[0]));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<PassingFolder> PassingFolder::make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "mfu-parts-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return fail(ErrorCode::io, fmt::format("no temporary folder: {}; TMPDIR names its place",
                                           std::strerror(errno)));
  }
  return PassingFolder(path);
}

PassingFolder::~PassingFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

bool is_remote(const std::string& path) {
  std::size_t at = path.find("://");
  if (at == 0 || at == std::string::npos) return false;
  std::string_view scheme = std::string_view(path).substr(0, at);
  return scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+.-") ==
         std::string_view::npos;
}

Result<std::vector<std::string>> gather_elsewhere(Context& context, const EngineQuestion& question,
                                                  const PassingFolder& folder) {
  fs::path script = fs::path(inject_folder()).parent_path() / "_engines.py";
  std::error_code ignored;
  if (!fs::exists(script, ignored)) {
    return fail(ErrorCode::not_found,
                "--engine is not installed with this program: it is part of the Python package "
                "(MFU_PYTHON_DIR names its folder)");
  }
  std::string self = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<std::string> command = {
      context.python(), script,     "--mfu",         self, "--out", folder.path(), "--engine",
      question.engine,  "--window", question.window, "--"};
  command.insert(command.end(), question.paths.begin(), question.paths.end());
  int status = MFU_TRY(run_to_its_end(command));
  if (status != 0) return Failure{error_in(folder.path(), context.python(), status)};
  std::vector<std::string> paths;
  std::string told = content_of(fs::path(folder.path()) / "paths");
  for (std::size_t at = 0, end = 0; (end = told.find('\0', at)) != std::string::npos;
       at = end + 1) {
    paths.push_back(told.substr(at, end - at));
  }
  return paths;
}

}  // namespace mfu::app
