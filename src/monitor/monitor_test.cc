#include "mfu/monitor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "hardware/samples.h"
#include "measure/testing.h"

namespace mfu {
namespace {

using std::chrono::seconds;

// A sink that keeps what it gets.
struct Kept {
  std::mutex mutex;
  std::vector<StepReport> reports;
  std::atomic<bool> broken = false;
};
class KeepingSink : public Sink {
 public:
  explicit KeepingSink(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}
  std::string name() const override { return "the test"; }
  Result<void> open() override { return {}; }
  Result<void> write(std::span<const StepReport> reports) override {
    if (kept_->broken) return fail(ErrorCode::io, "broken");
    std::lock_guard lock(kept_->mutex);
    kept_->reports.insert(kept_->reports.end(), reports.begin(), reports.end());
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  std::shared_ptr<Kept> kept_;
};

class MonitorTest : public testing::Test {
 protected:
  MonitorTest() : folder_(testing::TempDir() + "monitor." + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    options_.config.mode = EstimateMode{};
    options_.model = small();
    options_.peak = FlopRate{1e12};
    options_.sinks.push_back(std::make_unique<KeepingSink>(kept_));
  }
  ~MonitorTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Monitor> open() {
    Result<std::unique_ptr<Monitor>> monitor = Monitor::open(std::move(options_), clock_);
    EXPECT_TRUE(monitor.has_value()) << (monitor.has_value() ? "" : monitor.error().message);
    return std::move(monitor).value();
  }
  std::string folder_;
  FakeClock clock_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  MonitorOptions options_;
};

TEST_F(MonitorTest, reports_what_the_loop_logged) {
  std::unique_ptr<Monitor> monitor = open();
  for (std::uint64_t step = 0; step < 5; ++step) {
    clock_.advance(seconds(2));
    monitor->log_step(
        {.step = step, .loss = 4.0 - static_cast<double>(step), .shape = StepShape::of(4, 128)});
  }
  ASSERT_TRUE(monitor->flush(seconds(60)));
  std::optional<StepReport> last = monitor->last_report();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->step, 4u);
  EXPECT_EQ(last->loss, 0.0);
  EXPECT_EQ(last->value("perf/step_time"), 2.0);
  EXPECT_EQ(last->value("perf/tokens_per_second"), 256.0);
  EXPECT_EQ(monitor->status().logged, 5u);
  EXPECT_EQ(monitor->status().reported, 5u);
  monitor->close();
  EXPECT_EQ(kept_->reports.size(), 5u);
  EXPECT_TRUE(monitor->warnings().empty());
  EXPECT_FALSE(monitor->flush(seconds(1)));  // closed
}

TEST_F(MonitorTest, counts_generation_by_periods) {
  options_.config.generation_every = 2;
  options_.flop_per_token = 1e9;
  std::unique_ptr<Monitor> monitor = open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) monitor->count_tokens(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  clock_.advance(seconds(4));
  monitor->log_step({.step = 1, .shape = StepShape::of(4, 128)});
  monitor->log_step({.step = 2, .duration_s = 1.0, .shape = StepShape::of(4, 128)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  std::optional<StepReport> last = monitor->last_report();
  EXPECT_EQ(last->value("mfu/total_tokens_generated"), 4000.0);
  EXPECT_EQ(last->value("mfu/elapsed_time"), 4.0);
  EXPECT_EQ(last->value("mfu/tokens_per_second"), 1000.0);
  // 1000 tokens a second of 1e9 FLOP, of 1e12: all of it.
  EXPECT_DOUBLE_EQ(*last->value("mfu/mfu_percentage"), 100);
}

TEST_F(MonitorTest, never_blocks_drops_and_counts_where_nobody_drains) {
  options_.queue_capacity = 16;
  options_.config.enabled = true;
  std::unique_ptr<Monitor> monitor = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < 5000; ++i) {
        monitor->log_step({.step = i, .shape = StepShape::of(1, 8)});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(monitor->flush(seconds(60)));
  MonitorStatus status = monitor->status();
  EXPECT_EQ(status.logged + status.dropped, 20'000u);
  EXPECT_EQ(status.reported, status.logged);
}

TEST_F(MonitorTest, a_broken_sink_reaches_nobody_else) {
  kept_->broken = true;
  options_.config.output_dir = folder_;
  options_.config.csv = "/proc/nowhere/steps.csv";
  std::vector<std::string> said;
  std::mutex saying;
  options_.on_warning = [&](const std::string& text) {
    std::lock_guard lock(saying);
    said.push_back(text);
  };
  std::unique_ptr<Monitor> monitor = open();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    clock_.advance(seconds(1));
    monitor->log_step({.step = step, .shape = StepShape::of(1, 8)});
    ASSERT_TRUE(monitor->flush(seconds(60)));
  }
  monitor->close();
  EXPECT_EQ(split(*read_file(folder_ + "/training_log.json"), '\n').size(), 4u);
  // The table gets three lines, the dashboard two reports: the first step has no number that a
  // dashboard shows.
  EXPECT_EQ(monitor->status().unsent, 5u);
  EXPECT_EQ(said.size(), 2u);
  EXPECT_EQ(monitor->warnings(), said);
}

TEST_F(MonitorTest, dashboards_get_their_frequency_and_logs_everything) {
  options_.config.perf_log_every = 2;
  options_.config.training_log_every = 3;
  options_.config.output_dir = folder_;
  std::unique_ptr<Monitor> monitor = open();
  for (std::uint64_t step = 1; step <= 6; ++step) {
    clock_.advance(seconds(1));
    monitor->log_step({.step = step, .loss = 1, .shape = StepShape::of(1, 8)});
  }
  monitor->close();
  // Only steps 2, 3, 4 and 6 have a value.
  ASSERT_EQ(kept_->reports.size(), 4u);
  EXPECT_FALSE(kept_->reports[0].loss.has_value());
  EXPECT_TRUE(kept_->reports[1].loss.has_value());
  EXPECT_TRUE(kept_->reports[1].metrics.empty());
  EXPECT_TRUE(kept_->reports[3].loss && !kept_->reports[3].metrics.empty());
  EXPECT_EQ(split(*read_file(folder_ + "/training_log.json"), '\n').size(), 7u);
}

TEST_F(MonitorTest, says_when_a_measurement_is_due) {
  options_.config.mode = SmartMode{};
  std::unique_ptr<Monitor> monitor = open();
  EXPECT_TRUE(monitor->measurement_due(3));  // nothing is calibrated yet
  monitor->add_reading({.step = 3, .shape = StepShape::of(4, 128), .flop = 1'000'000'000});
  monitor->log_step({.step = 3, .shape = StepShape::of(4, 128)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->source, Source::counted);
  EXPECT_EQ(monitor->calibration().readings, 1u);
  EXPECT_FALSE(monitor->measurement_due(4));
  EXPECT_TRUE(monitor->measurement_due(500));  // due by the schedule
  EXPECT_FALSE(monitor->measurement_due(200));
  monitor->set_phase(TrainingPhase::finetune);
  EXPECT_TRUE(monitor->measurement_due(200));
  EXPECT_EQ(monitor->status().logged, 1u);
}

TEST_F(MonitorTest, never_means_never_also_in_smart_mode) {
  options_.config.mode = SmartMode{};
  options_.config.schedule.fixed = 0;
  std::unique_ptr<Monitor> monitor = open();
  EXPECT_FALSE(monitor->measurement_due(0));
}

TEST_F(MonitorTest, hybrid_takes_hardware_samples_and_falls_back) {
  class Source : public CounterSource {
   public:
    explicit Source(const Clock& clock) : clock_(clock) {}
    std::string name() const override { return "fake"; }
    Result<CounterSample> sample() override {
      if (gone) return fail(ErrorCode::io, "the counters are gone");
      return CounterSample{.at = clock_.now(),
                           .values = {{.event = "fp", .flop_per_count = 2, .value = value}}};
    }
    std::atomic<std::uint64_t> value = 0;
    std::atomic<bool> gone = false;

   private:
    const Clock& clock_;
  };
  auto source = std::make_shared<Source>(clock_);
  options_.config.mode = HybridMode{};
  options_.counters = source;
  std::unique_ptr<Monitor> monitor = open();
  ASSERT_TRUE(monitor->flush(seconds(60)));  // the first sample
  clock_.advance(seconds(1));
  source->value = 1'000'000'000;  // 2e9 FLOP in that second
  monitor->log_step({.step = 1, .duration_s = 0.5, .shape = StepShape::of(1, 8)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->source, mfu::Source::hardware);
  EXPECT_EQ(monitor->last_report()->flop, FlopCount(1'000'000'000));
  source->gone = true;
  clock_.advance(seconds(1));
  monitor->log_step({.step = 2, .duration_s = 0.5, .shape = StepShape::of(1, 8)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->source, mfu::Source::estimated);
  ASSERT_FALSE(monitor->warnings().empty());
  EXPECT_NE(monitor->warnings()[0].find("gone"), std::string::npos);
}

TEST_F(MonitorTest, does_nothing_where_it_is_switched_off_or_in_a_forked_child) {
  options_.config.enabled = false;
  std::unique_ptr<Monitor> off = open();
  off->log_step({.step = 1});
  EXPECT_FALSE(off->last_report().has_value());
  options_ = {};
  options_.config.mode = EstimateMode{};
  options_.config.run_dir = folder_;
  std::unique_ptr<Monitor> monitor = open();
  monitor->log_step({.step = 1, .shape = StepShape::of(1, 8)});
  pid_t child = ::fork();
  if (child == 0) {
    monitor->log_step({.step = 2, .shape = StepShape::of(1, 8)});
    monitor->close();
    monitor.reset();
    ::_exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  monitor->close();
  EXPECT_EQ(monitor->status().logged, 1u);
}

TEST_F(MonitorTest, what_is_missing_is_a_warning_and_the_rest_goes_on) {
  options_.model.reset();
  options_.config.model = "/nowhere/config.json";
  options_.peak.reset();
  options_.config.device = "no such device";
  options_.config.run_dir = "/proc/nowhere";
  std::unique_ptr<Monitor> monitor = open();
  clock_.advance(seconds(1));
  monitor->log_step({.step = 1, .duration_s = 1, .shape = StepShape::of(1, 8)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_EQ(monitor->last_report()->value("perf/tokens_per_second"), 8.0);
  EXPECT_GE(monitor->warnings().size(), 3u);
  EXPECT_EQ(monitor->status().run_directory, "");
  MonitorOptions wrong;
  wrong.queue_capacity = 100;
  EXPECT_FALSE(Monitor::open(std::move(wrong)).has_value());
}

// Estimates for a model named in the settings, depending on which of its weights are trained.
TEST_F(MonitorTest, what_is_trained_holds_for_a_model_of_the_settings_too) {
  std::filesystem::create_directories(folder_);
  ASSERT_TRUE(write_file(folder_ + "/config.json",
                         R"({"model_type":"llama","architectures":["LlamaForCausalLM"],)"
                         R"("hidden_size":64,"intermediate_size":256,"num_hidden_layers":2,)"
                         R"("num_attention_heads":4,"vocab_size":1000})")
                  .has_value());
  ModelSpec model = *read_model(folder_ + "/config.json", {});
  StepShape shape = StepShape::of(2, 32);
  for (const TrainingOptions& trained :
       {TrainingOptions{}, TrainingOptions{.frozen = {"model.layers.0.*"}},
        TrainingOptions{.lora_rank = 4, .lora_targets = {"q_proj"}}}) {
    MonitorOptions options;
    options.config.mode = EstimateMode{};
    options.config.model = folder_;
    options.trained = trained;
    options.peak = FlopRate{1e15};
    std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options), clock_)).value();
    monitor->log_step({.step = 1, .duration_s = 1, .shape = shape});
    ASSERT_TRUE(monitor->flush(seconds(60)));
    EXPECT_TRUE(monitor->warnings().empty()) << monitor->warnings()[0];
    Workload work{.phase = Phase::train, .batch = 2, .sequence = 32};
    Result<TrainingPlan> plan = plan_training(model, trained);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(monitor->last_report()->flop, flop_per_step(model, work, *plan)->model_flop);
  }
}

TEST_F(MonitorTest, a_pattern_that_fits_nothing_leaves_the_estimate_out_and_says_so) {
  options_.trained.frozen = {"no.such.weight"};
  std::unique_ptr<Monitor> monitor = open();
  monitor->log_step({.step = 1, .duration_s = 1, .shape = StepShape::of(1, 8)});
  ASSERT_TRUE(monitor->flush(seconds(60)));
  EXPECT_FALSE(monitor->last_report()->flop.has_value());
  ASSERT_FALSE(monitor->warnings().empty());
  EXPECT_NE(monitor->warnings()[0].find("no.such.weight"), std::string::npos);
  MonitorOptions bare;
  bare.trained.lora_rank = 8;
  monitor = std::move(Monitor::open(std::move(bare), clock_)).value();
  ASSERT_FALSE(monitor->warnings().empty());
  EXPECT_NE(monitor->warnings()[0].find("without a model"), std::string::npos);
}

// 1e12 FLOP/s and 1e11 bytes/s: a second of 5e11 FLOP is MFU 50%, of 2e10 bytes MBU 20%.
TEST_F(MonitorTest, phases_of_a_period_go_with_the_step_that_ends_it_and_come_back_in_a_replay) {
  auto counted = std::make_shared<std::vector<PhaseDone>>(std::vector<PhaseDone>{
      {.phase = RunPhase::prefill, .tokens = 7, .flop = 99, .time = seconds(9)}});  // before
  options_.phases = [counted] { return *counted; };
  options_.config.generation_every = 2;
  options_.config.run_dir = folder_;
  options_.bandwidth = ByteRate{1e11};
  std::unique_ptr<Monitor> monitor = open();
  for (std::uint64_t step = 1; step <= 4; ++step) {
    clock_.advance(seconds(2));
    (*counted)[0].tokens += 100;
    (*counted)[0].flop += FlopCount(250'000'000'000u);
    (*counted)[0].time += std::chrono::milliseconds(500);
    if (step == 1) counted->push_back({.phase = RunPhase::decode});
    (*counted)[1].tokens += 4;
    (*counted)[1].time += std::chrono::milliseconds(500);
    (*counted)[1].moved = Bytes{10'000'000'000u * step};
    monitor->log_step({.step = step, .loss = 1, .shape = StepShape::of(4, 128)});
  }
  monitor->close();
  ASSERT_EQ(kept_->reports.size(), 4u);
  EXPECT_FALSE(kept_->reports[0].value("mfu/prefill/tokens").has_value());
  for (std::size_t i : {1, 3}) {
    const StepReport& report = kept_->reports[i];
    EXPECT_EQ(report.value("mfu/prefill/tokens"), 200.0);
    EXPECT_EQ(report.value("mfu/prefill/flop"), 5e11);
    EXPECT_EQ(report.value("mfu/prefill/time"), 1.0);
    EXPECT_DOUBLE_EQ(*report.value("mfu/prefill/mfu_percentage"), 50);
    EXPECT_FALSE(report.value("mfu/prefill/mbu_percentage").has_value());
    EXPECT_DOUBLE_EQ(*report.value("mfu/decode/mbu_percentage"), 20);
    EXPECT_FALSE(report.value("mfu/train/tokens").has_value());
    // If nobody counts tokens, the documented metrics are those of prefill and decode.
    EXPECT_EQ(report.value("mfu/total_tokens_generated"), 8.0);
    EXPECT_EQ(report.value("mfu/elapsed_time"), 4.0);
    EXPECT_EQ(report.value("mfu/tokens_per_second"), 2.0);
  }
  Result<RecordedSteps> again = read_recorded_steps(folder_);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_EQ(again->reports.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(to_json(again->reports[i]), to_json(kept_->reports[i]));
  }
}

// A sink that hangs in its first write until the test releases it.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false, open = false;
};
class HangingSink : public Sink {
 public:
  explicit HangingSink(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  std::string name() const override { return "a pipe nobody reads"; }
  Result<void> open() override { return {}; }
  Result<void> write(std::span<const StepReport>) override {
    std::unique_lock lock(gate_->mutex);
    gate_->inside = true;
    gate_->changed.notify_all();
    gate_->changed.wait(lock, [&] { return gate_->open; });
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  std::shared_ptr<Gate> gate_;
};

TEST_F(MonitorTest, a_sink_that_hangs_keeps_nobody_from_ending) {
  auto gate = std::make_shared<Gate>();
  options_.sinks.push_back(std::make_unique<HangingSink>(gate));
  options_.config.run_dir = folder_ + "/run";
  options_.queue_capacity = 16;
  options_.close_patience = std::chrono::milliseconds(50);
  static FakeClock clock;  // the hanging thread keeps it alive
  std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options_), clock)).value();
  monitor->log_step({.step = 0, .loss = 1.0, .shape = StepShape::of(1, 8)});
  {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->inside; });
  }
  for (std::uint64_t step = 1; step < 40; ++step) {
    clock.advance(seconds(1));
    monitor->log_step({.step = step, .loss = 1.0, .shape = StepShape::of(1, 8)});
  }
  MonitorStatus status = monitor->status();
  EXPECT_EQ(status.logged + status.dropped, 40u);
  EXPECT_FALSE(monitor->flush(std::chrono::milliseconds(20)));
  monitor.reset();  // returns
  // Not lost, whatever hangs: those that the queue took are in the run directory.
  Result<RecordedSteps> steps = read_recorded_steps(folder_ + "/run");
  ASSERT_TRUE(steps.has_value()) << steps.error().message;
  EXPECT_EQ(steps->reports.size(), status.logged);
  std::lock_guard lock(gate->mutex);
  gate->open = true;
  gate->changed.notify_all();
}

// Half the tensor pipes' time at 1755 of the 1830 MHz behind the H100's peak.
TEST_F(MonitorTest, hybrid_mode_takes_a_gpus_counters) {
  ::setenv("MFU_NVML", MFU_FAKE_DIR "/fake_nvml.so", 1);
  MonitorOptions options;
  options.config.mode = HybridMode{};
  options.config.device = "H100-SXM5-80GB";
  options.config.precision = Precision::bf16;
  options.model = *model_of_shape({.layers = 2, .hidden = 256, .heads = 4, .vocab = 1024});
  std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options))).value();
  ::unsetenv("MFU_NVML");
  std::optional<StepReport> last;
  for (std::uint64_t step = 0; step < 6000 && (!last || last->source != Source::hardware); ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    monitor->log_step({.step = step, .duration_s = 0.01, .shape = StepShape::of(8, 512)});
    ASSERT_TRUE(monitor->flush(seconds(60)));
    last = monitor->last_report();
  }
  ASSERT_EQ(last->source, Source::hardware);
  EXPECT_NEAR(*last->value("perf/mfu"), 0.5 * 1755 / 1830, 1e-4);
  monitor->close();
}

TEST_F(MonitorTest, hybrid_mode_says_why_a_gpu_has_no_counters) {
  ::setenv("MFU_NVML", "/nowhere.so", 1);
  MonitorOptions options;
  options.config.mode = HybridMode{};
  options.config.device = "H100-SXM5-80GB";
  options.config.precision = Precision::bf16;
  std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options))).value();
  ::unsetenv("MFU_NVML");
  ASSERT_EQ(monitor->warnings().size(), 1u);
  EXPECT_NE(monitor->warnings()[0].find("NVML is not there"), std::string::npos);
}

}  // namespace
}  // namespace mfu
