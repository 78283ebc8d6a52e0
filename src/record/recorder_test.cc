#include "record/recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "record/region_file.h"
#include "record/region_open.h"
#include "record/region_sum.h"
#include "record/testing.h"

namespace mfu {
namespace {

using namespace mfu::testing;

TEST(Region, is_small_enough_to_have_in_every_process) {
  EXPECT_LT(sizeof(Region), 7u << 19);
}

TEST(Recorder, counts_by_operator_and_type_in_private_memory) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    unsigned mm = recorder.operator_id("aten::mm");
    recorder.count(mm, 0, {.hardware_flop = 5});  // before the start, so nobody asked
    if (recorder.start({}) || !recorder.started()) _exit(1);
    unsigned bf16 = recorder.type_id("bf16"), fp32 = recorder.type_id("fp32");
    if (recorder.operator_id("aten::mm") != mm || bf16 == fp32) _exit(2);
    recorder.count(mm, bf16, {.hardware_flop = 10, .model_flop = 8, .recomputed_flop = 2});
    recorder.count(mm, bf16, {.hardware_flop = 10, .model_flop = 10});
    recorder.count(mm, fp32, {.hardware_flop = 1, .model_flop = 1, .bytes = 7});
    auto totals = recorder.totals();
    if (totals.size() != 2 || totals[0].type != "bf16" || totals[0].calls != 2) _exit(3);
    if (totals[0].hardware_flop != 20 || totals[0].model_flop != 18) _exit(4);
    if (totals[0].recomputed_flop != 2 || totals[1].bytes != 7) _exit(5);
  }));
}

// 5 × 2^63 is 2^65 + 2^63: the high half is 2, the low half 2^63. No reader may see a smaller value
// than it saw before.
TEST(Recorder, carries_beyond64_bits_without_a_torn_read) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    std::atomic<bool> done = false, torn = false;
    std::thread reader([&] {
      FlopCount last;
      while (!done) {
        auto totals = recorder.totals();
        FlopCount now = totals.empty() ? FlopCount() : totals[0].hardware_flop;
        if (now < last) torn = true;
        last = now;
      }
    });
    for (int i = 0; i < 20000; ++i) {
      recorder.count(mm, fp32, {.hardware_flop = 1ull << 63, .model_flop = 1});
    }
    done = true;
    reader.join();
    auto totals = recorder.totals();
    FlopCount expected = FlopCount(20000) * (1ull << 63);
    if (torn || totals[0].hardware_flop != expected || totals[0].model_flop != 20000) _exit(1);
  }));
}

TEST(Recorder, adds_up_threads_that_come_and_go) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    for (int round = 0; round < 20; ++round) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&] { one_step(recorder, mm, fp32, 100); });
      }
      for (std::thread& thread : threads) thread.join();
    }
    auto totals = recorder.totals();
    if (totals.size() != 1 || totals[0].calls != 20 * 16 * 100) _exit(1);
    if (totals[0].hardware_flop != FlopCount(20 * 16 * 100) * 1000) _exit(2);
    // A thread that ends hands its block on, so there are never more blocks than threads at one
    // time.
    if (recorder.region()->header.blocks > 17) _exit(3);
  }));
}

TEST(Recorder, shares_a_block_among_threads_beyond_the_table) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    std::atomic<int> arrived = 0;
    constexpr int kThreads = kRegionBlocks + 20;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        recorder.count(mm, fp32, {.hardware_flop = 1});
        for (++arrived; arrived < kThreads;) std::this_thread::yield();
        for (int call = 0; call < 500; ++call) recorder.count(mm, fp32, {.hardware_flop = 1});
      });
    }
    for (std::thread& thread : threads) thread.join();
    const RegionBlock& shared = recorder.region()->blocks[kRegionBlocks];
    if (recorder.totals()[0].hardware_flop != kThreads * 501) _exit(1);
    if (shared.cells[0].calls < 20) _exit(2);
  }));
}

