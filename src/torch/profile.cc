#include "torch/profile.h"

#include <ATen/record_function.h>
#include <c10/core/DeviceType.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>
#include <exception>
#include <set>

namespace torch::autograd::profiler {
// Declared as in kineto_shim.h, which needs Kineto's own headers.
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}  // namespace torch::autograd::profiler

// ConfigLoader::instance() and its stopThread(), if the library exports them.
extern "C" [[gnu::weak]] void* mfu_kineto_config() asm("_ZN9libkineto12ConfigLoader8instanceEv");
extern "C" [[gnu::weak]] void mfu_kineto_stop(void* config) asm(
    "_ZN9libkineto12ConfigLoader10stopThreadEv");

namespace mfu::observer {
namespace {

namespace impl = torch::profiler::impl;

// Only later versions of torch have this: events are not put into tables that nobody reads.
template <class Config>
void spare_tables(Config& config) {
  if constexpr (requires { config.trace_only; }) config.trace_only = true;
}

impl::ProfilerConfig config_of(const ProfileOptions& options) {
  impl::ExperimentalConfig experimental;
  spare_tables(experimental);
  return impl::ProfilerConfig(impl::ProfilerState::KINETO, true, false, options.stacks, false,
                              false, experimental);
}

std::set<impl::ActivityType> activities_of(const ProfileOptions& options) {
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  auto type = static_cast<c10::DeviceType>(options.device < 0 ? 0 : options.device >> 8);
  if (type == c10::DeviceType::CUDA) activities.insert(impl::ActivityType::CUDA);
  if (type == c10::DeviceType::XPU) activities.insert(impl::ActivityType::XPU);
  return activities;
}

// The first session starts a thread that asks a daemon for settings and never ends. A child that is
// forked later does not have this thread, but waits for it forever when it exits. So we stop the
// thread, unless the program wants it.
void stop_settings_thread() {
  if (mfu_kineto_config == nullptr || mfu_kineto_stop == nullptr) return;
  if (std::getenv("KINETO_USE_DAEMON") == nullptr) mfu_kineto_stop(mfu_kineto_config());
}

}  // namespace

bool profiler_runs() noexcept {
  return impl::profilerEnabled();
}

std::string begin_profile(const ProfileOptions& options) noexcept {
  try {
    std::set<impl::ActivityType> activities = activities_of(options);
    impl::ProfilerConfig config = config_of(options);
    torch::autograd::profiler::prepareProfiler(config, activities);
    stop_settings_thread();
    torch::autograd::profiler::enableProfiler(config, activities);
    torch::autograd::profiler::addMetadataJson("record_shapes", "1");
    if (options.rank >= 0) {
      torch::autograd::profiler::addMetadataJson(
          "distributedInfo", "{\"rank\": " + std::to_string(options.rank) +
                                 ", \"world_size\": " + std::to_string(options.world_size) + "}");
    }
    return {};
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "torch's profiler could not be started";
  }
}

WriteTrace end_profile() noexcept {
  try {
    std::shared_ptr<torch::autograd::profiler::ProfilerResult> result =
        torch::autograd::profiler::disableProfiler();
    if (result == nullptr) return {};
    return [result](const std::string& path) -> std::string {
      try {
        result->save(path);
        return {};
      } catch (const std::exception& error) {
        return error.what();
      }
    };
  } catch (...) {
    return {};
  }
}

struct ProfiledStep::Range {
  at::RecordFunction function{at::RecordScope::USER_SCOPE};
};

ProfiledStep::ProfiledStep(std::uint64_t number) : range_(std::make_unique<Range>()) {
  if (range_->function.isActive())
    range_->function.before("ProfilerStep#" + std::to_string(number));
}

ProfiledStep::~ProfiledStep() = default;

void drop_profile() noexcept {
  try {
    // torch keeps the session until the process exits, which is too late to remove its callbacks.
    if (auto* session = impl::ProfilerStateBase::get(false)) session->removeCallback();
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  } catch (...) {
  }
}

}  // namespace mfu::observer
