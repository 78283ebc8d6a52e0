// A program for tests/python. It reads one request per line on stdin and writes one answer per line
// to stdout, so that one process can answer for thousands of configs. It is not installed.
//
//   {"config": {…}, "architecture": "…", "phase": "train", "batch": 2, "seq": 16, "context": 0,
//    "encoder": 0, "images": 0, "grid": [1, 4, 4], "frozen": ["…"], "lora": 0}
#include <iostream>
#include <string>

#include "base/json.h"
#include "mfu/workload.h"

namespace mfu {
namespace {

// Writes a JSON value out again: the config inside a request.
void write(JsonWriter& out, const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      out.null();
      return;
    case Json::Kind::boolean:
      out.value(*value.boolean());
      return;
    case Json::Kind::number:
      if (value.count()) {
        out.value(*value.count());
      } else {
        out.value(value.number().value_or(0));
      }
      return;
    case Json::Kind::string:
      out.value(*value.string());
      return;
    case Json::Kind::array:
      out.begin_array();
      for (const Json& element : value.elements()) write(out, element);
      out.end_array();
      return;
    case Json::Kind::object:
      out.begin_object();
      for (const auto& [name, member] : value.members()) {
        out.key(name);
        write(out, member);
      }
      out.end_object();
      return;
  }
}

Result<Workload> workload_of(const Json& request) {
  Workload work;
  work.phase = MFU_TRY(parse_phase(request.text_at("phase", "forward")));
  work.batch = request.count_at("batch").value_or(1);
  work.sequence = request.count_at("seq").value_or(1);
  work.context = request.count_at("context").value_or(0);
  work.encoder_sequence = request.count_at("encoder").value_or(0);
  work.images = request.count_at("images").value_or(0);
  const Json* grid = request.find("grid");
  if (grid != nullptr && grid->elements().size() == 3) {
    work.grid = {grid->elements()[0].count().value_or(0), grid->elements()[1].count().value_or(0),
                 grid->elements()[2].count().value_or(0)};
  }
  return work;
}

TrainingOptions training_of(const Json& request) {
  TrainingOptions options;
  options.lora_rank = request.count_at("lora").value_or(0);
  if (const Json* frozen = request.find("frozen")) {
    for (const Json& pattern : frozen->elements()) options.frozen.push_back(*pattern.string());
  }
  if (const Json* targets = request.find("targets")) {
    for (const Json& target : targets->elements()) options.lora_targets.push_back(*target.string());
  }
  return options;
}

void write_conventions(JsonWriter& out, const ModelSpec& model, const Workload& work,
                       const TrainingPlan& plan) {
  out.key("conventions").begin_object();
  for (Convention convention : all_conventions()) {
    auto count = flop_by_convention(model, work, convention, {.plan = &plan});
    out.key(describe(convention).name);
    if (count && count->model_flop) {
      out.value(*count->model_flop);
    } else {
      out.null();
    }
  }
  out.end_object();
}

Result<std::string> answer(const std::string& line) {
  Json request = MFU_TRY(parse_json(line, "request"));
  const Json* config = request.find("config");
  if (config == nullptr) return fail(ErrorCode::invalid_argument, "a request needs a config");
  JsonWriter text;
  write(text, *config);
  ConfigOptions options{.architecture = request.text_at("architecture", "")};
  ModelSpec model = MFU_TRY(parse_model(text.text(), "config.json", options));
  Workload work = MFU_TRY(workload_of(request));
  TrainingPlan plan = MFU_TRY(plan_training(model, training_of(request)));
  FlopNeed need = MFU_TRY(flop_per_step(model, work, plan));
  ParameterCount parameters = count_parameters(model);
  JsonWriter out;
  out.begin_object();
  out.member("parameters", parameters.total).member("active", parameters.active);
  out.key("by_part").begin_object();
  for (std::size_t i = 0; i < kPartCount; ++i) {
    out.member(name_of(static_cast<Part>(i)), parameters.by_part.values[i]);
  }
  out.end_object();
  out.member("exact", need.model_flop).member("vision", need.by_part[Part::vision]);
  out.member("scores", need.by_part[Part::attention_scores]);
  write_conventions(out, model, work, plan);
  out.end_object();
  return out.text();
}

}  // namespace
}  // namespace mfu

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    auto result = mfu::answer(line);
    if (result) {
      std::cout << *result << '\n';
    } else {
      mfu::JsonWriter out;
      out.begin_object().member("error", result.error().message).end_object();
      std::cout << out.text() << '\n';
    }
  }
}
