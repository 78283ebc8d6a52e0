// Reports: plain values with every ratio computed and every assumption listed. Sinks (mfu/sink.h)
// only format them. The report of a run is in run.h, the reports of its steps are in steps.h.
//
//   mfu::ModelSpec model = MFU_TRY(mfu::read_model("config.json", {}));
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
  std::optional<Fraction> of_peak;  // none if the type has no peak or nothing was measured
};

struct DeviceReport {
  Device device;
  std::optional<FoundDevice> found;  // on this machine
  std::vector<MeasuredReport> measured;
  std::optional<ByteRate> measured_bandwidth;
  std::string measured_at;
  std::vector<Note> notes;
};

struct PeakReport {
  std::vector<DeviceReport> devices;
};

// Reports devices of the catalogue.
PeakReport report_devices(const std::vector<Device>& devices);

// Reports the devices of this machine. `ceilings` has one entry for each of machine.devices: the
// ceiling that was measured or stored, or none.
PeakReport report_machine(const Machine& machine,
                          const std::vector<std::optional<Ceiling>>& ceilings);

// One convention's count of the same step.
struct ConventionReport {
  Convention convention = Convention::exact;
  ConventionCount count;
  std::optional<double> ratio;  // to `exact`
};

// One line of the model's tree. Identical layers share a line.
struct TreeLine {
  std::size_t depth = 0;
  std::string name;
  std::uint64_t layers = 1;      // how many identical layers there are
  std::uint64_t parameters = 0;  // of one layer
  FlopCount forward_flop;        // of one layer
};

// One step of reinforcement learning: which models pass over the tokens, and what each pass needs.
enum class RlRole : std::uint8_t { actor, old, reference, reward, values, critic, learner };
std::string_view name_of(RlRole role);
Result<RlRole> parse_rl_role(std::string_view name);
struct RlQuestion {
  std::uint64_t sequences = 1, prompt = 0, response = 0;
  std::vector<RlRole> roles;  // a role that is named twice passes twice
};
struct RlReport {
  struct Pass {
    RlRole role = RlRole::actor;
    std::uint64_t times = 1;
    FlopCount flop;  // of all `times` passes
  };
  std::uint64_t sequences = 1, prompt = 0, response = 0;
  std::vector<Pass> passes;
  FlopCount total;
};

// What a model needs for one step; with a time and a device also its utilization.
struct NeedReport {
  std::string name, type, architecture;
  std::string source = "config";  // "config" if mfu knows the model, else the name of the library
  ParameterCount parameters;
  Workload work;
  std::uint64_t tokens = 0;
  Convention convention = Convention::exact;
  std::optional<FlopCount> model_flop, hardware_flop;  // by that convention
  std::optional<double> flop_per_token;
  ByPart<FlopCount> flop_by_part;             // by `exact`
  std::vector<ConventionReport> conventions;  // only if all were asked for
  std::optional<ByteNeed> bytes;
  std::optional<ChosenPeak> peak;  // only if a device or a rate was given
  std::optional<Utilization> utilization;
  std::optional<Roofline> roofline;
  std::optional<ServingNeed> serving;  // inference only, if a device or serving options were given
  std::vector<PublishedRun> like;      // published runs of similar size, next to a utilization
  std::vector<TreeLine> tree;          // only if asked for
  std::optional<RlReport> rl;          // only if asked for
  // Shapes of the tensors that a class was given, by name.
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> tensors;
  std::vector<Note> assumptions, notes;
};

struct NeedQuestion {
  Workload work;
  TrainingOptions training{};
  Convention convention = Convention::exact;
  bool every_convention = false;
  bool tree = false;
  std::optional<RlQuestion> rl{};
  // published count, for conventions whose formula has an N
  std::optional<std::uint64_t> parameters{};
};
Result<NeedReport> report_need(const ModelSpec& model, const NeedQuestion& question);
// The same for a model that its library counted (ask_class). `exact`, `flopcounter` and
// `flopcounter-fused` are known for it, and all its weights count as trained.
Result<NeedReport> report_need(const ClassNeed& need, const NeedQuestion& question);

struct UtilizationQuestion {
  std::optional<std::chrono::nanoseconds> duration{};  // of the step; without it only the roofline
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

// Fails with `unsupported` if one of the conventions does not define such a model.
Result<ConversionReport> report_conversion(const ModelSpec& model, const Workload& work,
                                           Fraction mfu, Convention from, Convention to);

struct PlanReport {
  FlopCount total_flop;
  std::string device;
  ChosenPeak peak;
  Fraction mfu;
  std::vector<Plan> plans;  // one per number of devices
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

// What `mfu explain` shows: where the time went, on each device of each file and in total.
struct ExplainReport {
  std::vector<RankReport> ranks;
  std::vector<LedgerRow> rows;   // over all ranks
  std::int64_t duration_ns = 0;  // Σ of the windows
  std::optional<double> mfu;
  std::optional<Rating> rating;
  std::vector<PublishedRun> like;      // published runs, on the same device if there are any
  std::optional<std::size_t> slowest;  // index into `ranks`
  std::vector<Finding> findings;
  bool partial = false;
  std::vector<Note> notes;
};
ExplainReport report_explanation(Attribution attribution);
// What `mfu explain --partial` tells.
struct PartReport {
  std::string path;
  std::uint64_t traces = 0, bytes = 0, json_bytes = 0;
  std::vector<std::string> notes;
};
// Adds the explanation of some steps to the report of their run. Findings become one list.
void add_explanation(RunReport& report, const ExplainReport& explained, RunExplanation files);

struct DoctorReport {
  std::vector<Probe> probes;
};

}  // namespace mfu
