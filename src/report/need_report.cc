#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mfu/report.h"
#include "report/rl_report.h"

namespace mfu {

namespace {

void add_why(NeedReport& report, Convention convention, const ConventionCount& count) {
  Note note{"by_convention",
            {{"convention", std::string(describe(convention).name)},
             {"why", count.why},
             {"type", report.type}}};
  if (std::find(report.notes.begin(), report.notes.end(), note) != report.notes.end()) return;
  report.notes.push_back(std::move(note));
}

// What one part of the model needs alone is one line of the tree. `alone` is the model without its
// stages; it is reused for every line.
Result<TreeLine> line_of(ModelSpec& alone, const Stage& stage, const LayerKind& kind,
                         const Workload& work) {
  Stage& only = alone.stages.emplace_back();
  only.prefix = stage.prefix;
  only.repeated = stage.repeated;
  only.stream = stage.stream;
  only.kinds = {kind};
  only.order = {{0, 1}};
  Workload forward = work;
  if (forward.phase == Phase::train) forward.phase = Phase::forward;
  TreeLine line;
  line.parameters = count_parameters(alone).total;
  line.forward_flop = MFU_TRY(flop_per_step(alone, forward)).model_flop;
  alone.stages.clear();
  return line;
}

Result<std::vector<TreeLine>> tree_of(const ModelSpec& model, const Workload& work) {
  std::vector<TreeLine> tree;
  ModelSpec alone = model;
  alone.stages.clear();
  for (const Stage& stage : model.stages) {
    if (stage.mtp && !work.mtp) continue;
    std::uint64_t first = 0;
    for (const LayerRun& run : stage.order) {
      const LayerKind& kind = stage.kinds[run.kind];
      TreeLine layer = MFU_TRY(line_of(alone, stage, kind, work));
      layer.layers = run.count;
      layer.name = stage.repeated ? fmt::format("{}{}", stage.prefix, first) : stage.prefix;
      if (stage.repeated && run.count > 1) layer.name += fmt::format("–{}", first + run.count - 1);
      first += run.count;
      tree.push_back(layer);
      for (const Component& component : kind.components) {
        TreeLine line = MFU_TRY(line_of(alone, stage, {{component}}, work));
        line.depth = 1;
        line.name = component.name.empty() ? std::string(name_of(component.part)) : component.name;
        tree.push_back(std::move(line));
      }
    }
  }
  return tree;
}

struct Traits {
  bool encodes = false, decodes = false;                   // streams
  bool latent = false, predicts = false, chooses = false;  // MLA, MTP, experts
};

Traits traits_of(const ModelSpec& model) {
  Traits traits;
  for (const Stage& stage : model.stages) {
    traits.encodes = traits.encodes || stage.stream == Stream::encoder;
    traits.decodes = traits.decodes || (stage.stream == Stream::text && stage.repeated);
    traits.predicts = traits.predicts || stage.mtp;
    for (const LayerKind& kind : stage.kinds) {
      for (const Component& component : kind.components) {
        const auto* attention = std::get_if<Attention>(&component.work);
        const auto* matrix = std::get_if<Projection>(&component.work);
        traits.latent = traits.latent || (attention != nullptr && attention->latent_dim != 0);
        traits.chooses = traits.chooses || (matrix != nullptr && matrix->active < matrix->copies);
        if (matrix != nullptr && matrix->rows == Rows::encoder) traits.encodes = true;
      }
    }
  }
  return traits;
}

// An option that does not apply to this model was probably meant for another one.
Result<void> check_options(const ModelSpec& model, const Workload& work) {
  Traits traits = traits_of(model);
  auto refuse = [&](std::string_view what, std::string_view option) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} has no {}: leave {} out",
                    model.type.empty() ? "this model" : printable(model.type), what, option));
  };
  if (work.encoder_sequence != 0 && !traits.encodes) return refuse("encoder", "--encoder-seq");
  if (work.mla != MlaForm::automatic && !traits.latent) {
    return refuse("latent attention", "--mla");
  }
  if (work.mtp && !traits.predicts) return refuse("multi-token-prediction layers", "--mtp");
  bool grid = work.grid.frames != 0 || work.grid.height != 0 || work.grid.width != 0;
  if (grid && !model.image) return refuse("vision tower", "--image-grid");
  if (grid && work.images == 0 && !model.vision_only) {
    return fail(ErrorCode::invalid_argument,
                "--image-grid says how large a picture is, and --images that there is one: give "
                "--images N too");
  }
  return {};
}

