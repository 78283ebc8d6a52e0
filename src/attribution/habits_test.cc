#include "attribution/habits.h"

#include <gtest/gtest.h>

#include "attribution/attribute.h"
#include "attribution/trace_text.h"

namespace mfu {
namespace {

// A step of a CPU, operator after operator.
class StepOfCpu {
 public:
  TraceText text;

  void op(const std::string& name, std::int64_t duration_ns, const std::string& arguments = "") {
    text.op(name, now_, duration_ns, 1, arguments);
    now_ += duration_ns + kBetweenNs;
  }
  void mm() {
    text.mm(now_, 20'000, 1, 16, 16, 16);
    now_ += 20'000 + kBetweenNs;
  }
  void backward() {
    text.op("autograd::engine::evaluate_function: MmBackward0", now_, 30'000, 1);
    text.mm(now_ + 2'000, 20'000, 1, 16, 16, 16);
    now_ += 30'000 + kBetweenNs;
  }
  std::int64_t now() const { return now_; }

  RankAttribution explained() const {
    AttributionOptions options;
    options.peak = FlopRate{1e12};
    options.window.policy = WindowPolicy::all;
    Result<Trace> trace = text.read();
    EXPECT_TRUE(trace.has_value());
    return attribute({&*trace, 1}, options)->ranks.at(0);
  }
  std::optional<Finding> finding(std::string_view code) const {
    for (const Finding& each : explained().findings) {
      if (each.code == code) return each;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t kBetweenNs = 1'000;
  std::int64_t now_ = 0;
};

bool shows(const Finding& finding, std::string_view code) {
  return std::any_of(finding.evidence.begin(), finding.evidence.end(),
                     [&](const Note& each) { return each.code == code; });
}

bool advises(const Finding& finding, std::string_view fix) {
  return std::find(finding.fixes.begin(), finding.fixes.end(), fix) != finding.fixes.end();
}

TEST(Updates, of_many_tensors_one_after_another_are_the_optimizer_without_torch_optim_too) {
  StepOfCpu step;
  step.mm();
  step.backward();
  for (int tensor = 0; tensor < 14; ++tensor) {
    step.op("aten::mul_", 4'000);
    step.op("aten::add_", 4'000);
    step.op("aten::mul", 4'000);
    step.op("aten::sub_", 4'000);
  }
  step.mm();
  std::optional<Finding> optimizer = step.finding("optimizer");
  ASSERT_TRUE(optimizer.has_value());
  EXPECT_TRUE(shows(*optimizer, "updates_by_hand"));
  EXPECT_EQ(optimizer->fixes, std::vector<std::string>{"own_optimizer"});
}

// The blocks of a residual network add in place, with a matmul between two.
TEST(Updates, are_not_in_place_operators_between_matmuls) {
  StepOfCpu step;
  for (int layer = 0; layer < 40; ++layer) {
    step.mm();
    step.op("aten::add_", 9'000);
  }
  EXPECT_FALSE(step.finding("optimizer").has_value());
}

// Such a model computes in place, and a backward belongs to each operator.
TEST(Updates, are_not_operators_that_a_backward_differentiates) {
  StepOfCpu step;
  for (int i = 0; i < 40; ++i) {
    step.op("aten::mul_", 4'000, fmt::format(R"("Sequence number":{})", 100 + i));
  }
  for (int i = 39; i >= 0; --i) {
    step.op("MulBackward0", 4'000,
            fmt::format(R"("Sequence number":{},"Fwd thread id":1)", 100 + i));
  }
  step.mm();
  EXPECT_FALSE(step.finding("optimizer").has_value());
}

// Takes one row out of the first dimension of a tensor.
void take_row(StepOfCpu& step, int rows, int row) {
  step.op("aten::select", 3'000,
          fmt::format(R"("Input Dims":[[{},8],[],[]],"Input type":["float","Scalar","Scalar"],)"
                      R"("Concrete Inputs":["","0","{}"])",
                      rows, row));
}

TEST(Rows, that_a_loop_takes_one_by_one_are_to_be_computed_together) {
  StepOfCpu step;
  for (int row = 0; row < 40; ++row) {
    take_row(step, 40, row);
    step.op("aten::log", 3'000);
  }
  step.mm();
  std::optional<Finding> tiny = step.finding("kernel_launch");
  ASSERT_TRUE(tiny.has_value());
  EXPECT_TRUE(shows(*tiny, "row_by_row"));
  EXPECT_EQ(tiny->fixes.front(), "whole_tensor");
  EXPECT_FALSE(advises(*tiny, "larger_batch"));  // it would only make the loop longer
}

// Query, key and value of forty layers: many calls, but only three places.
TEST(Rows, are_not_a_few_parts_that_every_layer_takes) {
  StepOfCpu step;
  for (int call = 0; call < 120; ++call) {
    take_row(step, 3, call % 3);
  }
  step.mm();
  std::optional<Finding> tiny = step.finding("kernel_launch");
  ASSERT_TRUE(tiny.has_value());
  EXPECT_FALSE(shows(*tiny, "row_by_row"));
  EXPECT_TRUE(advises(*tiny, "larger_batch"));
}

TEST(Cells, of_a_recurrent_layer_called_one_by_one_are_named) {
  StepOfCpu step;
  for (int t = 0; t < 30; ++t) {
    step.op("aten::lstm_cell", 8'000);
    step.op("aten::tanh", 3'000);
  }
  step.mm();
  std::optional<Finding> tiny = step.finding("kernel_launch");
  ASSERT_TRUE(tiny.has_value());
  EXPECT_TRUE(shows(*tiny, "cell_by_cell"));
  EXPECT_EQ(tiny->fixes.front(), "whole_sequence");
}

// A function of Python's, such as a checkpoint with use_reentrant=True, runs operators and matmuls
// by turns. No kernel could do what lies on both sides of a matmul.
TEST(Functions, that_call_matmuls_are_no_operators_themselves) {
  StepOfCpu step;
  std::int64_t start = step.now();
  for (int layer = 0; layer < 6; ++layer) {
    step.op("aten::layer_norm", 90'000);
    step.mm();
  }
  step.text.op("CheckpointFunction", start, step.now() - start, 1);
  RankAttribution rank = step.explained();
  EXPECT_TRUE(std::none_of(rank.kernels.begin(), rank.kernels.end(), [](const KernelLine& each) {
    return each.name == "CheckpointFunction";
  }));
  EXPECT_EQ(rank.ledger[LedgerLine::other_kernels], 6 * 90'000);
  EXPECT_FALSE(step.finding("other_kernels").has_value());
}

TEST(Functions, that_run_a_backward_again_leave_its_operators_apart) {
  StepOfCpu step;
  std::int64_t start = step.now();
  for (int layer = 0; layer < 6; ++layer) {
    step.op("autograd::engine::evaluate_function: NativeLayerNormBackward0", 90'000);
    step.backward();
  }
  step.text.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", start,
               step.now() - start, 1);
  RankAttribution rank = step.explained();
  auto norm = std::find_if(rank.kernels.begin(), rank.kernels.end(), [](const KernelLine& each) {
    return each.name == "autograd::engine::evaluate_function: NativeLayerNormBackward0";
  });
  ASSERT_NE(norm, rank.kernels.end());
  EXPECT_EQ(norm->duration_ns, 6 * 90'000);
  EXPECT_FALSE(step.finding("other_kernels").has_value());
}

// The gain is that of the chain of small operators. The optimizer takes longer, but is one kernel.
TEST(Chains, do_not_name_a_fused_optimizer_as_what_could_be_fused) {
  StepOfCpu step;
  step.mm();
  for (int i = 0; i < 6; ++i) step.op("aten::sigmoid", 200'000);
  step.mm();
  step.op("aten::_fused_adamw_", 900'000);
  std::optional<Finding> chain = step.finding("other_kernels");
  ASSERT_TRUE(chain.has_value());
  const auto& longest = std::get<std::vector<NotedItem>>(chain->evidence.at(0).values.at(0).second);
  ASSERT_EQ(longest.size(), 1u);
  EXPECT_EQ(longest[0].name, "sigmoid");
}

TEST(Window, in_which_other_processes_had_the_cores_says_so) {
  TraceText text;
  text.mm(0, 100'000, 1, 16, 16, 16);
  Result<Trace> trace = text.read();
  ASSERT_TRUE(trace.has_value());
  AttributionOptions options;
  options.peak = FlopRate{1e12};
  ProfiledWindow& counted = options.counted.emplace_back();
  counted.trace = "test.json";
  counted.wall = std::chrono::nanoseconds(100'000);
  auto notes_it = [&](int waited_ns) {
    counted.waited = std::chrono::nanoseconds(waited_ns);
    std::vector<Note> notes = attribute({&*trace, 1}, options)->ranks.at(0).notes;
    return std::any_of(notes.begin(), notes.end(),
                       [](const Note& each) { return each.code == "window_preempted"; });
  };
  EXPECT_FALSE(notes_it(5'000));
  EXPECT_TRUE(notes_it(60'000));
}

}  // namespace
}  // namespace mfu
