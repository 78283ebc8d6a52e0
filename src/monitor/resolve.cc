#include "monitor/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "hardware/gpu_counters.h"
#include "measure/tile.h"
#include "mfu/machine.h"
#include "mfu/utilization.h"
#include "monitor/metrics_endpoint.h"

namespace mfu {

namespace {

void resolve_model(MonitorOptions& options, const WarnFunction& warn) {
  if (options.model) return;
  if (options.model_json.empty() && !options.config.model.empty()) {
    std::filesystem::path path = options.config.model;
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) path /= "config.json";
    Result<ModelSpec> model = read_model(options.config.model, {});
    if (!model.has_value()) {
      warn(fmt::format("no FLOPs can be estimated: {}", model.error().message));
      return;
    }
    options.model = *model;
    Result<std::string> text = read_named_file(path.string());
    if (text.has_value() && path.extension() == ".json") options.model_json = *text;
  } else if (!options.model_json.empty()) {
    Result<ModelSpec> model = parse_model(options.model_json, "model", {});
    if (model.has_value()) {
      options.model = *model;
    } else {
      warn(fmt::format("no FLOPs can be estimated: {}", model.error().message));
      options.model_json.clear();
    }
  }
  if (!options.model) return;
  for (const Note& note : options.model->notes) warn(words_of(note, Voice::python));
}

void resolve_training(MonitorOptions& options, const WarnFunction& warn) {
  const TrainingOptions& trained = options.trained;
  if (options.training || (trained.frozen.empty() && trained.lora_rank == 0)) return;
  if (!options.model) {
    warn("frozen and lora are left out: without a model they say nothing");
    return;
  }
  Result<TrainingPlan> plan = plan_training(*options.model, trained);
  if (plan.has_value()) {
    options.training = *plan;
    return;
  }
  // Do not estimate as if the whole model were trained: that can be wrong by half.
  warn(fmt::format("no FLOPs can be estimated: {}", plan.error().message));
  options.model.reset();
  options.model_json.clear();
}

// The device that `auto` means: this rank's own accelerator, or the processor if there is none.
Result<Device> detected_device(const MonitorOptions& options, const WarnFunction& warn) {
  if (options.own_device) return identify_device(Catalog::builtin(), *options.own_device);
  Diagnostics diagnostics;
  Machine machine = detect_machine(Catalog::builtin(), diagnostics);
  for (const std::string& warning : diagnostics.warnings()) warn(warning);
  std::string mine = gpu_of_this_rank();  // a number, or the beginning of a uuid
  auto is_mine = [&](const FoundDevice& found) {
    return std::to_string(found.index) == mine || found.uuid.starts_with(mine);
  };
  std::stable_partition(machine.devices.begin(), machine.devices.end() - 1, is_mine);
  for (const FoundDevice& found : machine.devices) {
    if (found.device) return *found.device;
    if (!found.notes.empty()) {
      warn(fmt::format("{}: {}", found.driver_name, words_of(found.notes[0], Voice::python)));
    }
  }
  return fail(ErrorCode::not_found, "no device with a known peak was found: give peak in FLOP/s");
}

// A GPU's counters say how busy its tensor pipes are. FLOPs follow from that with the peak of the
// data type and the clock of that peak.
Result<std::shared_ptr<CounterSource>> gpu_counters(const MonitorOptions& options,
                                                    const Device& device) {
  if (!options.peak || !device.clock_hz || device.vendor != "nvidia") {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: counters are read of NVIDIA GPUs whose peak and its clock are "
                            "known",
                            device.name));
  }
  if (options.config.devices != 1 || device.unit != "gpu") {
    return fail(ErrorCode::unsupported,
                fmt::format("counters are those of one whole GPU, and this monitor is of {} ({})",
                            options.config.devices, device.unit));
  }
  GpuRating rating{.peak = *options.peak, .clock_hz = *device.clock_hz};
  if (options.model) rating.useful_share = tile_share(*options.model, 0);
  constexpr std::chrono::milliseconds kPeriod{1000}, kPatience{3000};
  std::string gpu = gpu_of_this_rank();
  if (const char* url = std::getenv("MFU_DCGM_URL"); url != nullptr && *url != '\0') {
    return make_tensor_source(make_dcgm_probe(url, gpu, kPatience), rating, kPeriod);
  }
  std::unique_ptr<TensorProbe> probe = MFU_TRY(open_gpm_probe(gpu));
  return make_tensor_source(std::move(probe), rating, kPeriod);
}

// The processor's counters show the step's FLOPs only if the processor does the work.
void resolve_counters(MonitorOptions& options, const Device& device, const WarnFunction& warn) {
  const auto* hybrid = std::get_if<HybridMode>(&options.config.mode);
  bool wanted = hybrid != nullptr && hybrid->hardware_counters_enabled;
  if (!wanted || options.counters != nullptr) return;
  Result<std::shared_ptr<CounterSource>> counters =
      device.kind == "cpu" ? open_cpu_counters() : gpu_counters(options, device);
  if (counters.has_value()) {
    options.counters = *counters;
  } else {
    warn(fmt::format("hybrid mode falls back: {}", counters.error().message));
  }
}