// Refuses questions that no model can answer.
Result<void> check_question(const ModelSpec& model, const ParameterCount& parameters,
                            const Workload& work) {
  if (parameters.total == 0) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: describes no weights at all", printable(model.name)));
  }
  bool generates = !model.encoder_only && !model.vision_only;
  if (!generates && (work.phase == Phase::decode || work.phase == Phase::prefill)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is an encoder: it has no {} phase; ask for forward",
                            model.architecture, name_of(work.phase)));
  }
  return check_options(model, work);
}

Result<void> check_images(const FlopNeed& need) {
  if (need.image_tokens <= need.tokens) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("the pictures make {} tokens, and the step has {} with them among them: "
                          "give a longer --seq or fewer --images",
                          need.image_tokens, need.tokens));
}

Note trained_note(std::uint64_t trained, std::uint64_t all) {
  return {
      "parameters_trained",
      {{"trained", static_cast<std::int64_t>(trained)}, {"all", static_cast<std::int64_t>(all)}}};
}

void add_assumptions(const ModelSpec& model, const NeedQuestion& question, NeedReport& report) {
  Traits traits = traits_of(model);
  if (traits.encodes && traits.decodes && question.work.encoder_sequence == 0) {
    report.assumptions.push_back(
        model.encoder_sequence > 0
            ? Note("encoder_length_fixed",
                   {{"length", static_cast<std::int64_t>(model.encoder_sequence)}})
            : Note("encoder_length_as_sequence", {}));
  }
  if (question.convention != Convention::exact) {
    report.notes.push_back({"parts_by_exact", {}});
  }
  if (question.work.phase == Phase::train) {
    report.notes.push_back({"training_bytes_not_counted", {}});
  } else if (traits.chooses) {
    report.notes.push_back({"experts_read_evenly", {}});
  }
}

}  // namespace

Result<NeedReport> report_need(const ModelSpec& model, const NeedQuestion& question) {
  NeedReport report;
  report.name = printable(model.name, 200);
  report.type = printable(model.type, 200);
  report.architecture = printable(model.architecture, 200);
  report.parameters = count_parameters(model);
  MFU_TRY(check_question(model, report.parameters, question.work));
  report.work = question.work;
  report.convention = question.convention;
  TrainingPlan plan = MFU_TRY(plan_training(model, question.training));
  bool partly = plan.parameters_trained != report.parameters.total || plan.lora_rank > 0;
  FlopNeed need = MFU_TRY(flop_per_step(model, question.work, plan));
  MFU_TRY(check_images(need));
  report.tokens = need.tokens;
  report.flop_by_part = need.by_part;
  report.assumptions = model.notes;
  report.notes = need.notes;
  report.parameters.by_part[Part::adapter] = plan.parameters_adapter;
  add_assumptions(model, question, report);
  ConventionOptions options{question.parameters, &plan};
  ConventionCount chosen =
      MFU_TRY(flop_by_convention(model, question.work, question.convention, options));
  report.model_flop = chosen.model_flop;
  report.hardware_flop = chosen.hardware_flop;
  if (!chosen.why.empty()) add_why(report, question.convention, chosen);
  if (chosen.model_flop && chosen.model_flop->saturated()) {
    return fail(ErrorCode::invalid_argument,
                "the count passes 2^128: no model is that large; check the sizes");
  }
  if (report.model_flop && report.tokens > 0) {
    report.flop_per_token = report.model_flop->to_double() / static_cast<double>(report.tokens);
  }
  if (question.every_convention) {
    for (Convention convention : all_conventions()) {
      ConventionReport each{
          convention, MFU_TRY(flop_by_convention(model, question.work, convention, options)), {}};
      if (each.count.model_flop && need.model_flop > FlopCount(0)) {
        each.ratio = each.count.model_flop->to_double() / need.model_flop.to_double();
      }
      if (!each.count.model_flop) add_why(report, convention, each.count);
      report.conventions.push_back(std::move(each));
    }
  }
  if (partly && question.work.phase == Phase::train) {
    report.assumptions.push_back(
        trained_note(plan.parameters_trained, report.parameters.total + plan.parameters_adapter));
  }
  report.bytes = MFU_TRY(bytes_per_step(model, question.work));
  if (question.tree) report.tree = MFU_TRY(tree_of(model, question.work));
  if (question.rl) report.rl = MFU_TRY(report_rl(model, *question.rl, plan));
  return report;
}

