// What is told to people and machines: immutable values, every ratio worked out, every assumption
// beside it. Sinks (mfu/sink.h) only format them. A run's report is in run.h, that of its steps in
// steps.h.
//
//   mfu::Diagnostics diagnostics;
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}, diagnostics));
//   mfu::NeedQuestion question{.work = {.batch = 8, .sequence = 4096}};
//   mfu::NeedReport need = MFU_TRY(mfu::report_need(model, question));
//   if (need.model_flop) std::puts(need.model_flop->to_string().c_str());
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mfu/attribution.h"
#include "mfu/hardware.h"
#include "mfu/machine.h"
#include "mfu/measure.h"
#include "mfu/run.h"
#include "mfu/utilization.h"
#include "mfu/workload.h"

namespace mfu {

struct MeasuredReport {
  Measured measured;
  std::optional<Fraction> of_peak;  // none where the type has no peak or nothing was measured
};

struct DeviceReport {
  Device device;
  std::optional<FoundDevice> found;  // on this machine
  std::vector<MeasuredReport> measured;
  std::optional<ByteRate> measured_bandwidth;
  std::string measured_at;
  std::vector<std::string> notes;
};

struct PeakReport {
  std::vector<DeviceReport> devices;
  std::vector<std::string> notes;
};

// Devices of the catalogue.
PeakReport report_devices(const std::vector<Device>& devices);

// This machine's devices, each with the ceiling measured or stored for it, in the order of
// machine.devices.
PeakReport report_machine(const Machine& machine,
                          const std::vector<std::optional<Ceiling>>& ceilings);

// One convention's count of the same step.
struct ConventionReport {
  Convention convention = Convention::exact;
  ConventionCount count;
  std::optional<double> ratio;  // to `exact`
};

// One line of the model layer by layer: like layers once, with how many there are.
struct TreeLine {
  std::size_t depth = 0;
  std::string name;
  std::uint64_t layers = 1;
  std::uint64_t parameters = 0;  // of one
  FlopCount forward_flop;        // of one
};

// One step of reinforcement learning: who passes over the tokens, and what each pass needs.
enum class RlRole : std::uint8_t { actor, old, reference, reward, values, critic, learner };
std::string_view name_of(RlRole role);
Result<RlRole> parse_rl_role(std::string_view name);
struct RlQuestion {
  std::uint64_t sequences = 1, prompt = 0, response = 0;
  std::vector<RlRole> roles;  // one named twice passes twice
};
struct RlReport {
  struct Pass {
    RlRole role = RlRole::actor;
    std::uint64_t times = 1;
    FlopCount flop;  // of all of them
  };
  std::uint64_t sequences = 1, prompt = 0, response = 0;
  std::vector<Pass> passes;
  FlopCount total;
};

// What a model needs for one step, and what that makes of a time.
struct NeedReport {
  std::string name, type, architecture;
  std::string source = "config";  // who says so: a family here, or "transformers", "diffusers"
  ParameterCount parameters;
  Workload work;
  std::uint64_t tokens = 0;
  Convention convention = Convention::exact;
  std::optional<FlopCount> model_flop, hardware_flop;  // by that convention
  std::optional<double> flop_per_token;
  ByPart<FlopCount> flop_by_part;             // by `exact`
  std::vector<ConventionReport> conventions;  // where all were asked for
  std::optional<ByteNeed> bytes;
  std::optional<ChosenPeak> peak;  // where a device or a rate was given
  std::optional<Utilization> utilization;
  std::optional<Roofline> roofline;
  std::optional<ServingNeed> serving;  // of inference, where a device or its options were given
  std::vector<PublishedRun> like;      // of like size, beside a utilization
  std::vector<TreeLine> tree;          // where asked for
  std::optional<RlReport> rl;          // where asked for
  std::vector<std::string> assumptions, notes;
};

struct NeedQuestion {
  Workload work;
  TrainingOptions training{};
  Convention convention = Convention::exact;
  bool every_convention = false;
  bool tree = false;
  std::optional<RlQuestion> rl{};
  std::optional<std::uint64_t> parameters{};  // published count, for conventions written in N
};
Result<NeedReport> report_need(const ModelSpec& model, const NeedQuestion& question);
// The same of a model that its class counted. By `exact` alone, and all of it is trained.
Result<NeedReport> report_need(const ClassNeed& need, const NeedQuestion& question);

struct UtilizationQuestion {
  std::optional<std::chrono::nanoseconds> duration{};  // of the step; none: only the roofline
  std::uint64_t devices = 1;
  ChosenPeak peak;
  std::optional<ByteRate> bandwidth{};
};
Result<void> add_utilization(NeedReport& report, const ModelSpec& model,
                             const UtilizationQuestion& question);

struct ConversionReport {
  Convention from = Convention::exact, to = Convention::exact;
  Fraction mfu_from, mfu_to;
  double ratio = 1;
};

// `unsupported` where either convention does not define the model.
Result<ConversionReport> report_conversion(const ModelSpec& model, const Workload& work,
                                           Fraction mfu, Convention from, Convention to);

struct PlanReport {
  FlopCount total_flop;
  std::string device;
  ChosenPeak peak;
  Fraction mfu;
  std::vector<Plan> plans;  // one a number of devices
  std::vector<std::string> assumptions;
};

// One line of a ledger with its share of the window.
struct LedgerRow {
  LedgerLine line = LedgerLine::idle_unknown;
  std::int64_t duration_ns = 0;
  double fraction = 0;
};

struct RankReport {
  RankAttribution found;
  std::vector<LedgerRow> rows;  // every line, in order
  std::optional<Rating> rating;
};

// What `mfu explain` tells: where the time went, on each device of each file and over all.
struct ExplainReport {
  std::vector<RankReport> ranks;
  std::vector<LedgerRow> rows;   // over all ranks
  std::int64_t duration_ns = 0;  // Σ of the windows
  std::optional<double> mfu;
  std::optional<Rating> rating;
  std::vector<PublishedRun> like;      // of the same device where there are such
  std::optional<std::size_t> slowest;  // of ranks
  std::vector<Finding> findings;
  bool partial = false;
  std::vector<Note> notes;
};
ExplainReport report_explanation(Attribution attribution);
// Puts what explained steps say into the report of their run: findings of both are one list.
void add_explanation(RunReport& report, const ExplainReport& explained, RunExplanation files);

struct DoctorReport {
  std::vector<Probe> probes;
};

}  // namespace mfu
