#include <fmt/format.h>

#include <cerrno>

#include "mfu/sink.h"

namespace mfu {

namespace {

std::string rate(double per_s) {
  if (per_s >= 1e6) return fmt::format("{:.2f}M", per_s / 1e6);
  if (per_s >= 1e4) return fmt::format("{:.1f}k", per_s / 1e3);
  return fmt::format("{:.0f}", per_s);
}

class ConsoleSink : public Sink {
 public:
  explicit ConsoleSink(std::FILE* stream) : stream_(stream) {}
  std::string name() const override { return "the console"; }
  Result<void> open() override { return {}; }
  Result<void> write(std::span<const StepReport> reports) override {
    std::string lines;
    for (const StepReport& report : reports) lines += console_line(report) + '\n';
    errno = 0;
    bool written = std::fwrite(lines.data(), 1, lines.size(), stream_) == lines.size() &&
                   std::fflush(stream_) == 0;
    // A non-blocking console took only a part (EAGAIN). These lines are not written again.
    if (!written && errno != EAGAIN) {
      return fail(ErrorCode::io, "the console cannot be written to");
    }
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  std::FILE* stream_;
};

}  // namespace

std::string console_line(const StepReport& report) {
  std::string line = fmt::format("step {}", report.step);
  if (report.loss) line += fmt::format("  loss {:.4g}", *report.loss);
  if (auto mfu = report.value("perf/mfu_percent")) {
    line += fmt::format("  MFU {:.1f}%", *mfu);
    if (report.source) line += fmt::format(" ({})", name_of(*report.source));
  }
  if (auto tokens = report.value("perf/tokens_per_second")) {
    line += fmt::format("  {} tokens/s", rate(*tokens));
  }
  if (auto time = report.value("perf/step_time")) line += fmt::format("  {:.4g} s", *time);
  if (auto generated = report.value("mfu/tokens_per_second")) {
    line += fmt::format("  generated {} tokens/s", rate(*generated));
    if (auto mfu = report.value("mfu/mfu_percentage")) line += fmt::format(" (MFU {:.2f}%)", *mfu);
  }
  return line;
}

std::unique_ptr<Sink> make_console_sink(std::FILE* stream) {
  return std::make_unique<ConsoleSink>(stream);
}

}  // namespace mfu
