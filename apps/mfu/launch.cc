#include "launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "group_ear.h"

extern char** environ;

namespace mfu::app {

namespace {

constexpr int kForwarded[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                              SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

// The signal mask and the ignored signals before we changed anything; the command gets these.
sigset_t first_mask;
sigset_t first_ignored;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int number : kForwarded) {
    if (sigismember(&first_ignored, number) == 0) sigaddset(&set, number);
  }
  return set;
}

std::vector<std::string> merged(const Environment& changes) {
  std::vector<std::string> entries;
  for (char** each = environ; *each != nullptr; ++each) {
    std::string entry = *each;
    if (!changes.contains(entry.substr(0, entry.find('=')))) entries.push_back(entry);
  }
  for (const auto& [name, value] : changes) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Whether this signal may be for us alone. A process may have sent it so. The terminal sends its
// own signals to the whole group, so the command has received those; but when it goes away, it
// tells the leader of the session only (ssh -t, a window that runs this command and no shell).
bool sent_to_us(const siginfo_t& info) {
  return info.si_code <= 0 || info.si_signo == SIGHUP;
}

void hand_on(int child, GroupEar& ear, const siginfo_t& info,
             const std::function<void(int)>& told) {
  if (info.si_signo == SIGWINCH) told(SIGWINCH);
  if (sent_to_us(info) && !ear.heard(info)) kill(child, info.si_signo);
  if (info.si_signo != SIGTSTP) return;
  told(SIGTSTP);
  raise(SIGSTOP);  // so that the shell sees us stop too
  told(SIGCONT);
}

}  // namespace

Launch::Launch() {
  sigemptyset(&first_ignored);
  for (int number : kForwarded) {
    struct sigaction now = {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler == SIG_IGN) sigaddset(&first_ignored, number);
  }
  sigset_t watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, &first_mask);
  ear_ = std::make_unique<GroupEar>(watched);
}

Launch::~Launch() = default;

std::optional<NotStarted> Launch::start(const std::vector<std::string>& command,
                                        const Environment& environment) {
  std::vector<std::string> words = command, entries = merged(environment);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &first_mask);
  sigset_t plain;
  sigemptyset(&plain);
  sigaddset(&plain, SIGPIPE);
  if (sigismember(&first_ignored, SIGINT) == 0) sigaddset(&plain, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &plain);
  int error = posix_spawnp(&child_, words[0].c_str(), nullptr, &attributes, pointers(words).data(),
                           pointers(entries).data());
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return std::nullopt;
  if (error == ENOENT) {
    return NotStarted{127, fmt::format("{}: no such command. Is it on PATH, or does it need ./ "
                                       "before it?",
                                       command[0])};
  }
  return NotStarted{126, fmt::format("cannot run {}: {}", command[0], std::strerror(error))};
}

RunEnd Launch::finish(const std::function<void(int)>& told) {
  sigset_t watched = watched_signals();
  while (true) {
    int status = 0;
    pid_t ended = waitpid(child_, &status, WNOHANG);
    if (ended == child_) {
      if (!WIFSIGNALED(status)) return {.status = WEXITSTATUS(status)};
      return {.status = 128 + WTERMSIG(status), .signal = WTERMSIG(status)};
    }
    siginfo_t info = {};
    if (sigwaitinfo(&watched, &info) > 0 && info.si_signo != SIGCHLD) {
      hand_on(child_, *ear_, info, told);
    }
  }
}

std::string inject_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> packages;
  if (const char* named = std::getenv("MFU_PYTHON_DIR")) packages.emplace_back(named);
  packages.push_back(here / "..");                       // mfu/bin/mfu of a wheel
  packages.push_back(here / "../../python/mfu");         // build/release/mfu of a checkout
  packages.push_back(here / "../share/mfu/python/mfu");  // PREFIX/bin/mfu
  for (const fs::path& package : packages) {
    for (const char* inner : {"_inject", "mfu/_inject"}) {
      fs::path folder = package / inner;
      if (fs::exists(folder / "sitecustomize.py", error)) return fs::canonical(folder, error);
    }
  }
  return "";
}

}  // namespace mfu::app
