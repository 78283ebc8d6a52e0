#include "mfu/record.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/text.h"

namespace mfu {

namespace {

constexpr std::uintmax_t kMostBytes = 1u << 20;

std::optional<OperatorTotal> parse_operator(std::string_view text) {
  std::vector<std::string_view> parts = split(text, '\t');
  if (parts.size() != 7) return std::nullopt;
  OperatorTotal total;
  total.name = parts[0];
  total.type = parts[1];
  total.reason = parts[2];
  std::optional<std::uint64_t> count[4];
  for (std::size_t i = 0; i < 4; ++i) {
    count[i] = parse_count(parts[3 + i]);
    if (!count[i]) return std::nullopt;
  }
  total.calls = *count[0];
  total.flop.hardware_flop = FlopCount(*count[1]);
  total.flop.model_flop = FlopCount(*count[2]);
  total.flop.recomputed_flop = FlopCount(*count[3]);
  return total;
}

std::optional<ProfiledWindow> read_window(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (std::filesystem::file_size(path, error) > kMostBytes || error) return std::nullopt;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != "mfu.window/1") return std::nullopt;
  ProfiledWindow window;
  std::map<std::string, std::uint64_t> numbers;
  bool whole = false;
  while (std::getline(file, line)) {
    if (line == "end") whole = true;
    std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "operator") {
      if (auto total = parse_operator(value)) window.operators.push_back(*std::move(total));
    } else if (key == "trace") {
      window.trace = path.parent_path() / std::filesystem::path(value).filename();
    } else if (key == "problem") {
      window.problem = value;
    } else if (auto number = parse_count(value)) {
      numbers[key] = *number;
    }
  }
  if (!whole) return std::nullopt;
  auto time = [&](const char* key) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(numbers[key]));
  };
  if (numbers.contains("rank")) window.rank = static_cast<std::int64_t>(numbers["rank"]);
  window.pid = numbers["pid"];
  window.number = std::max<std::uint64_t>(numbers["number"], 1);
  window.wanted_steps = numbers["wanted_steps"];
  window.steps = numbers["steps"];
  window.first_step = numbers["first_step"];
  window.on_device = numbers["on_device"] != 0;
  window.cores_available = numbers["cores_available"];
  window.threads = numbers["threads"];
  window.wall = time("wall_ns");
  window.cpu = time("cpu_ns");
  window.waited = time("waited_ns");
  window.loop_cpu = time("loop_cpu_ns");
  window.loading = time("loading_ns");
  window.loading_cpu = time("loading_cpu_ns");
  window.children = numbers["children"];
  window.children_ready = time("children_ready_ns");
  window.busiest_child = time("busiest_child_ns");
  // The launcher compresses what the process wrote.
  if (!std::filesystem::exists(window.trace, error)) window.trace += ".gz";
  return window;
}

}  // namespace

CountedFlop ProfiledWindow::flop() const {
  CountedFlop sum;
  for (const OperatorTotal& each : operators) {
    sum.hardware_flop += each.flop.hardware_flop;
    sum.model_flop += each.flop.model_flop;
    sum.recomputed_flop += each.flop.recomputed_flop;
  }
  return sum;
}

std::vector<ProfiledWindow> read_windows(const std::string& directory) {
  std::vector<ProfiledWindow> windows;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename();
    if (!name.starts_with("window-") || !name.ends_with(".txt")) continue;
    if (auto window = read_window(entry.path())) windows.push_back(*std::move(window));
  }
  std::sort(windows.begin(), windows.end(), [](const ProfiledWindow& a, const ProfiledWindow& b) {
    if (a.number != b.number) return a.number < b.number;
    return a.rank != b.rank ? a.rank < b.rank : a.pid < b.pid;
  });
  return windows;
}

}  // namespace mfu
