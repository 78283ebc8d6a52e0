#include <gtest/gtest.h>

#include <random>

#include "attribution/attribute.h"
#include "attribution/drawn_trace.h"
#include "attribution/reference.h"
#include "attribution/trace_text.h"

namespace mfu {
namespace {

using enum LedgerLine;

AttributionOptions small_options() {
  AttributionOptions options;
  options.peak = FlopRate{1e12};  // one FLOP in each picosecond
  options.dispatch_ns = 6;
  options.interpreter_ns = 12;
  options.window.policy = WindowPolicy::all;
  return options;
}

RankAttribution only_rank(const Trace& trace, const AttributionOptions& options) {
  Result<Attribution> found = attribute({&trace, 1}, options);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  return found->ranks.at(0);
}

RankAttribution explained(const TraceText& text, const AttributionOptions& options) {
  Result<Trace> trace = text.read();
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return only_rank(*trace, options);
}

std::string words(const Ledger& ledger) {
  std::string text;
  for (std::size_t i = 0; i < kLedgerLineCount; ++i) {
    LedgerLine line = static_cast<LedgerLine>(i);
    text += fmt::format("{} {}\n", name_of(line), ledger[line]);
  }
  return text;
}

// A random trace of a few hundred nanoseconds that contains every kind of event the rules tell
// apart.
class RandomTrace {
 public:
  explicit RandomTrace(unsigned seed) : random_(seed) {}

  TraceText make() {
    std::int64_t device_free[2] = {0, 0};
    std::int64_t now[2] = {5, 7};
    std::size_t kernels = 3 + pick(14);
    if (chance(3)) text_.frame("train.py(12): main", 3, 60 + static_cast<int>(pick(200)), 1);
    for (std::size_t i = 0; i < kernels; ++i) {
      int thread = chance(4) ? 1 : 0;
      now[thread] = std::max(now[thread], chance(5) ? now[1 - thread] : 0) + pause();
      if (chance(6)) wait(now[thread], thread + 1);
      int stream = chance(3) ? 1 : 0;
      launch(now[thread], thread + 1, stream, device_free[stream]);
    }
    return std::move(text_);
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }
  bool chance(unsigned one_in) { return pick(one_in) == 0; }
  std::int64_t pause() {
    static const std::size_t kMost[] = {2, 8, 20, 45};
    return static_cast<std::int64_t>(pick(kMost[pick(4)]));
  }

  void wait(std::int64_t& now, int thread) {
    std::int64_t duration = 2 + pause();
    switch (pick(4)) {
      case 0:
        text_.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", now, duration,
                    thread);
        if (chance(2)) text_.op("aten::stack", now, duration / 2, thread);
        break;
      case 1:
        text_.call("cudaStreamSynchronize", now, duration, thread, ++correlation_);
        break;
      case 2:
        text_.op("aten::item", now, duration + 4, thread);
        if (chance(2))
          text_.call("cudaStreamSynchronize", now + 1, duration, thread, ++correlation_);
        now += 4;
        break;
      default:
        text_.op("aten::view", now, duration, thread);
    }
    now += duration;
  }

  void launch(std::int64_t& now, int thread, int stream, std::int64_t& free) {
    std::int64_t inside = static_cast<std::int64_t>(pick(4));
    std::int64_t called = static_cast<std::int64_t>(1 + pick(5));
    int size = 1 << pick(5);
    int correlation = ++correlation_;
    std::size_t kind = pick(6);
    std::int64_t length = inside + called + static_cast<std::int64_t>(pick(4));
    if (kind < 2) {
      text_.mm(now, length, thread, size, 16, 16);
    } else if (kind == 2) {
      text_.op("aten::mm", now, length, thread);
    } else if (kind == 3) {
      text_.op("aten::add", now, length, thread);
    }
    bool recorded = !chance(7);
    if (recorded) {
      text_.call(kind == 5 ? "cudaMemcpyAsync" : "cudaLaunchKernel", now + inside, called, thread,
                 correlation);
    }
    // A kernel may begin before its launch, because clocks differ, and may overlap the next kernel.
    std::int64_t start = std::max(free, now + inside + called + pause() - (chance(12) ? 9 : 0));
    start = std::max<std::int64_t>(start, 1);
    std::int64_t duration = static_cast<std::int64_t>(pick(25));
    if (kind == 5) {
      text_.copy(start, duration, stream + 7, correlation);
    } else if (kind == 4) {
      text_.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", start, duration, stream + 7,
                   correlation);
    } else {
      text_.kernel(chance(3) ? "volta_sgemm_64x64" : "vectorized_elementwise_kernel", start,
                   duration, stream + 7, correlation);
    }
    free = start + duration - (chance(9) ? 3 : 0);
    now += length;
  }

