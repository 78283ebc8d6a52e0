#include <gtest/gtest.h>

#include "record/drain.h"
#include "record/testing.h"

namespace mfu {
namespace {

using namespace mfu::testing;

TEST(Passes, small_values_are_kept_exactly_and_large_ones_to_two_percent) {
  for (std::uint64_t value = 0; value < 32; ++value) {
    EXPECT_EQ(RegionSpread::value_of(RegionSpread::bucket_of(value)), value);
  }
  for (double value = 32; value < 3e10; value *= 1.013) {
    auto whole = static_cast<std::uint64_t>(value);
    auto back = static_cast<double>(RegionSpread::value_of(RegionSpread::bucket_of(whole)));
    EXPECT_NEAR(back / value, 1, 0.035) << value;
  }
  EXPECT_EQ(RegionSpread::bucket_of(~0ull), RegionSpread::kBuckets - 1);
}

// A process with two models, one of them on two devices.
void two_models(const RunPlaces& places) {
  Recorder& recorder = Recorder::process();
  if (!recorder.start({.folder = places.region_folder})) _exit(1);
  unsigned mm = recorder.operator_id("aten::mm");
  auto fp32 = static_cast<std::uint8_t>(recorder.type_id("fp32"));
  auto first = static_cast<std::uint8_t>(recorder.device_id("cuda:0", "GPU-1"));
  auto second = static_cast<std::uint8_t>(recorder.device_id("cuda:1"));
  auto policy = static_cast<std::uint8_t>(recorder.add_model());
  auto reward = static_cast<std::uint8_t>(recorder.add_model());
  recorder.name_model(policy, "Policy");
  for (int i = 0; i < 5; ++i) {
    recorder.count(mm, fp32, {.hardware_flop = 100, .model_flop = 90});
  }
  PassFlop on_both[] = {
      {.device = first, .type = fp32, .calls = 2, .hardware_flop = 200, .model_flop = 180},
      {.device = second, .type = fp32, .calls = 1, .hardware_flop = 100, .model_flop = 90}};
  recorder.add_pass({.phase = PassPhase::train,
                     .model = policy,
                     .tokens = 64,
                     .padded_tokens = 3,
                     .samples = 4,
                     .token_rows = 100,
                     .duration_ns = 1000,
                     .batch = 4,
                     .flop = on_both});
  PassFlop on_one[] = {
      {.device = first, .type = fp32, .calls = 1, .hardware_flop = 100, .model_flop = 90}};
  recorder.add_pass(
      {.phase = PassPhase::forward, .model = reward, .duration_ns = 400, .flop = on_one});
  recorder.add_pass_time(PassPhase::other, policy, 77);
  recorder.add_host(HostLine::sleep, 5);
  recorder.end_step({});
}

TEST(Passes, reach_the_reader_by_phase_model_device_and_type) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(in_child([&] { two_models(places); }));
  Drainer drainer(places);
  drainer.drain();
  drainer.finish();
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value());
  ASSERT_EQ(run->processes.size(), 1u);
  const ProcessRecord& process = run->processes[0];
  ASSERT_EQ(process.phases.size(), 3u);
  const PhaseTotal& train = process.phases[0];
  EXPECT_EQ(train.phase, RunPhase::train);
  EXPECT_EQ(train.model_name, "Policy");
  EXPECT_EQ(train.tokens, 64u);
  EXPECT_EQ(train.padded_tokens, 3u);
  EXPECT_EQ(train.time.count(), 1000);
  ASSERT_EQ(train.batches.size(), 1u);
  EXPECT_EQ(train.batches[0].value, 4u);
  ASSERT_EQ(train.lines.size(), 2u);
  EXPECT_EQ(train.lines[0].device, "cuda:0");
  EXPECT_EQ(train.lines[0].identity, "GPU-1");
  EXPECT_EQ(train.lines[0].flop.hardware_flop, 200u);
  EXPECT_EQ(train.lines[1].device, "cuda:1");
  EXPECT_EQ(process.phases[1].phase, RunPhase::forward);
  EXPECT_EQ(process.phases[1].model, 1u);
  EXPECT_EQ(process.phases[2].time.count(), 77);
  EXPECT_EQ(process.tokens, 64u);
  EXPECT_EQ(process.host_time[static_cast<std::size_t>(HostPart::sleep)].count(), 5);
  ASSERT_EQ(process.steps.size(), 1u);
  const Step& step = process.steps[0];
  ASSERT_EQ(step.passes.size(), 3u);
  EXPECT_EQ(step.passes[0].model_flop, 270u);
  EXPECT_EQ(step.passes[1].hardware_flop, 100u);
  EXPECT_EQ(step.host_time[static_cast<std::size_t>(HostPart::sleep)].count(), 5);
}

TEST(Passes, more_kinds_than_there_is_room_for_lose_no_flop) {
  Folder folder;
  RunPlaces places = places_in(folder);
  EXPECT_TRUE(in_child([&] {
    Recorder& recorder = Recorder::process();
    if (!recorder.start({.folder = places.region_folder})) _exit(1);
    for (unsigned i = 0; i < 600; ++i) {
      PassFlop flop[] = {{.device = static_cast<std::uint8_t>(i % 16),
                          .type = static_cast<std::uint8_t>(i % 7),
                          .calls = 1,
                          .hardware_flop = ~0ull / 2,
                          .model_flop = i}};
      recorder.add_pass({.phase = static_cast<PassPhase>(i % kPassPhases),
                         .model = static_cast<std::uint8_t>(i % 16),
                         .flop = flop});
    }
    recorder.end_step({});
  }));
  Drainer drainer(places);
  drainer.drain();
  drainer.finish();
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value());
  FlopCount model, hardware;
  std::uint64_t passes = 0;
  for (const PhaseTotal& phase : run->processes[0].phases) {
    passes += phase.passes;
    for (const PhaseTotal::Line& line : phase.lines) {
      model += line.flop.model_flop;
      hardware += line.flop.hardware_flop;
    }
  }
  EXPECT_EQ(passes, 600u);
  EXPECT_EQ(model, FlopCount(599 * 600 / 2));
  EXPECT_EQ(hardware, FlopCount(~0ull / 2) * 600);
  EXPECT_LE(run->processes[0].steps[0].passes.size(), kStepPasses);
}

}  // namespace
}  // namespace mfu
