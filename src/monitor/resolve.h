// From settings to what they name: the model that is read, the peak that is looked up, the sinks
// that are opened. What cannot be had is a warning.
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
  bool file = false;   // quick unless its disk stalls: waited for while it moves
};
std::vector<ConfiguredSink> configured_sinks(const MonitorConfig& config);

}  // namespace mfu
