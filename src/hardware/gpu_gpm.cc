// NVML's GPU performance monitoring, declared here from its documentation: two samples at least 100
// ms apart, and the metrics between them (docs.nvidia.com/deploy/nvml-api, GPM functions).
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "hardware/driver.h"
#include "hardware/gpu_counters.h"

namespace mfu {

namespace {

using Handle = void*;
constexpr int kGpmSuccess = 0;
constexpr int kGpmSmClock = 1;          // NVML_CLOCK_SM
constexpr unsigned kAnyTensorUtil = 5;  // NVML_GPM_METRIC_ANY_TENSOR_UTIL, percent
constexpr unsigned kVersion = 1;
// Newer drivers have longer arrays. A field next to the array says how many entries are used.
constexpr std::size_t kMostMetrics = 512;

struct Metric {  // nvmlGpmMetric_t
  unsigned id;
  int status;
  double value;
  const char *short_name, *long_name, *unit;
};
struct MetricsGet {  // nvmlGpmMetricsGet_t
  unsigned version, count;
  Handle before, after;
  Metric metrics[kMostMetrics];
};
struct Support {  // nvmlGpmSupport_t
  unsigned version, supported;
};
static_assert(sizeof(Metric) == 40 && offsetof(MetricsGet, metrics) == 24);

struct Gpm {
  explicit Gpm(const std::string& path) : library(path) {}
  Library library;

  template <typename... Arguments>
  Result<void> call(const char* name, Arguments... arguments) const {
    auto* function = library.symbol<int(Arguments...)>(name);
    if (function == nullptr) {
      return fail(ErrorCode::unsupported,
                  fmt::format("this driver's NVML has no {}: a newer one is needed", name));
    }
    int status = function(arguments...);
    if (status == kGpmSuccess) return {};
    auto* reason = library.symbol<const char*(int)>("nvmlErrorString");
    const char* words = reason == nullptr ? nullptr : reason(status);
    return fail(ErrorCode::unsupported,
                fmt::format("{} failed: {}", name,
                            words == nullptr ? fmt::format("error {}", status) : words));
  }
};

class GpmProbe : public TensorProbe {
 public:
  GpmProbe(Gpm gpm, Handle device, std::string gpu)
      : gpm_(gpm), device_(device), gpu_(std::move(gpu)) {}
  ~GpmProbe() override {
    for (Handle sample : {before_, after_}) {
      if (sample != nullptr) (void)gpm_.call("nvmlGpmSampleFree", sample);
    }
  }

  std::string name() const override { return fmt::format("NVML GPM, GPU {}", gpu_); }

  Result<void> prepare() {
    MFU_TRY(gpm_.call("nvmlGpmSampleAlloc", &before_));
    return gpm_.call("nvmlGpmSampleAlloc", &after_);
  }

  Result<TensorLook> look() override {
    std::swap(before_, after_);
    Result<void> taken = gpm_.call("nvmlGpmSampleGet", device_, after_);
    bool second = sampled_;
    sampled_ = taken.has_value();
    if (!taken.has_value()) return Failure{taken.error()};
    if (!second) return fail(ErrorCode::not_found, "the first sample of the GPU's counters");
    get_.version = kVersion;
    get_.count = 1;
    get_.before = before_;
    get_.after = after_;
    get_.metrics[0] = {};
    get_.metrics[0].id = kAnyTensorUtil;
    MFU_TRY(gpm_.call("nvmlGpmMetricsGet", &get_));
    if (get_.metrics[0].status != kGpmSuccess) {
      return fail(ErrorCode::unsupported,
                  fmt::format("NVML has no tensor activity: error {}", get_.metrics[0].status));
    }
    unsigned mhz = 0;
    MFU_TRY(gpm_.call("nvmlDeviceGetClockInfo", device_, kGpmSmClock, &mhz));
    return TensorLook{.active_fraction = get_.metrics[0].value / 100, .clock_hz = mhz * 1e6};
  }

 private:
  Gpm gpm_;
  Handle device_;
  std::string gpu_;
  Handle before_ = nullptr, after_ = nullptr;
  bool sampled_ = false;
  MetricsGet get_{};
};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

Result<std::unique_ptr<TensorProbe>> open_gpm_probe(const std::string& gpu) {
  const char* named = std::getenv("MFU_NVML");
  Gpm gpm(named == nullptr || *named == '\0' ? "libnvidia-ml.so.1" : named);
  if (!gpm.library.open()) {
    return fail(ErrorCode::unsupported, "NVML is not there: no NVIDIA driver on this machine");
  }
  MFU_TRY(gpm.call("nvmlInit_v2"));
  Handle device = nullptr;
  if (is_number(gpu)) {
    auto index = static_cast<unsigned>(std::strtoul(gpu.c_str(), nullptr, 10));
    MFU_TRY(gpm.call("nvmlDeviceGetHandleByIndex_v2", index, &device));
  } else {
    MFU_TRY(gpm.call("nvmlDeviceGetHandleByUUID", gpu.c_str(), &device));
  }
  Support support{.version = kVersion, .supported = 0};
  MFU_TRY(gpm.call("nvmlGpmQueryDeviceSupport", device, &support));
  if (support.supported == 0) {
    return fail(ErrorCode::unsupported,
                "this GPU has no GPM counters (Hopper and newer have): a DCGM exporter can serve, "
                "named by MFU_DCGM_URL");
  }
  auto probe = std::make_unique<GpmProbe>(gpm, device, gpu);
  MFU_TRY(probe->prepare());
  return std::unique_ptr<TensorProbe>(std::move(probe));
}

}  // namespace mfu
