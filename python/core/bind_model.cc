// Binds what a model needs: mfu._core.Spec and the questions to it. An answer is the JSON of
// docs/formats/, which the package parses. So Python and `--json` always say the same.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "core.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;
using Lengths = std::vector<std::uint64_t>;

ModelSpec read_spec(const std::string& path, std::string architecture, Overrides overrides) {
  return value_or_raise(read_model(path, {std::move(architecture), std::move(overrides)}));
}

ModelSpec parse_spec(const std::string& json, const std::string& name, std::string architecture,
                     Overrides overrides) {
  return value_or_raise(parse_model(json, name, {std::move(architecture), std::move(overrides)}));
}

// The step, in the order of _need.py's _STEP. None if not given.
struct Step {
  std::string phase;
  std::uint64_t batch;
  std::optional<std::uint64_t> sequence;
  std::uint64_t context, encoder_sequence;
  std::optional<Lengths> lengths;
  std::uint64_t images;
  std::optional<Lengths> image_grid;
  std::string recompute, mla;
  bool mtp;
};

Result<MlaForm> parse_mla(const std::string& name) {
  if (name == "auto") return MlaForm::automatic;
  if (name == "expanded") return MlaForm::expanded;
  if (name == "absorbed") return MlaForm::absorbed;
  return fail(ErrorCode::invalid_argument,
              "mla '" + name + "': auto, expanded or absorbed was expected");
}

Result<Workload> workload_of(const Step& step) {
  Workload work;
  work.phase = MFU_TRY(parse_phase(step.phase));
  work.recompute = MFU_TRY(parse_recompute(step.recompute));
  work.mla = MFU_TRY(parse_mla(step.mla));
  work.batch = step.batch;
  work.sequence = step.sequence.value_or(work.phase == Phase::decode ? 1 : 2048);
  work.context = step.context;
  work.encoder_sequence = step.encoder_sequence;
  work.images = step.images;
  work.mtp = step.mtp;
  if (step.lengths) {
    if (step.batch != 1 || step.sequence)
      return fail(ErrorCode::invalid_argument, "lengths replaces batch and seq. Leave those out");
    if (step.lengths->empty())
      return fail(ErrorCode::invalid_argument, "lengths: give at least one");
    work.lengths = *step.lengths;
  }
  if (step.image_grid) {
    if (step.image_grid->size() != 3)
      return fail(ErrorCode::invalid_argument, "image_grid: write it as (T, H, W)");
    work.grid = {(*step.image_grid)[0], (*step.image_grid)[1], (*step.image_grid)[2]};
  }
  return work;
}

struct Timing {
  std::optional<double> step_seconds, tokens_per_second;
  std::uint64_t devices;
};

Result<std::optional<std::chrono::nanoseconds>> duration_of(const Timing& timing,
                                                            std::uint64_t tokens) {
  if (timing.step_seconds && timing.tokens_per_second) {
    return fail(ErrorCode::invalid_argument,
                "step_seconds and tokens_per_second say the same thing. Give only one");
  }
  if (!timing.step_seconds && !timing.tokens_per_second)
    return std::optional<std::chrono::nanoseconds>();
  double seconds = timing.step_seconds ? *timing.step_seconds
                                       : static_cast<double>(tokens) / *timing.tokens_per_second;
  // No step of any model takes less than a nanosecond or more than a century.
  if (!(seconds >= 1e-9 && seconds < 3e9)) {
    return fail(ErrorCode::invalid_argument, "a step of " + std::to_string(seconds) +
                                                 " seconds makes no sense; check the rate or time");
  }
  return std::optional(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9))));
}

std::string answer(NeedReport report, const ModelSpec& model, const PeakAsked& asked,
                   const Timing& timing) {
  auto duration = value_or_raise(duration_of(timing, report.tokens));
  if (duration || asked.device || asked.flop_per_s) {
    Against found = value_or_raise(against(asked));
    UtilizationQuestion question{duration, timing.devices, found.peak, found.device.bandwidth};
    if (report.source != "config") question.bandwidth.reset();  // what it moves is not known
    value_or_raise(add_utilization(report, model, question));
  }
  return to_json(report, Voice::python);
}

NeedQuestion question_of(const Step& step, const std::string& convention) {
  NeedQuestion question;
  question.work = value_or_raise(workload_of(step));
  question.every_convention = convention == "all";
  if (!question.every_convention)
    question.convention = value_or_raise(parse_convention(convention));
  return question;
}

using Lora = std::optional<std::pair<std::uint64_t, std::vector<std::string>>>;

TrainingOptions training_of(const Lora& lora, std::vector<std::string> frozen) {
  TrainingOptions training{.frozen = std::move(frozen)};
  if (lora) {
    training.lora_rank = lora->first;
    training.lora_targets = lora->second;
  }
  return training;
}

std::string need_json(const ModelSpec& model, const Step& step, const std::string& convention,
                      const Lora& lora, std::vector<std::string> frozen,
                      std::optional<std::uint64_t> parameters, bool tree, const PeakAsked& asked,
                      const Timing& timing) {
  NeedQuestion question = question_of(step, convention);
  question.tree = tree;
  question.parameters = parameters;
  question.training = training_of(lora, std::move(frozen));
  return answer(value_or_raise(report_need(model, question)), model, asked, timing);
}

// The config to ask the class about: a path, or JSON with a name.
using Source = std::tuple<std::string, std::string, std::string>;
ConfigText text_of(const Source& source) {
  const auto& [path, json, name] = source;
  if (!path.empty()) return value_or_raise(read_config_text(path));
  return {name, name, json};
}

using Size = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

