#include "stopper.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

namespace mfu::app {

namespace {

constexpr auto kOthersWait = std::chrono::seconds(4);

bool is_alive(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z';
}

// The command and all its descendants.
std::vector<pid_t> processes_of(pid_t command) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::size_t end = text.rfind(')');  // the process name may have spaces
    if (end == std::string::npos || end + 4 > text.size()) continue;
    children.emplace(static_cast<pid_t>(std::strtol(text.c_str() + end + 4, nullptr, 10)), pid);
  }
  std::vector<pid_t> all{command};
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto [from, to] = children.equal_range(all[i]);
    for (; from != to; ++from) all.push_back(from->second);
  }
  return all;
}

}  // namespace

void Stopper::look(const RunRecord& recent) {
  if (!begun_) {
    bool all = false;
    for (const ProcessRecord& each : recent.processes) {
      if (each.steps.empty()) continue;
      auto pid = static_cast<pid_t>(each.pid);
      if (each.fact("stopped") != nullptr) {
        stopped_.insert(pid);
      } else if (is_alive(pid)) {
        return;  // this rank has not taken its steps yet
      }
      all = !stopped_.empty();
    }
    if (!all) return;
    begun_ = std::chrono::steady_clock::now();
    // Tells processes that take no steps that the SIGTERM they will get comes from us.
    std::ofstream(question_.region_folder + "/stopping") << "1\n";
  }
  end_the_rest();
}

void Stopper::end_the_rest() {
  auto now = std::chrono::steady_clock::now();
  auto passed = now - *begun_;
  bool ranks_gone = std::none_of(stopped_.begin(), stopped_.end(), is_alive);
  if (ranks_gone && !gone_) gone_ = now;
  // The process that started the ranks usually sees them end, and ends too. A process that waits
  // for something else does not, so it gets SIGTERM.
  bool others = 2 * passed > question_.grace || (gone_ && now - *gone_ > kOthersWait);
  if (passed < question_.grace && !others) return;
  std::vector<pid_t> all = processes_of(question_.command);
  // The command gets it last. When it ends, mfu ends too and removes the folder that tells the
  // other processes that the SIGTERM comes from us.
  bool alone = std::none_of(all.begin() + 1, all.end(), is_alive);
  bool command_too = alone || 4 * passed > 3 * question_.grace;
  for (pid_t pid : all) {
    bool its_turn = pid != question_.command || command_too;
    if (passed >= question_.grace) {
      kill(pid, SIGKILL);
    } else if (its_turn && !stopped_.contains(pid) && asked_.insert(pid).second) {
      kill(pid, SIGTERM);
    }
  }
}

}  // namespace mfu::app