  std::mt19937 random_;
  TraceText text_;
  int correlation_ = 0;
};

TEST(Ledger, equals_the_rules_applied_to_each_nanosecond_on_thousands_of_random_traces) {
  AttributionOptions options = small_options();
  Ledger seen;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Result<Trace> trace = RandomTrace(seed).make().read();
    ASSERT_TRUE(trace.has_value()) << seed << trace.error().message;
    RankAttribution rank = only_rank(*trace, options);
    ASSERT_EQ(rank.ledger.total_ns(), rank.window.duration_ns()) << seed;
    Ledger expected = reference_ledger(*trace, rank.window, options);
    ASSERT_EQ(words(rank.ledger), words(expected)) << "seed " << seed;
    seen += rank.ledger;
  }
  for (LedgerLine line : {matmul_at_peak, matmul_below_peak, matmul_flop_unknown, other_kernels,
                          exposed_communication_transfer, exposed_copy, idle_data, idle_launch,
                          idle_synchronization, idle_unknown}) {
    EXPECT_GT(seen[line], 1000) << "the random traces do not reach " << name_of(line);
  }
}

TEST(Ledger, equals_the_rules_where_events_overlap_as_they_never_should) {
  AttributionOptions options = small_options();
  std::mt19937 random(7);
  int compared = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::uint8_t> bytes(10 + random() % 70);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    TraceText text = drawn_trace(bytes);
    Result<Trace> trace = text.read();
    if (!trace.has_value() || trace->device.size() == 0) continue;
    Result<Attribution> found = attribute({&*trace, 1}, options);
    if (!found.has_value()) continue;
    const RankAttribution& rank = found->ranks.at(0);
    ASSERT_EQ(words(rank.ledger), words(reference_ledger(*trace, rank.window, options)))
        << text.text();
    ++compared;
  }
  EXPECT_GT(compared, 3000);
}

TEST(Ledger, a_window_of_a_part_equals_the_rules_too) {
  AttributionOptions options = small_options();
  for (unsigned seed = 0; seed < 300; ++seed) {
    Result<Trace> trace = RandomTrace(seed).make().read();
    ASSERT_TRUE(trace.has_value());
    Window all = only_rank(*trace, small_options()).window;
    options.window.policy = WindowPolicy::range;
    options.window.from_ns = all.start_ns;
    options.window.to_ns = all.start_ns + all.duration_ns() / 2 + 1;
    RankAttribution rank = only_rank(*trace, options);
    EXPECT_EQ(words(rank.ledger), words(reference_ledger(*trace, rank.window, options))) << seed;
  }
}

