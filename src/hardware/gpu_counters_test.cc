#include "hardware/gpu_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

namespace mfu {
namespace {

using std::chrono::milliseconds;

// 989.4 TFLOP/s at 1830 MHz: an H100's bf16.
const GpuRating kRating{.peak = FlopRate{989.4e12}, .clock_hz = 1830e6};

TEST(GpuCounters, activity_times_clock_times_peak) {
  // Half of the time at two thirds of the clock is a third of the peak.
  EXPECT_NEAR(tensor_rate({.active_fraction = 0.5, .clock_hz = 1220e6}, kRating)->per_s, 329.8e12,
              1e6);
  GpuRating tiled = kRating;
  tiled.useful_share = 0.9;
  EXPECT_NEAR(tensor_rate({.active_fraction = 1, .clock_hz = 1830e6}, tiled)->per_s, 890.46e12,
              1e6);
  // A clock above the one on the datasheet gives more than the datasheet's peak.
  EXPECT_GT(tensor_rate({.active_fraction = 1, .clock_hz = 1980e6}, kRating)->per_s, 989.4e12);
}

TEST(GpuCounters, refuses_what_cannot_be) {
  for (double active : {-0.1, 1.1, 43.0, 9.2e18, std::nan("")}) {
    EXPECT_FALSE(tensor_rate({.active_fraction = active, .clock_hz = 1e9}, kRating).has_value());
  }
  for (double clock : {0.0, -1.0, 1e12, std::nan("")}) {
    EXPECT_FALSE(tensor_rate({.active_fraction = 0.5, .clock_hz = clock}, kRating).has_value());
  }
  EXPECT_FALSE(
      tensor_rate({.active_fraction = 0.5, .clock_hz = 1e9}, {.peak = FlopRate{1e12}}).has_value());
}

constexpr const char* kPage =
    "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n"
    "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
    "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-aa\",device=\"nvidia0\",modelName=\"NVIDIA H100 "
    "80GB "
    "HBM3\",Hostname=\"n1\"} 1755\n"
    "DCGM_FI_DEV_SM_CLOCK{gpu=\"1\",UUID=\"GPU-bb\",modelName=\"a, \\\"gpu=\\\"\"} 1410\n"
    "DCGM_FI_DEV_SM_CLOCK{gpu=\"2\",UUID=\"GPU-cc\"} 1200\n"
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\",UUID=\"GPU-aa\",GPU_I_ID=\"3\"} 0.99\n"
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\",UUID=\"GPU-aa\"} 0.430000\n"
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"1\",UUID=\"GPU-bb\"} 9223372036854775794\n"
    "half a line{gpu=\"0\"\n\n";

TEST(GpuCounters, read_the_exporters_page) {
  Result<TensorLook> look = parse_dcgm(kPage, "0");
  ASSERT_TRUE(look.has_value()) << look.error().message;
  EXPECT_DOUBLE_EQ(look->active_fraction, 0.43);  // the value of the GPU, not of a slice
  EXPECT_DOUBLE_EQ(look->clock_hz, 1755e6);
  EXPECT_TRUE(parse_dcgm(kPage, "GPU-aa").has_value());
}

TEST(GpuCounters, say_which_field_is_missing) {
  EXPECT_NE(parse_dcgm(kPage, "1").error().message.find("TENSOR_ACTIVE"), std::string::npos);
  EXPECT_NE(parse_dcgm(kPage, "2").error().message.find("TENSOR_ACTIVE"), std::string::npos);
  EXPECT_NE(parse_dcgm("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\"} 0.5\n", "0")
                .error()
                .message.find("SM_CLOCK"),
            std::string::npos);
  EXPECT_NE(parse_dcgm(kPage, "7").error().message.find("no GPU 7"), std::string::npos);
  EXPECT_FALSE(parse_dcgm("", "0").has_value());
  EXPECT_FALSE(parse_dcgm("<html>{}</html>", "0").has_value());
}

// A probe that gives what the test tells it, again and again.
class ToldProbe : public TensorProbe {
 public:
  struct Told {
    std::atomic<int> begun = 0, looks = 0, fail = 0, hang = 0;
    std::atomic<double> active = 0.5;
  };
  explicit ToldProbe(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  std::string name() const override { return "told"; }
  Result<TensorLook> look() override {
    ++told_->begun;
    while (told_->hang != 0) std::this_thread::sleep_for(milliseconds(5));
    ++told_->looks;
    if (told_->fail != 0) return mfu::fail(ErrorCode::io, "the exporter is gone");
    return TensorLook{.active_fraction = told_->active, .clock_hz = 1830e6};
  }

 private:
  std::shared_ptr<Told> told_;
};

void wait_for_looks(const ToldProbe::Told& told, int more) {
  for (int until = told.looks + more; told.looks < until;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// A source with such a probe, which has been read twice already.
struct ToldSource {
  FakeClock clock;
  std::shared_ptr<ToldProbe::Told> told = std::make_shared<ToldProbe::Told>();
  std::shared_ptr<CounterSource> source =
      make_tensor_source(std::make_unique<ToldProbe>(told), kRating, milliseconds(1), clock);
  ToldSource() { wait_for_looks(*told, 2); }
};

TEST(GpuCounters, are_added_up_over_time) {
  ToldSource made;
  auto& [clock, told, source] = made;
  CounterSampler sampler(source);
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::not_found);  // the first
  clock.advance(milliseconds(200));
  EXPECT_NEAR(sampler.rate()->per_s, 494.7e12, 1e9);
  told->active = 0.25;
  wait_for_looks(*told, 2);
  clock.advance(milliseconds(200));
  EXPECT_NEAR(sampler.rate()->per_s, 247.35e12, 1e9);
  EXPECT_EQ(source->name(), "told");
}

TEST(GpuCounters, an_exporter_that_is_gone_is_a_failure_and_comes_back) {
  ToldSource made;
  auto& [clock, told, source] = made;
  CounterSampler sampler(source);
  (void)sampler.rate();
  told->fail = 1;
  wait_for_looks(*told, 2);
  clock.advance(milliseconds(200));
  Result<FlopRate> gone = sampler.rate();
  ASSERT_FALSE(gone.has_value());
  EXPECT_NE(gone.error().message.find("gone"), std::string::npos);
  told->fail = 0;
  wait_for_looks(*told, 2);
  EXPECT_EQ(sampler.rate().error().code, ErrorCode::not_found);  // a first sample again
  clock.advance(milliseconds(200));
  EXPECT_NEAR(sampler.rate()->per_s, 494.7e12, 1e9);
}

TEST(GpuCounters, a_probe_that_hangs_holds_up_nobody) {
  auto told = std::make_shared<ToldProbe::Told>();
  told->hang = 1;
  auto source = make_tensor_source(std::make_unique<ToldProbe>(told), kRating, milliseconds(1));
  while (told->begun == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(source->sample().error().code, ErrorCode::not_found);
  source.reset();  // returns although the probe does not
  told->hang = 0;
}

class Gpm : public testing::Test {
 protected:
  void SetUp() override { ::setenv("MFU_NVML", MFU_FAKE_DIR "/fake_nvml.so", 1); }
  void TearDown() override {
    ::unsetenv("MFU_NVML");
    ::unsetenv("MFU_FAKE_MODE");
  }
  static void behave(const char* mode) { ::setenv("MFU_FAKE_MODE", mode, 1); }
};

TEST_F(Gpm, gives_the_activity_between_two_samples) {
  Result<std::unique_ptr<TensorProbe>> probe = open_gpm_probe("0");
  ASSERT_TRUE(probe.has_value()) << probe.error().message;
  EXPECT_EQ((*probe)->look().error().code, ErrorCode::not_found);  // one sample gives no rate
  for (int i = 0; i < 3; ++i) {
    Result<TensorLook> look = (*probe)->look();
    ASSERT_TRUE(look.has_value()) << look.error().message;
    EXPECT_DOUBLE_EQ(look->active_fraction, 0.5);
    EXPECT_DOUBLE_EQ(look->clock_hz, 1755e6);
  }
  EXPECT_TRUE(open_gpm_probe("GPU-0f1e2d3c").has_value());
}

TEST_F(Gpm, says_why_there_is_none) {
  EXPECT_FALSE(open_gpm_probe("5").has_value());
  EXPECT_FALSE(open_gpm_probe("GPU-other").has_value());
  behave("ampere");
  EXPECT_NE(open_gpm_probe("0").error().message.find("MFU_DCGM_URL"), std::string::npos);
  behave("init_fails");
  EXPECT_NE(open_gpm_probe("0").error().message.find("mismatch"), std::string::npos);
  ::setenv("MFU_NVML", MFU_FAKE_DIR "/fake_nvml_old.so", 1);
  behave("");
  EXPECT_NE(open_gpm_probe("0").error().message.find("newer"), std::string::npos);
  ::setenv("MFU_NVML", "/nowhere.so", 1);
  EXPECT_NE(open_gpm_probe("0").error().message.find("not there"), std::string::npos);
}

TEST_F(Gpm, error_codes_later_on_are_failures) {
  Result<std::unique_ptr<TensorProbe>> probe = open_gpm_probe("0");
  ASSERT_TRUE(probe.has_value());
  (void)(*probe)->look();
  behave("gpm_blank");
  EXPECT_NE((*probe)->look().error().message.find("no tensor activity"), std::string::npos);
  behave("errors");  // the clock cannot be read
  EXPECT_FALSE((*probe)->look().has_value());
  behave("gpm_gone");
  EXPECT_FALSE((*probe)->look().has_value());
  behave("");
  EXPECT_EQ((*probe)->look().error().code, ErrorCode::not_found);  // the source starts again
  EXPECT_TRUE((*probe)->look().has_value());
}

TEST(GpuOfThisRank, is_what_is_visible) {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(gpu_of_this_rank(), "0");
  ::setenv("LOCAL_RANK", "2", 1);
  EXPECT_EQ(gpu_of_this_rank(), "2");
  ::setenv("CUDA_VISIBLE_DEVICES", "4,5, GPU-x", 1);
  EXPECT_EQ(gpu_of_this_rank(), "GPU-x");
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_EQ(gpu_of_this_rank(), "7");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("LOCAL_RANK");
}

}  // namespace
}  // namespace mfu
