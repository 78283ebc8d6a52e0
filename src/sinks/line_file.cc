#include "sinks/line_file.h"

#include <fmt/format.h>

#include "base/append.h"

namespace mfu {

namespace {

class LineFileSink : public Sink {
 public:
  explicit LineFileSink(LineFile is) : is_(std::move(is)) {}
  std::string name() const override { return fmt::format("{} {}", is_.what, is_.path); }
  Result<void> open() override {
    file_ = MFU_TRY(AppendFile::open(is_.path, true));
    headed_ = is_.header.empty() || !file_.was_empty();
    return {};
  }
  Result<void> write(std::span<const StepReport> reports) override {
    std::string lines = headed_ ? "" : is_.header;
    for (const StepReport& report : reports) lines += is_.line(report);
    MFU_TRY(file_.append(lines));
    headed_ = true;
    return {};
  }
  Result<void> close() override {
    file_.close();
    return {};
  }

 private:
  LineFile is_;
  AppendFile file_;
  bool headed_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_line_file(LineFile file) {
  return std::make_unique<LineFileSink>(std::move(file));
}

}  // namespace mfu
