#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands.h"
#include "model_options.h"

namespace mfu::app {

namespace {

struct NeedOptions {
  ModelOptions model;
  StepOptions step;
  DeviceOptions device;
  std::string convention = "exact";
  std::string lora;
  std::vector<std::string> frozen;
  std::string tokens_per_second;
  std::string step_seconds;
  std::uint64_t devices = 1;
  bool tree = false;
  std::string rl;
  std::uint64_t prompt = 512;
  std::uint64_t response = 1024;
  bool lengths_of_rl = false;
};

// ROLE,ROLE…
Result<std::optional<RlQuestion>> rl_of(const NeedOptions& options, std::uint64_t sequences) {
  if (options.rl.empty()) {
    if (!options.lengths_of_rl) return std::optional<RlQuestion>();
    return fail(ErrorCode::invalid_argument,
                "--prompt and --response belong to --rl: name its passes, as in --rl "
                "actor,reference,learner");
  }
  RlQuestion question{sequences, options.prompt, options.response, {}};
  for (std::size_t start = 0; start <= options.rl.size();) {
    std::size_t end = std::min(options.rl.find(',', start), options.rl.size());
    question.roles.push_back(MFU_TRY(parse_rl_role(options.rl.substr(start, end - start))));
    start = end + 1;
  }
  return std::optional(std::move(question));
}

// RANK[:target,target…]
Result<void> set_lora(const std::string& text, TrainingOptions& training) {
  if (text.empty()) return {};
  std::size_t cut = std::min(text.find(':'), text.size());
  training.lora_rank = MFU_TRY(parse_whole_amount(text.substr(0, cut), "--lora", 1e6));
  for (std::size_t start = cut + 1; start < text.size();) {
    std::size_t end = std::min(text.find(',', start), text.size());
    training.lora_targets.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return {};
}

Result<std::chrono::nanoseconds> duration_of(const NeedOptions& options, std::uint64_t tokens) {
  double seconds = 0;
  if (!options.step_seconds.empty()) {
    seconds = MFU_TRY(parse_amount(options.step_seconds, "--step-seconds"));
  } else {
    double rate = MFU_TRY(parse_amount(options.tokens_per_second, "--tokens-per-second"));
    seconds = static_cast<double>(tokens) / rate;
  }
  // Below a nanosecond or beyond a century is no step of any model.
  if (!(seconds >= 1e-9 && seconds < 3e9)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a step of {:g} seconds makes no sense; check the rate or time", seconds));
  }
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

Result<NeedReport> answer(Context& context, const NeedOptions& options, const std::string& path) {
  Diagnostics diagnostics;
  ModelSpec model = MFU_TRY(options.model.load(path, diagnostics));
  NeedQuestion question;
  question.work = MFU_TRY(options.step.workload());
  question.every_convention = options.convention == "all";
  if (!question.every_convention)
    question.convention = MFU_TRY(parse_convention(options.convention));
  question.tree = options.tree;
  question.parameters = MFU_TRY(options.model.published_parameters());
  question.training.frozen = options.frozen;
  MFU_TRY(set_lora(options.lora, question.training));
  question.rl = MFU_TRY(rl_of(options, question.work.batch));
  NeedReport report = MFU_TRY(report_need(model, question));
  for (const std::string& warning : diagnostics.warnings()) {
    bool said = std::find(report.assumptions.begin(), report.assumptions.end(), warning) !=
                report.assumptions.end();
    if (!said) report.notes.push_back(warning);
  }
  bool timed = !options.step_seconds.empty() || !options.tokens_per_second.empty();
  if (!timed && !options.device.given()) return report;
  if (!options.device.given()) {
    return fail(ErrorCode::invalid_argument,
                "a rate needs a peak to be compared with: give --device NAME or --peak FLOP_PER_S");
  }
  DeviceOptions::Against against = MFU_TRY(options.device.against(context.catalog()));
  UtilizationQuestion asked{{}, options.devices, against.peak, against.device.bandwidth};
  if (timed) asked.duration = MFU_TRY(duration_of(options, report.tokens));
  MFU_TRY(add_utilization(report, model, asked));
  return report;
}

bool contradicts(const NeedReport& report) {
  return report.utilization && !report.utilization->contradictions.empty();
}

Result<int> run(Context& context, const NeedOptions& options) {
  std::vector<std::string> paths = options.model.paths;
  if (!paths.empty() && options.model.by_shape()) {
    return fail(ErrorCode::invalid_argument,
                "a config and a shape: which of the two? --set KEY=VALUE changes a config's field");
  }
  if (paths.empty() && options.model.by_shape()) paths.emplace_back();
  if (paths.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name a config.json, or give a shape: --layers 32 --hidden 4096 --heads 32 …");
  }
  if (!options.step_seconds.empty() && !options.tokens_per_second.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--step-seconds and --tokens-per-second say the same thing: give one");
  }
  int status = kGood;
  std::string json;
  for (const std::string& path : paths) {
    NeedReport report = MFU_TRY(answer(context, options, path));
    if (contradicts(report)) status = kThreshold;
    if (context.json()) {
      json += (json.empty() ? "" : ",") + to_json(report);
    } else {
      context.print((&path == &paths.front() ? "" : "\n") + to_text(report, context.style()));
    }
  }
  if (context.json())
    context.print(paths.size() == 1 ? json
                                    : R"({"schema":"mfu.flops_many/1","results":[)" + json + "]}");
  return status;
}

}  // namespace

Command flops_command() {
  auto options = std::make_shared<NeedOptions>();
  CommandText text{
      "flops",
      "What does this model need?",
      "FLOPs, parameters and bytes of one step, exactly, by part, from a config.json or a shape: "
      "the operators that are "
      "needed, with the true area of causal, windowed, chunked and packed attention. Nothing is "
      "loaded but the config.\n\n"
      "With --convention, counted as another system counts; with all, every one beside ours, and "
      "why they differ. With a "
      "device and --tokens-per-second (of the whole job) or --step-seconds: MFU, HFU and MBU.",
      {{"mfu flops config.json --batch 8 --seq 4096", "a training step, by part"},
       {"mfu flops llama-3.1-8b/ --seq 8192 --convention all",
        "ten systems, ten answers, side by side"},
       {"mfu flops config.json --seq 8192 --tokens-per-second 35008 --device \"NVIDIA H100 80GB "
        "HBM3\" --devices 8",
        "MFU of a run"},
       {"mfu flops config.json --phase decode --batch 32 --context 4096 --device \"NVIDIA H100 "
        "80GB HBM3\"",
        "what a decode step "
        "must move, and which of compute and memory binds"},
       {"mfu flops config.json --lora 16:q_proj,v_proj", "LoRA costs what it costs"},
       {"mfu flops config.json --batch 64 --rl actor,old,reference,learner --prompt 512 --response "
        "1024",
        "a step of GRPO, pass by pass"},
       {"mfu flops --layers 80 --hidden 8192 --heads 64 --kv-heads 8 --ffn 28672 --vocab 128256 "
        "--json",
        "a shape, for a script"}}};
  auto add = [options](CLI::App& app) {
    options->model.add_to(app, true);
    options->step.add_to(app);
    app.add_option("--convention", options->convention, "How to count, or all (default exact)")
        ->type_name("NAME");
    app.add_option("--lora", options->lora, "Train adapters of that rank only")
        ->type_name("RANK[:TARGETS]");
    app.add_option("--frozen", options->frozen,
                   "Weights that are not trained, as a pattern of names")
        ->type_name("PATTERN")
        ->allow_extra_args(false);
    app.add_option("--tokens-per-second", options->tokens_per_second, "Of the whole job")
        ->type_name("N");
    app.add_option("--step-seconds", options->step_seconds, "Of this step")->type_name("S");
    options->device.add_to(app);
    app.add_option("--devices", options->devices, "How many (default 1)")
        ->type_name("N")
        ->check(whole_number());
    app.add_flag("--tree", options->tree, "Layer by layer too");
    app.add_option(
           "--rl", options->rl,
           "A step of reinforcement learning too, of --batch sequences: its passes, each by "
           "its factor (actor generates; old, reference, reward and values look; critic and "
           "learner are updated)")
        ->type_name("PASS,PASS…");
    for (auto [name, length, what] :
         {std::tuple("--prompt", &options->prompt, "… prompt tokens of each (default 512)"),
          std::tuple("--response", &options->response, "… generated (default 1024)")}) {
      app.add_option(name, *length, what)
          ->type_name("N")
          ->check(whole_number())
          ->each([options](const std::string&) { options->lengths_of_rl = true; });
    }
  };
  return {std::move(text), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