TEST(Recorder, keeps_totals_by_type_exact_beyond_its_tables) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    for (int i = 0; i < 400; ++i) {
      unsigned id = recorder.operator_id("custom::op" + std::to_string(i));
      unsigned type = recorder.type_id(i % 2 == 0 ? "fp32" : "bf16");
      recorder.count(id, type, {.hardware_flop = 3});
    }
    FlopCount fp32, bf16;
    bool others = false;
    for (const auto& total : recorder.totals()) {
      (total.type == "fp32" ? fp32 : bf16) += total.hardware_flop;
      others = others || total.name == "(other operators)";
    }
    if (fp32 != 600 || bf16 != 600 || !others) _exit(1);
    for (int i = 0; i < 40; ++i) recorder.type_id("t" + std::to_string(i));
    if (recorder.type_id("t39") != kRegionTypes - 1) _exit(2);
  }));
}

TEST(Recorder, drops_and_counts_when_nobody_drains) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    for (int i = 0; i < 5000; ++i) one_step(recorder, mm, fp32);
    const RegionHeader& header = recorder.region()->header;
    if (header.step_head != kRegionSteps || header.steps_dropped != 5000 - kRegionSteps) _exit(1);
  }));
}

TEST(Recorder, puts_what_one_step_did_into_its_record) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm");
    unsigned fp32 = recorder.type_id("fp32"), bf16 = recorder.type_id("bf16");
    one_step(recorder, mm, fp32, 3);
    recorder.count(mm, bf16, {.hardware_flop = 50, .model_flop = 40, .recomputed_flop = 10});
    recorder.add_pass({.tokens = 512, .samples = 4, .token_rows = 50257});
    recorder.add_phase(RegionPhase::data_wait, 11);
    recorder.end_step({.kind = StepKind::marked, .start_ns = 5, .end_ns = 25, .index = 9});
    const StepRecord& first = recorder.region()->steps[0];
    const StepRecord& second = recorder.region()->steps[1];
    if (first.types != 1 || first.flop[0].hardware_flop != 3000 || first.tokens != 0) _exit(1);
    if (second.types != 1 || second.flop[0].hardware_flop != 50) _exit(2);
    if (second.flop[0].type != bf16 || second.flop[0].recomputed_flop != 10) _exit(3);
    if (second.tokens != 512 || second.samples != 4 || second.phase_ns[0] != 11) _exit(4);
    if (second.start_ns != 5 || second.end_ns != 25 || second.index != 9) _exit(5);
    if (second.sequence != 1 || second.kind != StepKind::marked) _exit(6);
  }));
}

TEST(Recorder, moves_from_private_memory_to_a_file_with_what_it_counted) {
  Folder folder;
  EXPECT_TRUE(in_child([&] {
    Recorder& recorder = Recorder::process();
    recorder.start({});
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    one_step(recorder, mm, fp32, 2);
    if (!recorder.start({.folder = folder.path()})) _exit(1);
    one_step(recorder, mm, fp32, 3);
  }));
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    auto region = copy_region(file.path());
    ASSERT_TRUE(region.has_value());
    EXPECT_EQ(sum_cells(*region.value())[0].calls, 5u);
    EXPECT_EQ(region.value()->header.step_head, 2u);
  }
}

TEST(Recorder, counts_on_where_no_file_can_be_made) {
  EXPECT_TRUE(in_child([] {
    Recorder& recorder = Recorder::process();
    if (recorder.start({.folder = "/proc/no/such/folder"})) _exit(1);
    if (recorder.why().find("/proc/no/such/folder") == std::string::npos) _exit(2);
    unsigned mm = recorder.operator_id("aten::mm"), fp32 = recorder.type_id("fp32");
    one_step(recorder, mm, fp32);
    if (recorder.totals()[0].hardware_flop != 1000) _exit(3);
  }));
}

}  // namespace
}  // namespace mfu
