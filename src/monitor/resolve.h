// Turns settings into what they name: reads the model, looks up the peak, makes the sinks. What
// cannot be found causes a warning.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mfu/monitor.h"
#include "monitor/pipeline.h"

namespace mfu {

using WarnFunction = std::function<void(std::string)>;

// Fills in model, model_json, peak, peak_source, bandwidth and the config's precision.
void resolve_options(MonitorOptions& options, const WarnFunction& warn);

PipelineOptions pipeline_options(const MonitorOptions& options, const Clock& clock);

struct ConfiguredSink {
  std::unique_ptr<Sink> sink;
  bool local = false;  // a log that keeps every step
  bool file = false;   // a file: waited for as long as it makes progress
};
std::vector<ConfiguredSink> configured_sinks(const MonitorConfig& config);

}  // namespace mfu
