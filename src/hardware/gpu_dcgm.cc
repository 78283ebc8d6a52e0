// The page of the DCGM exporter is Prometheus text with one line per field and GPU:
//     DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-…",device="nvidia0",…} 0.43
// (github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv). A field that DCGM could not read is
// left out, or is a number near 2^63.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/http_get.h"
#include "base/text.h"
#include "hardware/gpu_counters.h"

namespace mfu {

namespace {

constexpr std::string_view kActive = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
constexpr std::string_view kClock = "DCGM_FI_DEV_SM_CLOCK";

struct Line {
  std::string_view name, labels;
  double value = 0;
};

std::optional<Line> parse_line(std::string_view text) {
  text = trim(text);
  if (text.empty() || text[0] == '#') return std::nullopt;
  Line line;
  std::size_t open = text.find('{'), close = text.rfind('}');
  std::size_t end = open == std::string_view::npos ? text.find(' ') : open;
  if (end == std::string_view::npos) return std::nullopt;
  if (open != std::string_view::npos && (close == std::string_view::npos || close < open)) {
    return std::nullopt;
  }
  line.name = text.substr(0, end);
  if (open != std::string_view::npos) line.labels = text.substr(open + 1, close - open - 1);
  std::string number(trim(text.substr(open == std::string_view::npos ? end : close + 1)));
  char* after = nullptr;
  line.value = std::strtod(number.c_str(), &after);
  if (after == number.c_str()) return std::nullopt;
  return line;
}

// The value of a label. Names are compared as a whole, so that my_gpu is not taken for gpu.
std::string_view label(std::string_view labels, std::string_view name) {
  for (std::size_t at = 0; (at = labels.find(name, at)) != std::string_view::npos; ++at) {
    bool begins = at == 0 || labels[at - 1] == ',' || labels[at - 1] == ' ';
    std::string_view rest = labels.substr(at + name.size());
    if (!begins || !rest.starts_with("=\"")) continue;
    rest.remove_prefix(2);
    return rest.substr(0, rest.find('"'));
  }
  return {};
}

bool is_gpu(const Line& line, std::string_view gpu) {
  // A slice of a GPU has a line of its own. We want the line of the whole GPU.
  if (!label(line.labels, "GPU_I_ID").empty()) return false;
  return label(line.labels, "gpu") == gpu || label(line.labels, "UUID") == gpu;
}

class DcgmProbe : public TensorProbe {
 public:
  DcgmProbe(std::string url, std::string gpu, std::chrono::milliseconds patience)
      : url_(std::move(url)), gpu_(std::move(gpu)), patience_(patience) {}
  std::string name() const override { return fmt::format("DCGM at {}, GPU {}", url_, gpu_); }
  Result<TensorLook> look() override {
    std::string page = MFU_TRY(http_get(url_, patience_));
    return parse_dcgm(page, gpu_);
  }

 private:
  std::string url_, gpu_;
  std::chrono::milliseconds patience_;
};

}  // namespace

Result<TensorLook> parse_dcgm(std::string_view page, std::string_view gpu) {
  std::optional<double> active, clock_mhz;
  bool known = false;
  for (std::string_view text : split(page, '\n')) {
    std::optional<Line> line = parse_line(text);
    if (!line || !is_gpu(*line, gpu)) continue;
    known = true;
    // what DCGM writes if it has no value
    if (!std::isfinite(line->value) || line->value > 1e15) continue;
    if (line->name == kActive) active = line->value;
    if (line->name == kClock) clock_mhz = line->value;
  }
  if (!known) {
    return fail(ErrorCode::unsupported,
                fmt::format("the exporter's page has no GPU {} (labels gpu and UUID)", gpu));
  }
  if (!active || !clock_mhz) {
    return fail(ErrorCode::unsupported,
                fmt::format("the exporter gives no {} of GPU {}: add it to its counters file",
                            active ? kClock : kActive, gpu));
  }
  return TensorLook{.active_fraction = *active, .clock_hz = *clock_mhz * 1e6};
}

std::unique_ptr<TensorProbe> make_dcgm_probe(std::string url, std::string gpu,
                                             std::chrono::milliseconds patience) {
  return std::make_unique<DcgmProbe>(std::move(url), std::move(gpu), patience);
}

}  // namespace mfu