void resolve_peak(MonitorOptions& options, const WarnFunction& warn) {
  MonitorConfig& config = options.config;
  if (!options.peak && config.peak) {
    options.peak = config.peak;
    options.peak_source = "given";
  }
  if (options.peak && options.peak_source.empty()) options.peak_source = "given";
  if (options.peak || config.device.empty()) return;
  Result<Device> device = config.device == "auto" ? detected_device(options, warn)
                                                  : find_device(Catalog::builtin(), config.device);
  if (!device.has_value()) {
    warn(fmt::format("MFU is left out: {}", device.error().message));
    return;
  }
  if (!config.precision) {
    config.precision = device->kind == "cpu" ? Precision::fp32 : Precision::bf16;
    warn(fmt::format("dtype is not set: the peak of {} is taken for {}", device->name,
                     name_of(*config.precision)));
  }
  ChosenPeak peak = choose_peak({.device = &*device}, name_of(*config.precision));
  options.peak = peak.rate;
  options.peak_source = peak.source;
  if (!options.bandwidth) options.bandwidth = device->bandwidth;
  resolve_counters(options, *device, warn);
  if (!peak.rate) {
    warn(fmt::format("MFU is left out: {} has no peak for {}", device->name,
                     name_of(*config.precision)));
  } else if (peak.reason == PeakReason::wider_unit) {
    warn(fmt::format("{} has no unit for {}: its {} peak is taken", device->name,
                     name_of(*config.precision), name_of(*peak.against)));
  }
}

// An address is served over HTTP; anything else is the path of a file.
std::unique_ptr<Sink> prometheus_sink(const std::string& where) {
  std::optional<MetricsAddress> at = parse_metrics_address(where);
  if (!at) return make_prometheus_sink(where);
  at->port = local_rank_port(at->port);
  const char* token = std::getenv("MFU_METRICS_TOKEN");
  return make_metrics_endpoint(*at, token == nullptr ? "" : token);
}

}  // namespace

void resolve_options(MonitorOptions& options, const WarnFunction& warn) {
  if (is_wrong_metrics_address(options.config.prometheus)) {
    warn(fmt::format("prometheus: {} has no port from 1 to 65535: Prometheus gets nothing",
                     options.config.prometheus));
    options.config.prometheus.clear();
  }
  resolve_model(options, warn);
  resolve_training(options, warn);
  resolve_peak(options, warn);
  if (options.config.devices == 0) {
    warn("devices is 0: 1 is taken");
    options.config.devices = 1;
  }
  if (options.peak && !(options.peak->per_s > 0)) {
    warn(fmt::format("a peak of {} FLOP/s cannot be: MFU is left out", options.peak->per_s));
    options.peak.reset();
  }
}

PipelineOptions pipeline_options(const MonitorOptions& options, const Clock& clock) {
  PipelineOptions made;
  made.meter = {.mode = options.config.mode,
                .model = options.model,
                .training = options.training,
                .recompute = options.recompute};
  made.basis = {.precision = options.config.precision,
                .peak = options.peak,
                .peak_source = options.peak_source,
                .bandwidth = options.bandwidth,
                .devices = options.config.devices,
                .rank = options.rank,
                .zero_where_unmeasured = options.config.zero_where_unmeasured};
  made.flop_per_token = options.flop_per_token;
  made.realtime_offset = clock.since_1970() - clock.now();
  return made;
}

std::vector<ConfiguredSink> configured_sinks(const MonitorConfig& config) {
  std::vector<ConfiguredSink> sinks;
  auto add = [&](std::unique_ptr<Sink> sink) { sinks.push_back({.sink = std::move(sink)}); };
  auto add_log = [&](std::unique_ptr<Sink> sink) {
    sinks.push_back({.sink = std::move(sink), .local = true, .file = true});
  };
  if (!config.output_dir.empty() && !config.log_file.empty()) {
    add_log(make_jsonl_sink(config.output_dir + "/" + config.log_file));
  }
  if (!config.jsonl.empty()) add_log(make_jsonl_sink(config.jsonl));
  if (!config.csv.empty()) add_log(make_csv_sink(config.csv));
  if (!config.tensorboard.empty()) {
    sinks.push_back({.sink = make_tensorboard_sink(config.tensorboard), .file = true});
  }
  if (!config.prometheus.empty()) add(prometheus_sink(config.prometheus));
  if (!config.otlp.empty()) add(make_otlp_sink({.url = config.otlp}));
  if (!config.mlflow.empty()) {
    add(make_mlflow_sink({.url = config.mlflow, .run = config.mlflow_run}));
  }
  if (config.console) add(make_console_sink(stderr));
  return sinks;
}

}  // namespace mfu
