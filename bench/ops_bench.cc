// Times how the trace reader computes the cost of one operator: it finds the name, fills in the
// recorded arguments and evaluates. The observer inside PyTorch calls the formulas directly.
//   build/release/bench/ops_bench
#include <mfu/mfu.h>

#include <array>
#include <cstdio>

#include "best.h"

namespace {

void record_addmm(mfu::ArgumentList& arguments) {
  std::array<std::int64_t, 1> bias{512};
  std::array<std::int64_t, 2> left{128, 256}, right{256, 512};
  arguments.clear();
  arguments.add_recorded("c10::BFloat16", bias, "");
  arguments.add_recorded("c10::BFloat16", left, "");
  arguments.add_recorded("c10::BFloat16", right, "");
  arguments.add_recorded("Scalar", {}, "1");
  arguments.add_recorded("Scalar", {}, "1");
}

void record_convolution(mfu::ArgumentList& arguments) {
  std::array<std::int64_t, 4> input{10, 256, 14, 14}, weight{512, 256, 3, 3};
  arguments.clear();
  arguments.add_recorded("c10::BFloat16", input, "");
  arguments.add_recorded("c10::BFloat16", weight, "");
  arguments.add_recorded("", {}, "");
  for (const char* list : {"[2, 2]", "[1, 1]", "[1, 1]"}) {
    arguments.add_recorded("ScalarList", {}, list);
  }
  arguments.add_recorded("Scalar", {}, "False");
  arguments.add_recorded("ScalarList", {}, "[0, 0]");
  arguments.add_recorded("Scalar", {}, "1");
}

void record_attention(mfu::ArgumentList& arguments) {
  std::array<std::int64_t, 4> sizes{1, 8, 141, 64};
  arguments.clear();
  for (int i = 0; i < 3; ++i) arguments.add_recorded("c10::BFloat16", sizes, "");
  for (const char* value : {"0.", "True", "False", "0.125"}) {
    arguments.add_recorded("Scalar", {}, value);
  }
}

}  // namespace

int main() {
  struct Case {
    const char* name;
    void (*record)(mfu::ArgumentList&);
  };
  std::printf("%-44s %10s %10s %10s\n", "ns, best of 50 rounds", "find", "arguments", "cost");
  for (const Case& one :
       {Case{"aten::addmm", record_addmm}, Case{"aten::convolution", record_convolution},
        Case{"aten::_scaled_dot_product_flash_attention", record_attention}}) {
    mfu::ArgumentList arguments;
    const mfu::Operator* volatile found = nullptr;
    volatile double sink = 0;
    double find = best_ns(2000, [&] { found = mfu::find_operator(one.name); });
    double fill = best_ns(2000, [&] { one.record(arguments); });
    auto view = arguments.view();
    double evaluate =
        best_ns(2000, [&] { sink = mfu::cost_of(*found, view)->hardware_flop.to_double(); });
    std::printf("%-44s %10.0f %10.0f %10.0f\n", one.name, find, fill, evaluate);
  }
  return 0;
}
