#include "sinks/line_file.h"

#include <fmt/format.h>

#include "base/append.h"
#include "base/file.h"

namespace mfu {

namespace {

bool is_older(const FileEnds& ends, const LineFile& is) {
  return ends.lines && !is.older_header.empty() && ends.first + '\n' == is.older_header;
}

bool is_ours(const FileEnds& ends, const LineFile& is) {
  if (!ends.lines) {
    // The file holds only half a line. It is ours only if it looks like ours.
    return is.header.empty() ? is.ours(ends.first, false)
                             : ends.first.size() > 16 && is.header.starts_with(ends.first);
  }
  bool begins = is.header.empty() ? is.ours(ends.first, false) : ends.first + '\n' == is.header;
  begins = begins || is_older(ends, is);
  return begins && (ends.half.empty() || is.ours(ends.half, true));
}

class LineFileSink : public Sink {
 public:
  explicit LineFileSink(LineFile is) : is_(std::move(is)) {}
  std::string name() const override { return fmt::format("{} {}", is_.what, is_.path); }
  Result<void> open() override {
    FileEnds ends = MFU_TRY(file_ends(is_.path));
    if (!ends.empty && !is_ours(ends, is_)) {
      std::string aside = MFU_TRY(set_aside(is_.path));
      notes_.push_back(fmt::format("{} was not written by mfu: it is {} now", is_.path, aside));
    }
    file_ = MFU_TRY(AppendFile::open(is_.path, true));
    headed_ = is_.header.empty() || !file_.was_empty();
    older_ = headed_ && is_older(ends, is_);
    return {};
  }
  Result<void> write(std::span<const StepReport> reports) override {
    if (file_.moved()) {
      MFU_TRY(open());
      notes_.push_back(
          fmt::format("{} was deleted or renamed while the run went on: it was made again and goes "
                      "on from here; mfu export has every step of a run directory",
                      is_.path));
    }
    std::string lines = headed_ ? "" : is_.header;
    for (const StepReport& report : reports)
      lines += older_ ? is_.older_line(report) : is_.line(report);
    MFU_TRY(file_.append(lines));
    headed_ = true;
    return {};
  }
  Result<void> close() override {
    file_.close();
    return {};
  }
  std::vector<std::string> take_notes() override { return std::exchange(notes_, {}); }

 private:
  LineFile is_;
  AppendFile file_;
  bool headed_ = false;
  bool older_ = false;  // the file has the older header
  std::vector<std::string> notes_;
};

}  // namespace

std::unique_ptr<Sink> make_line_file(LineFile file) {
  return std::make_unique<LineFileSink>(std::move(file));
}

}  // namespace mfu