std::string class_json(const Source& source, const Step& step, const std::string& convention,
                       const Lora& lora, std::vector<std::string> frozen, const Size& image,
                       const Size& latent, std::uint64_t frames, std::string python,
                       const PeakAsked& asked, const Timing& timing) {
  NeedQuestion question = question_of(step, convention);
  ClassOptions options{.python = std::move(python),
                       .frames = frames,
                       .training = training_of(lora, std::move(frozen))};
  if (image) options.image = {image->first, image->second};
  if (latent) options.latent = {latent->first, latent->second};
  ConfigText text = text_of(source);
  Result<ClassNeed> need = [&] {
    nb::gil_scoped_release others;  // it takes seconds
    return ask_class(text, {}, question.work, options);
  }();
  return answer(value_or_raise(report_need(value_or_raise(std::move(need)), question)), {}, asked,
                timing);
}

std::string conversion_json(const ModelSpec& model, const Step& step, double mfu,
                            const std::string& from, const std::string& to) {
  if (!(mfu > 0 && mfu <= 1))
    raise({ErrorCode::invalid_argument, "mfu: a fraction above 0 and up to 1 was expected"});
  Workload work = value_or_raise(workload_of(step));
  Convention source = value_or_raise(parse_convention(from));
  Convention target = value_or_raise(parse_convention(to));
  return to_json(value_or_raise(report_conversion(model, work, {mfu}, source, target)));
}

nb::dict parameters_of(const ModelSpec& model) {
  ParameterCount count = count_parameters(model);
  nb::dict parts;
  for (std::size_t i = 0; i < kPartCount; ++i) {
    Part part = static_cast<Part>(i);
    if (count.by_part[part] > 0)
      parts[std::string(name_of(part)).c_str()] = nb::int_(count.by_part[part]);
  }
  nb::dict all;
  all["total"] = nb::int_(count.total);
  all["active"] = nb::int_(count.active);
  all["embedding"] = nb::int_(count.embedding);
  all["by_part"] = parts;
  return all;
}

void bind_spec(nb::module_& module) {
  nb::class_<ModelSpec>(module, "Spec", "A model as the library holds it.")
      .def_static("read", &read_spec, "path"_a, "architecture"_a, "overrides"_a)
      .def_static("parse", &parse_spec, "json"_a, "name"_a, "architecture"_a, "overrides"_a)
      .def_static(
          "of_shape",
          [](std::uint64_t layers, std::uint64_t hidden, std::uint64_t heads,
             std::uint64_t kv_heads, std::uint64_t head_dim, std::uint64_t ffn, std::uint64_t vocab,
             std::uint64_t experts, std::uint64_t experts_per_token, bool gated, bool tied) {
            return value_or_raise(model_of_shape({layers, hidden, heads, kv_heads, head_dim, ffn,
                                                  vocab, experts, experts_per_token, gated, tied}));
          },
          "layers"_a, "hidden"_a, "heads"_a, "kv_heads"_a, "head_dim"_a, "ffn"_a, "vocab"_a,
          "experts"_a, "experts_per_token"_a, "gated"_a, "tied"_a)
      .def_prop_ro("name", [](const ModelSpec& model) { return model.name; })
      .def_prop_ro("type", [](const ModelSpec& model) { return model.type; })
      .def_prop_ro("architecture", [](const ModelSpec& model) { return model.architecture; })
      .def_prop_ro("notes",
                   [](const ModelSpec& model) {
                     std::vector<std::string> words;
                     for (const Note& each : model.notes) {
                       words.push_back(words_of(each, Voice::python));
                     }
                     return words;
                   })
      .def("parameters", &parameters_of);
}

void bind_step(nb::module_& module) {
  using Count = std::optional<std::uint64_t>;
  nb::class_<Step>(module, "Step", "One step of a model: what runs through it.")
      .def(nb::init<std::string, std::uint64_t, Count, std::uint64_t, std::uint64_t,
                    std::optional<Lengths>, std::uint64_t, std::optional<Lengths>, std::string,
                    std::string, bool>(),
           "phase"_a, "batch"_a, "sequence"_a.none(), "context"_a, "encoder_sequence"_a,
           "lengths"_a.none(), "images"_a, "image_grid"_a.none(), "recompute"_a, "mla"_a, "mtp"_a);
  nb::class_<Timing>(module, "Timing", "How long a step took, and on how many devices.")
      .def(nb::init<std::optional<double>, std::optional<double>, std::uint64_t>(),
           "step_seconds"_a.none(), "tokens_per_second"_a.none(), "devices"_a);
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_spec(module);
  bind_step(module);
  module.def("flops", &need_json, "spec"_a, "step"_a, "convention"_a, "lora"_a.none(), "frozen"_a,
             "parameters"_a.none(), "tree"_a, "against"_a, "timing"_a, "JSON of mfu.flops/1.");
  module.def("class_flops", &class_json, "source"_a, "step"_a, "convention"_a, "lora"_a.none(),
             "frozen"_a, "image"_a.none(), "latent"_a.none(), "frames"_a, "python"_a, "against"_a,
             "timing"_a, "JSON of mfu.flops/1, by a model's class.");
  module.def(
      "has_family", [](const Source& source) { return has_family(text_of(source), {}); },
      "source"_a, "Whether a family here describes a config.");
  module.def("convert", &conversion_json, "spec"_a, "step"_a, "mfu"_a, "from_"_a, "to"_a,
             "JSON of mfu.convert/1.");
  module.def("conventions", [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (Convention each : all_conventions())
      rows.emplace_back(std::string(describe(each).name), std::string(describe(each).why));
    return rows;
  });
  module.def("model_types", &known_model_types);
}

}  // namespace mfu::python
