// MFU in a training loop of your own, without any framework. Gradient descent fits a linear layer
// with a matrix multiply written by hand, and the monitor logs each step.
#include <mfu/mfu.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kRows = 64, kIn = 96, kOut = 48;
using Matrix = std::vector<float>;

// c[m][n] += a[m][k] · b[k][n]. This takes 2mnk FLOP.
void multiply(const Matrix& a, const Matrix& b, Matrix& c, std::size_t m, std::size_t k,
              std::size_t n) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
}

Matrix transposed(const Matrix& a, std::size_t m, std::size_t n) {
  Matrix turned(a.size());
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) turned[j * m + i] = a[i * n + j];
  }
  return turned;
}

// Runs forward, loss, backward and update. Returns the mean squared error.
double train_step(const Matrix& input, const Matrix& wanted, Matrix& weight) {
  Matrix output(kRows * kOut), gradient(kIn * kOut);
  multiply(input, weight, output, kRows, kIn, kOut);
  double loss = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    output[i] -= wanted[i];
    loss += static_cast<double>(output[i] * output[i]) / static_cast<double>(output.size());
  }
  multiply(transposed(input, kRows, kIn), output, gradient, kIn, kRows, kOut);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.01f * gradient[i] / kRows;
  return loss;
}

}  // namespace

int main() {
  // Settings as in a training program's YAML. This loop counts its own FLOPs.
  auto config = mfu::parse_monitor_config(
      "monitoring:\n  mfu_calculation_mode: profiler\n  device: auto\n  dtype: fp32\n", "example");
  if (!config.has_value()) {
    std::fprintf(stderr, "%s\n", config.error().message.c_str());
    return 1;
  }
  mfu::MonitorOptions options;
  options.config = *config;
  options.on_warning = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  auto monitor = mfu::Monitor::open(std::move(options));
  if (!monitor.has_value()) {
    std::fprintf(stderr, "%s\n", monitor.error().message.c_str());
    return 1;
  }

  Matrix input(kRows * kIn), wanted(kRows * kOut), weight(kIn * kOut, 0.1f);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<float>(i % 5) - 2;
  for (std::uint64_t step = 0; step < 200; ++step) {
    double loss = train_step(input, wanted, weight);
    (*monitor)->log_step({.step = step,
                          .loss = loss,
                          .shape = mfu::StepShape::of(kRows, 1),
                          .counted_flop = mfu::FlopCount(2 * 2 * kRows * kIn * kOut)});
  }
  (*monitor)->close();
  std::optional<mfu::StepReport> last = (*monitor)->last_report();
  if (!last) return 1;
  std::printf("%s\n", mfu::console_line(*last).c_str());
  return 0;
}
