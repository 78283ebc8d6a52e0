// Run directories and regions that mfu 0.1.0 left behind.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "record/codec.h"
#include "record/drain.h"
#include "record/frames.h"
#include "record/region_open.h"
#include "record/testing.h"

namespace mfu {
namespace {

using namespace mfu::testing;

const std::string kGolden = MFU_SOURCE_DIR "/tests/golden";

TEST(Older, a_run_directory_of_0_1_0_is_read) {
  auto run = read_run(kGolden + "/run-0.1.0");
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_FALSE(run->partial);
  ASSERT_EQ(run->processes.size(), 1u);
  const ProcessRecord& process = run->processes[0];
  ASSERT_EQ(process.steps.size(), 6u);
  EXPECT_EQ(hardware_flop(process), 2587648u);
  EXPECT_EQ(process.tokens, 7u * 32u);
  EXPECT_TRUE(process.ended);
  EXPECT_TRUE(process.phases.empty());
  EXPECT_TRUE(process.steps[0].passes.empty());
}

// Writes its bytes as a file into `folder`.
std::string region_file_in(const Folder& folder) {
  std::string path = folder.path() + "/vm-11653-1188606015531.region";
  std::string command = "gzip -dc '" + kGolden + "/region-1.gz' > '" + path + "'";
  if (std::system(command.c_str()) != 0) std::abort();
  return path;
}

TEST(Older, a_region_of_layout_1_is_copied_as_layout_2) {
  Folder folder;
  auto region = copy_region(region_file_in(folder));
  ASSERT_TRUE(region.has_value()) << region.error().message;
  ProcessRecord process;
  std::vector<std::string> damage;
  decode_process(std::string(kFileMagic) + frames_of(*region.value()), "", process, damage);
  EXPECT_TRUE(damage.empty());
  EXPECT_EQ(process.pid, 11653u);
  EXPECT_EQ(process.steps.size(), 6u);
  EXPECT_EQ(hardware_flop(process), 2587648u);
  EXPECT_FALSE(process.ended);
}

TEST(Older, a_region_of_layout_1_is_drained) {
  Folder folder;
  RunPlaces places = places_in(folder);
  std::filesystem::copy_file(region_file_in(folder), places.region_folder + "/vm-1-1.region");
  Drainer drainer(places);
  drainer.drain();
  drainer.finish();
  EXPECT_FALSE(std::filesystem::exists(places.region_folder));
  auto run = read_run(places.directory);
  ASSERT_TRUE(run.has_value());
  ASSERT_EQ(run->processes.size(), 1u);
  EXPECT_EQ(run->processes[0].steps.size(), 6u);
  EXPECT_EQ(hardware_flop(run->processes[0]), 2587648u);
}

}  // namespace
}  // namespace mfu