// 10 ns of matmul, then the events that fill the gap, then another kernel that was launched at
// once.
TraceText training(std::int64_t loading, std::int64_t waiting) {
  TraceText text;
  text.mm(0, 10'000, 1, 16, 16, 16);
  text.call("cudaLaunchKernel", 1'000, 5'000, 1, 1);
  text.kernel("volta_sgemm_64x64", 10'000, 20'000, 7, 1);
  std::int64_t now = 30'000;
  if (loading > 0) {
    text.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", now, loading, 1);
    now += loading;
  }
  if (waiting > 0) {
    text.call("cudaDeviceSynchronize", now, waiting, 1, 9);
    now += waiting;
  }
  text.op("aten::add", now, 20'000, 1);
  text.call("cudaLaunchKernel", now + 3'000, 5'000, 1, 2);
  text.kernel("vectorized_elementwise_kernel", now + 10'000, 30'000, 7, 2);
  return text;
}

AttributionOptions plain_options() {
  AttributionOptions options;
  options.peak = FlopRate{1e9};
  return options;
}

TEST(Ledger, a_longer_data_loader_range_moves_just_that_much_to_idle_data) {
  RankAttribution before = explained(training(50'000, 0), plain_options());
  RankAttribution after = explained(training(90'000, 0), plain_options());
  EXPECT_EQ(before.ledger[idle_data], 50'000);
  EXPECT_EQ(after.ledger[idle_data], 90'000);
  Ledger rest = after.ledger;
  rest[idle_data] -= 40'000;
  EXPECT_EQ(words(rest), words(before.ledger));
  EXPECT_EQ(after.window.duration_ns(), before.window.duration_ns() + 40'000);
  ASSERT_FALSE(after.findings.empty());
  EXPECT_EQ(after.findings.front().cause, Cause::data_loading);
  EXPECT_EQ(after.findings.front().gain_ceiling_ns, 90'000);
}

TEST(Ledger, an_inserted_synchronise_moves_just_that_much_and_the_ranking_follows) {
  RankAttribution before = explained(training(50'000, 0), plain_options());
  RankAttribution after = explained(training(50'000, 200'000), plain_options());
  Ledger rest = after.ledger;
  EXPECT_EQ(rest[idle_synchronization], before.ledger[idle_synchronization] + 200'000);
  rest[idle_synchronization] -= 200'000;
  EXPECT_EQ(words(rest), words(before.ledger));
  EXPECT_EQ(before.findings.front().cause, Cause::data_loading);
  EXPECT_EQ(after.findings.front().cause, Cause::synchronization);
}

TEST(Ledger, by_hand) {
  // mm 16×16×16 is 8192 FLOP. At 1e9 FLOP/s this takes 8192 ns of the 20 000 that it took.
  RankAttribution rank = explained(training(50'000, 0), plain_options());
  EXPECT_EQ(rank.ledger[matmul_at_peak], 8192);
  EXPECT_EQ(rank.ledger[matmul_below_peak], 20'000 - 8192);
  EXPECT_EQ(rank.ledger[other_kernels], 30'000);
  EXPECT_EQ(rank.ledger[idle_data], 50'000);
  EXPECT_EQ(rank.ledger[idle_launch], 10'000);
  EXPECT_EQ(rank.window.duration_ns(), 110'000);
  EXPECT_EQ(rank.model_flop, FlopCount(8192));
  EXPECT_NEAR(*rank.mfu, 8192.0 / 110'000, 1e-12);
}

TEST(Findings, a_device_that_is_idle_for_no_reason_the_trace_shows_gets_one_all_the_same) {
  TraceText text;  // 1 ms of work at both ends of 100 ms, launches not recorded
  text.kernel("volta_sgemm_64x64", 0, 1'000'000, 7, 1);
  text.kernel("volta_sgemm_64x64", 99'000'000, 1'000'000, 7, 2);
  RankAttribution rank = explained(text, plain_options());
  EXPECT_EQ(rank.ledger[idle_unknown], 98'000'000);
  ASSERT_FALSE(rank.findings.empty());
  EXPECT_EQ(rank.findings.front().code, "idle_unknown");
  EXPECT_EQ(rank.findings.front().cause, Cause::unknown);
  EXPECT_EQ(rank.findings.front().gain_ceiling_ns, 98'000'000);
}

TEST(Findings, a_few_percent_without_a_reason_give_no_finding) {
  TraceText text;
  text.kernel("volta_sgemm_64x64", 0, 49'000'000, 7, 1);
  text.kernel("volta_sgemm_64x64", 52'000'000, 48'000'000, 7, 2);
  for (const Finding& finding : explained(text, plain_options()).findings) {
    EXPECT_NE(finding.code, "idle_unknown");
  }
}

TEST(Ledger, steps_fill_the_window_and_add_up_to_it) {
  TraceText text;
  for (int i = 0; i < 4; ++i) {
    std::int64_t start = i * 100'000;
    text.range(fmt::format("ProfilerStep#{}", i + 7), start, 100'000, 1);
    text.mm(start + 5'000, 20'000, 1, 16, 16, 16);
    text.call("cudaLaunchKernel", start + 6'000, 5'000, 1, i + 1);
    text.kernel("volta_sgemm_64x64", start + 80'000, 50'000, 7, i + 1);
  }
  AttributionOptions options = plain_options();
  RankAttribution rank = explained(text, options);
  EXPECT_EQ(rank.window.policy, WindowPolicy::steps);
  EXPECT_EQ(rank.window.steps, 4u);
  EXPECT_EQ(rank.window.start_ns, 80'000);
  EXPECT_EQ(rank.window.end_ns, 430'000);
  ASSERT_EQ(rank.steps.size(), 4u);
  Ledger sum;
  std::int64_t reached = rank.window.start_ns;
  for (const StepLedger& step : rank.steps) {
    EXPECT_EQ(step.start_ns, reached);
    EXPECT_EQ(step.ledger.total_ns(), step.end_ns - step.start_ns);
    EXPECT_EQ(step.ledger[matmul_at_peak], 8192);
    reached = step.end_ns;
    sum += step.ledger;
  }
  EXPECT_EQ(reached, rank.window.end_ns);
  EXPECT_EQ(words(sum), words(rank.ledger));
}

TEST(Ledger, an_unknown_device_leaves_the_peak_out_and_says_what_to_pass) {
  TraceText text = training(0, 0);
  text.device_name = "AMD Radeon Graphics";
  RankAttribution rank = explained(text, {});
  EXPECT_EQ(rank.ledger[matmul_at_peak], 0);
  EXPECT_EQ(rank.ledger[matmul_below_peak], 0);
  EXPECT_EQ(rank.ledger[matmul_flop_unknown], 20'000);
  EXPECT_FALSE(rank.mfu.has_value());
  EXPECT_EQ(rank.model_flop, FlopCount(8192));
  ASSERT_FALSE(rank.notes.empty());
  EXPECT_EQ(rank.notes.front(), Note("device_not_known", {{"device", "AMD Radeon Graphics"}}));
}

TEST(Ledger, the_wait_of_a_collective_is_what_it_took_longer_than_the_last_rank) {
  std::vector<Trace> traces;
  for (int rank : {0, 1}) {
    TraceText text;
    text.set_rank(rank, 2);
    text.op("c10d::allreduce_", 0, 9'000, 1);
    text.call("cudaLaunchKernel", 1'000, 5'000, 1, 1);
    text.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", rank == 0 ? 10'000 : 70'000,
                rank == 0 ? 90'000 : 30'000, 7, 1);
    Result<Trace> trace = text.read(fmt::format("rank{}.json", rank));
    ASSERT_TRUE(trace.has_value());
    traces.push_back(std::move(trace).value());
  }
  Result<Attribution> found = attribute(traces, {});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ranks[0].ledger[exposed_communication_wait], 60'000);
  EXPECT_EQ(found->ranks[0].ledger[exposed_communication_transfer], 30'000);
  EXPECT_EQ(found->ranks[1].ledger[exposed_communication_wait], 0);
  EXPECT_EQ(found->ranks[1].ledger[exposed_communication_transfer], 30'000);
  EXPECT_EQ(found->slowest, 1u);
  EXPECT_EQ(found->ledger.total_ns(), 120'000);
}

TEST(Ledger, without_device_events_the_cpu_is_the_device) {
  TraceText text;
  text.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30'000, 40'000, 1);
  text.op("aten::stack", 35'000, 20'000, 1);  // data loading, not work
  text.mm(0, 20'000, 1, 16, 16, 16);
  text.op("aten::relu", 75'000, 25'000, 1);
  RankAttribution rank = explained(text, plain_options());
  EXPECT_TRUE(rank.cpu);
  EXPECT_EQ(rank.window.duration_ns(), 100'000);
  EXPECT_EQ(rank.ledger[matmul_at_peak], 8192);
  EXPECT_EQ(rank.ledger[matmul_below_peak], 20'000 - 8192);
  EXPECT_EQ(rank.ledger[other_kernels], 25'000);
  EXPECT_EQ(rank.ledger[idle_data], 40'000);
  EXPECT_EQ(rank.ledger[idle_launch], 15'000);
}

// A program that ends in the middle of a step leaves its mark. The observer counted whole steps.
TEST(Ledger, a_step_that_the_programs_end_cut_is_left_out) {
  TraceText text;
  for (int step = 0; step < 3; ++step) {
    text.range(fmt::format("ProfilerStep#{}", step), 100'000 * step, 90'000, 1);
    text.mm(100'000 * step + 10'000, 20'000, 1, 16, 16, 16);
  }
  AttributionOptions options = plain_options();
  EXPECT_EQ(explained(text, options).window.steps, 3u);
  ProfiledWindow& counted = options.counted.emplace_back();
  counted.trace = "test.json";
  counted.steps = 2;
  RankAttribution rank = explained(text, options);
  EXPECT_EQ(rank.window.steps, 2u);
  EXPECT_EQ(rank.steps.size(), 2u);
  EXPECT_EQ(rank.ledger.total_ns(), rank.window.duration_ns());
  EXPECT_EQ(rank.window.duration_ns(), 120'000);  // to the end of the second matmul
}

TEST(Ledger, an_operator_around_a_matmul_is_said_with_the_time_of_its_own) {
  TraceText text;
  text.op("aten::linear", 0, 30'000, 1);
  text.mm(5'000, 20'000, 1, 16, 16, 16);
  text.op("aten::relu", 40'000, 12'000, 1);
  RankAttribution rank = explained(text, plain_options());
  ASSERT_EQ(rank.kernels.size(), 3u);
  EXPECT_EQ(rank.kernels[0].name, "aten::mm");
  EXPECT_EQ(rank.kernels[0].duration_ns, 20'000);
  EXPECT_EQ(rank.kernels[1].name, "aten::relu");
  EXPECT_EQ(rank.kernels[1].duration_ns, 12'000);
  EXPECT_EQ(rank.kernels[2].name, "aten::linear");
  EXPECT_EQ(rank.kernels[2].duration_ns, 10'000);
  EXPECT_EQ(rank.ledger[other_kernels], 22'000);
}

// A library launches its GEMM past the dispatcher, so the trace has the kernel and no operator
// around it.
TEST(Coverage, a_matmul_kernel_that_no_operator_launched_is_named_with_its_time) {
  TraceText text;
  text.mm(10, 20, 1, 8, 8, 8);
  text.call("cudaLaunchKernel", 12, 4, 1, 1);
  text.kernel("ampere_sgemm_64x64_nn", 30, 100, 7, 1);
  text.call("cudaLaunchKernel", 40, 4, 1, 2);
  text.kernel("nvjet_tst_128x64_64x8_TNT", 140, 300, 7, 2);
  text.kernel("nvjet_tst_128x64_64x8_TNT", 440, 300, 7, 3);
  RankAttribution rank = explained(text, small_options());
  ASSERT_EQ(rank.coverage.uncounted.size(), 1u);
  const UncountedLine& line = rank.coverage.uncounted[0];
  EXPECT_EQ(line.name, "nvjet_tst_128x64_64x8_TNT");
  EXPECT_EQ(line.calls, 2u);
  EXPECT_EQ(line.duration_ns, 600);
  auto note = std::find_if(rank.notes.begin(), rank.notes.end(),
                           [](const Note& each) { return each.code == "lower_bound_by"; });
  ASSERT_NE(note, rank.notes.end());
  EXPECT_EQ(note->values[0].second, NoteValue(600.0 / 700.0));  // of the matmuls' 700 ns
}

// The name of a Triton kernel does not say that it is a matmul. A user's formula for it does. If
// the trace has the kernel's arguments (compiled programs record them), it is counted.
TEST(Coverage, a_triton_kernel_with_a_formula_is_a_matmul) {
  TraceText text;
  std::string inputs = R"("Input Dims":[[4,8],[8,2]],"Input type":["float","float"])";
  text.op("my_fused_thing", 10, 20, 1, inputs);
  text.call("cudaLaunchKernel", 12, 4, 1, 1);
  text.kernel("my_fused_thing", 30, 100, 7, 1);
  text.kernel("other_thing_0d1d2de", 140, 300, 7, 2);
  RankAttribution before = explained(text, small_options());
  EXPECT_EQ(before.ledger[other_kernels], 400);
  for (const char* name : {"triton::my_fused_thing", "triton::other_thing"}) {
    UserFormula formula{
        .name = name, .flop = "2*a0.shape[0]*a0.shape[1]*a1.shape[1]", .where = {}, .type = {}};
    ASSERT_TRUE(add_formula(formula).has_value());
  }
  RankAttribution rank = explained(text, small_options());
  EXPECT_EQ(rank.model_flop, FlopCount(2 * 4 * 8 * 2));
  EXPECT_EQ(rank.ledger[matmul_flop_unknown], 300);
  ASSERT_EQ(rank.coverage.uncounted.size(), 1u);
  EXPECT_EQ(rank.coverage.uncounted[0].name, "other_thing_0d1d2de");
}

TEST(Ledger, neither_device_events_nor_operators_is_an_error_that_says_what_to_record) {
  TraceText text;
  text.range("ProfilerStep#1", 0, 100, 1);
  Result<Trace> trace = text.read("nothing.json");
  ASSERT_TRUE(trace.has_value());
  Result<Attribution> found = attribute({&*trace, 1}, {});
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::malformed);
  EXPECT_NE(found.error().message.find("nothing.json"), std::string::npos);
}

TEST(Ledger, truncated_is_partial) {
  std::string whole = training(50'000, 0).text();
  Result<Trace> trace = read_trace_bytes(whole.substr(0, whole.size() - 260), "cut.json");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  Result<Attribution> found = attribute({&*trace, 1}, plain_options());
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->partial);
}

TEST(Window, is_read_as_people_write_it) {
  EXPECT_EQ(parse_window("all")->policy, WindowPolicy::all);
  EXPECT_EQ(parse_window("steps")->policy, WindowPolicy::steps);
  WindowQuestion range = *parse_window("1.5ms:2s");
  EXPECT_EQ(range.from_ns, 1'500'000);
  EXPECT_TRUE(range.from_relative);
  EXPECT_EQ(range.to_ns, 2'000'000'000);
  range = *parse_window("1700000000000000123:");
  EXPECT_EQ(range.from_ns, 1700000000000000123);
  EXPECT_FALSE(range.from_relative);
  EXPECT_FALSE(range.to_ns.has_value());
  for (const char* wrong : {"", "some", "1.5:2", "a:b", "1e400s:", "-1:5"}) {
    EXPECT_FALSE(parse_window(wrong).has_value()) << wrong;
  }
}

TEST(Window, that_holds_nothing_is_refused) {
  AttributionOptions options = plain_options();
  options.window = *parse_window("10s:20s");
  Result<Trace> trace = training(0, 0).read();
  ASSERT_TRUE(trace.has_value());
  Result<Attribution> found = attribute({&*trace, 1}, options);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mfu