namespace {
ConventionCount count_of(const ClassNeed& need, Convention convention) {
  switch (convention) {
    case Convention::exact:
      return {need.need.model_flop, need.need.hardware_flop, ""};
    case Convention::flopcounter:
      return {need.flopcounter, need.flopcounter, ""};
    case Convention::flopcounter_fused:
      return {need.flopcounter_fused, need.flopcounter_fused, ""};
    default:
      return {{}, {}, "counted_by_class"};
  }
}

// An error is a sentence, so a code becomes words: "not a causal decoder".
std::string spaced(std::string code) {
  std::replace(code.begin(), code.end(), '_', ' ');
  return code;
}
}  // namespace

Result<NeedReport> report_need(const ClassNeed& need, const NeedQuestion& question) {
  if (question.tree || question.rl) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: not known for a model that is counted by its class",
                            question.tree ? "--tree" : "--rl"));
  }
  NeedReport report;
  report.name = printable(need.name, 200);
  report.type = need.type;
  report.architecture = need.architecture;
  report.source = need.library;
  report.parameters = need.parameters;
  report.work = question.work;
  report.tokens = need.need.tokens;
  report.convention = question.convention;
  report.flop_by_part = need.need.by_part;
  report.notes = need.need.notes;
  report.notes.push_back({"bytes_not_counted", {}});
  std::uint64_t all = need.parameters.total + need.parameters.by_part[Part::adapter];
  if (question.work.phase == Phase::train && need.parameters_trained < all) {
    report.assumptions.push_back(trained_note(need.parameters_trained, all));
  }
  report.tensors = need.inputs;
  ConventionCount chosen = count_of(need, question.convention);
  report.model_flop = chosen.model_flop;
  report.hardware_flop = chosen.hardware_flop;
  if (!chosen.model_flop) add_why(report, question.convention, chosen);
  if (question.every_convention) {
    for (Convention each : all_conventions()) {
      ConventionCount count = count_of(need, each);
      std::optional<double> ratio;
      if (count.model_flop && need.need.model_flop > FlopCount(0)) {
        ratio = count.model_flop->to_double() / need.need.model_flop.to_double();
      }
      report.conventions.push_back({each, std::move(count), ratio});
    }
    report.notes.push_back({"class_conventions", {}});
    report.notes.insert(report.notes.end(), need.differences.begin(), need.differences.end());
  }
  if (report.model_flop && report.tokens > 0) {
    report.flop_per_token = report.model_flop->to_double() / static_cast<double>(report.tokens);
  }
  return report;
}

Result<void> add_utilization(NeedReport& report, const ModelSpec& model,
                             const UtilizationQuestion& question) {
  if (!report.model_flop) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the convention {} does not define this model, so it has no utilization",
                    describe(report.convention).name));
  }
  report.peak = question.peak;
  if (question.duration) {
    UtilizationInput input{.work = {{*report.model_flop, report.hardware_flop, question.peak.rate}},
                           .duration = *question.duration,
                           .devices = question.devices,
                           .bandwidth = question.bandwidth};
    if (report.bytes && report.bytes->step_read) {
      input.moved = Bytes{*report.bytes->step_read + report.bytes->step_written.value_or(0)};
    }
    report.utilization = MFU_TRY(utilization_of(input));
    report.like = runs_of_like_size(report.parameters.total, 3);
  }
  if (question.bandwidth && question.peak.rate) {
    report.roofline =
        MFU_TRY(roofline_of(model, report.work, *question.peak.rate, *question.bandwidth));
  }
  return {};
}

Result<ConversionReport> report_conversion(const ModelSpec& model, const Workload& work,
                                           Fraction mfu, Convention from, Convention to) {
  ConventionCount before = MFU_TRY(flop_by_convention(model, work, from, {}));
  ConventionCount after = MFU_TRY(flop_by_convention(model, work, to, {}));
  for (const auto& [count, convention] : {std::pair(&before, from), std::pair(&after, to)}) {
    if (!count->model_flop || *count->model_flop == FlopCount(0)) {
      return fail(ErrorCode::unsupported,
                  fmt::format("{} does not define this model: {}", describe(convention).name,
                              spaced(count->why)));
    }
  }
  ConversionReport report;
  report.from = from;
  report.to = to;
  report.ratio = after.model_flop->to_double() / before.model_flop->to_double();
  report.mfu_from = mfu;
  report.mfu_to = {mfu.value * report.ratio};
  return report;
}

}  // namespace mfu
