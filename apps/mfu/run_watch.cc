#include "run_watch.h"

#include <fmt/format.h>
#include <mfu/machine.h>
#include <mfu/sink.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>

#include "launch.h"
#include "run_metrics.h"
#include "status_row.h"
#include "terminal.h"
#include "unobserved.h"

namespace mfu::app {

namespace {

using std::chrono::steady_clock;

constexpr auto kDrainEvery = std::chrono::milliseconds(100);
constexpr auto kShowEvery = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(10);

// Whether the program itself draws on the terminal (tqdm, rich, curses). Our line would disturb it.
bool draws_itself(const RunRecord& recent) {
  return std::any_of(recent.processes.begin(), recent.processes.end(),
                     [](const ProcessRecord& each) { return each.fact("draws") != nullptr; });
}

}  // namespace

struct RunWatch::State {
  State(const RunPlaces& places, RunQuestion asked, std::string named, const Catalog& known)
      : drainer(places),
        region_folder(places.region_folder),
        unobserved(places, inject_folder()),
        question(std::move(asked)),
        device(std::move(named)),
        catalog(known) {}

  Drainer drainer;
  std::string region_folder;
  Unobserved unobserved;
  RunQuestion question;
  std::string device;
  const Catalog& catalog;
  std::optional<FoundDevice> processor;  // measured before the command starts
  bool device_known = false;
  std::shared_ptr<RunMetrics> metrics;
  std::string host;
  StatusRow line;
  bool hidden = false;  // stays true once the program draws on the terminal
  bool on_terminal = false;
  steady_clock::time_point shown{};

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, done = false;
  std::function<void(Drainer&)> look;
  std::optional<RunRecord> record;

  void know_device(const RunRecord& recent);
  void serve(const RunRecord& recent);
  void show();
  void work();
};

void RunWatch::State::serve(const RunRecord& recent) {
  know_device(recent);
  RunReport report = report_run(recent, question);
  report.run.host = host;
  metrics->update(recent, report, question);
}

void RunWatch::State::know_device(const RunRecord& recent) {
  if (device_known || recent.processes.empty()) return;
  // The processor's peak was measured before the program ran. Measuring it now would slow it down.
  const std::string* said = recent.processes[0].fact("device");
  bool on_processor = device.empty() && (said == nullptr || said->starts_with("cpu"));
  if (on_processor) {
    question.device.name = processor->driver_name;
    question.device.device = processor->device;
  } else if (auto found = device_of_run(recent, catalog, device); found.has_value()) {
    question.device = *found;
  }
  device_known = true;
}

void RunWatch::State::show() {
  if (!processor) return;
  if (!hidden) line.refresh();
  if (steady_clock::now() - shown < kShowEvery) return;
  shown = steady_clock::now();
  RunRecord recent = drainer.recent();
  for (ProcessRecord& each : recent.processes) each.steps_dropped = 0;
  if (metrics) serve(recent);
  if (hidden || !on_terminal) return;
  hidden = draws_itself(recent);
  if (hidden) line.clear();
  std::erase_if(recent.processes, [](const ProcessRecord& each) {
    return each.steps.empty() && each.phases.empty();
  });
  if (recent.processes.empty() || hidden) return;
  for (ProcessRecord& each : recent.processes) {
    // The first step includes everything that happens only once.
    if (each.steps.size() > 1 && each.steps[0].sequence == 0) each.steps.erase(each.steps.begin());
  }
  know_device(recent);
  RunReport report = report_run(recent, question);
  report.steps = 0;
  for (const ProcessRecord& each : recent.processes) {
    if (!each.steps.empty()) {
      report.steps = std::max(report.steps, each.steps.back().sequence + 1);
    }
  }
  line.show(live_line(report));
}

void RunWatch::State::work() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    auto looking = look;
    lock.unlock();
    drainer.drain();
    if (looking) looking(drainer);
    unobserved.look();
    show();
    lock.lock();
    changed.wait_for(lock, kDrainEvery, [&] { return stopping; });
  }
  lock.unlock();
  line.clear();
  {  // the drainer stores this in the run directory, like the notes of processes
    std::ofstream note;
    for (const std::string& sentence : unobserved.sentences()) {
      if (!note.is_open()) note.open(region_folder + "/note-launcher.txt");
      note << sentence << '\n';
    }
  }
  drainer.finish();
  RunRecord all = drainer.record();
  for (const std::string& problem : drainer.problems()) {
    all.partial = true;
    all.notes.push_back(problem + " (the summary is complete, the run directory is not)");
  }
  lock.lock();
  record = std::move(all);
  done = true;
  changed.notify_all();
}

RunWatch::RunWatch(const RunPlaces& places, const RunQuestion& question, const std::string& device,
                   const Catalog& catalog, std::shared_ptr<RunMetrics> metrics)
    : state_(std::make_shared<State>(places, question, device, catalog)) {
  state_->metrics = std::move(metrics);
  for (const Launcher& each : launchers_of(places.directory)) {
    if (places.file.ends_with("/" + each.file)) state_->host = each.host;
  }
  state_->on_terminal = stderr_is_terminal();
  if (state_->on_terminal || state_->metrics) state_->processor = detect_cpu();
  state_->question.warmup = 0;  // only the latest steps are shown, and they are past warm-up
  std::thread([state = state_] { state->work(); }).detach();
}

RunWatch::~RunWatch() = default;

void RunWatch::each_round(std::function<void(Drainer&)> look) {
  std::lock_guard lock(state_->mutex);
  state_->look = std::move(look);
}

void RunWatch::terminal_signal(int number) {
  if (number == SIGTSTP) state_->line.pause();
  if (number == SIGCONT) state_->line.resume();
  if (number == SIGWINCH) state_->line.refresh();
}

std::optional<RunRecord> RunWatch::stop() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->line.clear();  // here too, because the thread may be waiting for a disk
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kPatience, [&] { return state_->done; });
  return state_->done ? std::move(state_->record) : std::nullopt;
}

RunRecord drain_to_the_end(const RunPlaces& places) {
  Drainer drainer(places);
  // A process that has just started may have no region yet.
  constexpr int kQuietRounds = 30;
  for (int quiet = 0; quiet < kQuietRounds;) {
    quiet = drainer.drain() ? 0 : quiet + 1;
    std::this_thread::sleep_for(kDrainEvery);
  }
  drainer.finish();
  return drainer.record();
}

}  // namespace mfu::app
