#include "live_request.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace mfu::app {

namespace {

using std::chrono::steady_clock;

constexpr auto kAskEvery = std::chrono::milliseconds(100);

// The processes that the launcher asked. None if it has not answered yet.
std::optional<std::set<std::uint64_t>> asked_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::set<std::uint64_t> pids;
  for (std::uint64_t pid = 0; file >> pid;) pids.insert(pid);
  return pids;
}

bool has_ended(const RunRecord& run) {
  return run.run.exit_status.has_value();
}

std::string why_nothing(const std::string& directory) {
  Result<RunRecord> run = read_run(directory);
  if (!run.has_value()) return "";
  if (has_ended(*run)) return "the program has ended meanwhile";
  for (const ProcessRecord& each : run->processes) {
    const std::string* said = each.fact("explain");
    if (said == nullptr) continue;
    if (*said == "own_profiler") return "the program uses torch's profiler itself";
    if (said->starts_with("failed: ")) return said->substr(8);
  }
  return "no step ended in that time";
}

// The new windows of these processes. Empty until every process has one.
std::vector<ProfiledWindow> windows_since(const std::string& directory,
                                          const std::set<std::string>& before,
                                          const std::set<std::uint64_t>& pids) {
  std::vector<ProfiledWindow> windows = read_windows(directory);
  std::erase_if(windows, [&](const ProfiledWindow& each) {
    return !pids.contains(each.pid) || before.contains(std::filesystem::path(each.trace).stem());
  });
  return windows.size() >= pids.size() ? windows : std::vector<ProfiledWindow>{};
}

}  // namespace

void carry_requests(const std::string& directory, Drainer& drainer) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename();
    if (name.starts_with("request-") && name.ends_with(".txt")) found.push_back(entry.path());
  }
  for (const std::filesystem::path& path : found) {
    std::uint64_t steps = 3;
    std::ifstream(path) >> steps;
    std::filesystem::remove(path, error);
    std::vector<std::uint32_t> pids = drainer.ask_profile(std::clamp<std::uint64_t>(steps, 1, 255));
    std::string answer = path.string() + ".taken";
    {
      std::ofstream file(answer + ".part");
      for (std::uint32_t pid : pids) file << pid << '\n';
    }
    std::filesystem::rename(answer + ".part", answer, error);
  }
}

Result<std::vector<ProfiledWindow>> ask_for_windows(const LiveQuestion& question) {
  const std::string& directory = question.directory;
  RunRecord run = MFU_TRY(read_run(directory));
  if (has_ended(run)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: this run has ended, and --live needs one that is still running",
                            directory));
  }
  std::set<std::string> before;
  for (const ProfiledWindow& each : read_windows(directory)) {
    before.insert(std::filesystem::path(each.trace).stem());
    before.insert(std::filesystem::path(each.trace).stem().stem());
  }
  std::string path = fmt::format("{}/request-{}.txt", directory, getpid());
  std::string answer = path + ".taken";
  std::error_code error;
  {
    std::ofstream file(path + ".part");
    file << question.steps << '\n';
    if (!file.flush()) return fail(ErrorCode::io, fmt::format("cannot write {}", path));
  }
  std::filesystem::rename(path + ".part", path, error);
  auto until = steady_clock::now() + question.patience;
  std::optional<std::set<std::uint64_t>> pids;
  std::vector<ProfiledWindow> windows;
  while (windows.empty() && steady_clock::now() < until) {
    std::this_thread::sleep_for(kAskEvery);
    if (!pids) pids = asked_of(answer);
    if (pids && pids->empty()) break;
    if (pids) windows = windows_since(directory, before, *pids);
  }
  std::filesystem::remove(path, error);
  std::filesystem::remove(answer, error);
  if (!windows.empty()) return windows;
  std::string why = !pids ? "its launcher does not answer (is it on another machine, or gone?)"
                    : pids->empty() ? "none of its processes has taken a step yet"
                                    : why_nothing(directory);
  return fail(ErrorCode::not_found,
              fmt::format("{}: nothing to explain within {} s: {}", directory,
                          static_cast<double>(question.patience.count()) / 1000.0, why));
}

}  // namespace mfu::app
