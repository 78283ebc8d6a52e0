#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "commands.h"
#include "model_options.h"
#include "sweep_options.h"

namespace mfu::app {

namespace {

struct NeedOptions {
  ModelOptions model;
  StepOptions step;
  DeviceOptions device;
  SweepOptions sweep;
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
  std::string image, latent;
  std::uint64_t frames = 0;
  bool by_class = false;
};

// Reads --mtp and --mtp N. A word after it that is no number is the config.
void set_mtp(const std::vector<std::string>& given, NeedOptions& options) {
  options.step.work.mtp = true;
  if (given.empty() || given[0].empty()) return;
  bool number = given[0].find_first_not_of("0123456789") == std::string::npos;
  if (!number || given[0].size() > 6) return options.model.paths.push_back(given[0]);
  options.model.mtp_layers = std::stoull(given[0]);
}

// HxW
Result<ImageSize> size_of(const std::string& text, const std::string& option) {
  ImageSize size;
  if (text.empty()) return size;
  std::size_t cut = text.find('x');
  if (cut == std::string::npos) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: HEIGHTxWIDTH was expected", option));
  }
  size.height = MFU_TRY(parse_whole_amount(text.substr(0, cut), option, 1e6));
  size.width = MFU_TRY(parse_whole_amount(text.substr(cut + 1), option, 1e6));
  return size;
}

// ROLE,ROLE…
Result<std::optional<RlQuestion>> rl_of(const NeedOptions& options, std::uint64_t sequences) {
  if (options.rl.empty()) {
    if (!options.lengths_of_rl) return std::optional<RlQuestion>();
    return fail(ErrorCode::invalid_argument,
                "--prompt and --response belong to --rl: name its passes, as in --rl "
                "actor,reference,learner");
  }
  RlQuestion question{sequences, options.prompt, options.response, {}};
  for (const std::string& role : comma_parts(options.rl))
    question.roles.push_back(MFU_TRY(parse_rl_role(role)));
  return std::optional(std::move(question));
}

// RANK[:target,target…]
Result<void> set_lora(const std::string& text, TrainingOptions& training) {
  if (text.empty()) return {};
  std::size_t cut = std::min(text.find(':'), text.size());
  training.lora_rank = MFU_TRY(parse_whole_amount(text.substr(0, cut), "--lora", 1e6));
  if (cut + 1 >= text.size()) return {};
  training.lora_targets = comma_parts(text.substr(cut + 1));
  if (training.lora_targets.back().empty()) training.lora_targets.pop_back();
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
  // No step of any model takes less than a nanosecond or more than a century.
  if (!(seconds >= 1e-9 && seconds < 3e9)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a step of {:g} seconds makes no sense; check the rate or time", seconds));
  }
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

// Computes what serving reaches at the roof. It needs a device, or drafted tokens or chunks.
Result<void> add_serving(NeedReport& report, const ModelSpec& model, const NeedOptions& options,
                         const std::optional<DeviceOptions::Against>& against) {
  ServingQuestion asked = MFU_TRY(options.sweep.question());
  bool inference = report.work.phase == Phase::decode || report.work.phase == Phase::prefill;
  bool wanted = options.sweep.given() || asked.drafted > 0 || asked.chunk > 0;
  if (!wanted && !(inference && against)) return {};
  if (report.source != "config") {
    if (!wanted) return {};
    return fail(ErrorCode::unsupported,
                "--sweep, --speculate and --chunk: not known for a model that is counted by its "
                "class");
  }
  asked.devices = options.devices;
  if (against) asked.roof = {.peak = against->peak.rate, .bandwidth = against->device.bandwidth};
  report.serving = MFU_TRY(serving_need(model, report.work, asked));
  return {};
}

Result<NeedQuestion> question_of(const NeedOptions& options, const std::optional<Workload>& work) {
  NeedQuestion question;
  question.work = work ? *work : MFU_TRY(options.step.workload());
  question.every_convention = options.convention == "all";
  if (!question.every_convention)
    question.convention = MFU_TRY(parse_convention(options.convention));
  question.tree = options.tree;
  question.parameters = MFU_TRY(options.model.published_parameters());
  question.training.frozen = options.frozen;
  MFU_TRY(set_lora(options.lora, question.training));
  question.rl = MFU_TRY(rl_of(options, question.work.batch));
  return question;
}

// If no family of ours knows the model, the library that defines it is asked.
Result<bool> asks_class(const NeedOptions& options, const std::string& path) {
  bool config = !path.empty() && !path.ends_with(".safetensors") && !path.ends_with(".gguf");
  if (!config) return false;
  bool pictured = !options.image.empty() || !options.latent.empty() || options.frames != 0;
  if (options.by_class || pictured) return true;
  std::error_code none;
  bool again =
      std::filesystem::is_regular_file(path, none) || std::filesystem::is_directory(path, none);
  if (!again) return false;  // a pipe can be read only once
  Result<ConfigText> text = read_config_text(path);
  return text.has_value() && !has_family(*text, MFU_TRY(options.model.config()));
}

Result<NeedReport> answer_of_class(Context& context, const NeedOptions& options,
                                   const NeedQuestion& question, const std::string& path) {
  ClassOptions asked{
      .python = context.python(), .frames = options.frames, .training = question.training};
  asked.image = MFU_TRY(size_of(options.image, "--image"));
  asked.latent = MFU_TRY(size_of(options.latent, "--latent"));
  ConfigOptions config = MFU_TRY(options.model.config());
  ConfigText text = MFU_TRY(read_config_text(path));
  Result<ClassNeed> need = ask_class(text, config, question.work, asked);
  const char* own = std::getenv("MFU_OWN_PYTHON");  // the one that runs mfu
  if (!need.has_value() && need.error().code == ErrorCode::not_found && own != nullptr &&
      asked.python != own) {
    asked.python = own;
    Result<ClassNeed> other = ask_class(text, config, question.work, asked);
    if (other.has_value() || other.error().code != ErrorCode::not_found) need = std::move(other);
  }
  if (need.has_value()) return report_need(*need, question);
  Result<ModelSpec> family = parse_model(text.text, text.path, config);
  if (family.has_value() || need.error().code == ErrorCode::malformed) return Failure{need.error()};
  return fail(need.error().code, fmt::format("{}. Its class was asked too: {}",
                                             family.error().message, need.error().message));
}

Result<NeedReport> answer(Context& context, const NeedOptions& options, const std::string& path,
                          const std::optional<Workload>& work = {}) {
  NeedQuestion question = MFU_TRY(question_of(options, work));
  ModelSpec model;
  NeedReport report;
  if (MFU_TRY(asks_class(options, path))) {
    report = MFU_TRY(answer_of_class(context, options, question, path));
  } else {
    model = MFU_TRY(options.model.load(path));
    report = MFU_TRY(report_need(model, question));
  }
  bool timed = !options.step_seconds.empty() || !options.tokens_per_second.empty();
  if (!timed && !options.device.given()) {
    MFU_TRY(add_serving(report, model, options, {}));
    return report;
  }
  if (!options.device.given()) {
    return fail(ErrorCode::invalid_argument,
                "a rate needs a peak to be compared with: give --device NAME or --peak FLOP_PER_S");
  }
  DeviceOptions::Against against = MFU_TRY(options.device.against(context.catalog()));
  UtilizationQuestion asked{{}, options.devices, against.peak, against.device.bandwidth};
  if (report.source != "config") asked.bandwidth.reset();  // what it moves is not known
  if (timed) asked.duration = MFU_TRY(duration_of(options, report.tokens));
  MFU_TRY(add_utilization(report, model, asked));
  MFU_TRY(add_serving(report, model, options, against));
  return report;
}

bool contradicts(const NeedReport& report) {
  return report.utilization && !report.utilization->contradictions.empty();
}

Result<int> run(Context& context, const NeedOptions& options) {
  std::vector<std::string> paths = options.model.paths;
  if (!paths.empty() && options.model.by_shape()) {
    return fail(ErrorCode::invalid_argument,
                "give a config or a shape, not both. --set KEY=VALUE changes a field of a config");
  }
  if (paths.empty() && options.model.by_shape()) paths.emplace_back();
  if (paths.empty()) {
    return fail(ErrorCode::invalid_argument,
                "name a config.json, or give a shape: --layers 32 --hidden 4096 --heads 32 …");
  }
  if (!options.step_seconds.empty() && !options.tokens_per_second.empty()) {
    return fail(ErrorCode::invalid_argument,
                "--step-seconds and --tokens-per-second say the same thing. Give only one");
  }
  if (options.sweep.given()) {
    if (paths.size() > 1) return fail(ErrorCode::invalid_argument, "--sweep takes one model");
    std::vector<NeedReport> reports;
    for (const Workload& work : MFU_TRY(options.sweep.points(MFU_TRY(options.step.workload())))) {
      reports.push_back(MFU_TRY(answer(context, options, paths[0], work)));
    }
    context.print(context.json() ? sweep_json(reports) : sweep_text(reports, context.style()));
    return kGood;
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

CommandText need_text() {
  return {
      "flops",
      "What does this model need?",
      "Counts the FLOPs, parameters and bytes of one step exactly, by part, from a config.json or "
      "a shape. It counts the operators that are needed, with the true area of causal, windowed, "
      "chunked and packed attention. Only the config is read, never the weights.\n\n"
      "If mfu does not know a model, it is counted by its class: the transformers or diffusers of "
      "--python builds it without weights, network or code from a hub (trust_remote_code is off), "
      "and the cost of the operators that it runs is added up. The first answer takes as long as "
      "that import; it is kept for later.\n\n"
      "With --convention NAME the step is counted as another system counts it; with all, every "
      "convention is shown beside ours, with the reason why they differ. With a device and "
      "--tokens-per-second (of the whole job) or --step-seconds you get MFU, HFU and MBU.",
      {{"mfu flops config.json --batch 8 --seq 4096", "a training step, by part"},
       {"mfu flops llama-3.1-8b/ --seq 8192 --convention all",
        "what each system would count for it, side by side"},
       {"mfu flops config.json --seq 8192 --tokens-per-second 35008 --device \"NVIDIA H100 80GB "
        "HBM3\" --devices 8",
        "MFU of a run"},
       {"mfu flops config.json --phase decode --batch 32 --context 4096 --device \"NVIDIA H100 "
        "80GB HBM3\"",
        "what a decode step must move, and whether compute or memory is the limit"},
       {"mfu flops config.json --phase decode --context 4096 --sweep batch=1..256 --device h200",
        "tokens/s at the roof by batch, and the batch from which compute binds"},
       {"mfu flops config.json --lora 16:q_proj,v_proj", "what training with LoRA really costs"},
       {"mfu flops config.json --batch 64 --rl actor,old,reference,learner --prompt 512 --response "
        "1024",
        "a step of GRPO, pass by pass"},
       {"mfu flops --layers 80 --hidden 8192 --heads 64 --kv-heads 8 --ffn 28672 --vocab 128256 "
        "--json",
        "a shape, for a script"}}};
}

}  // namespace

Command flops_command() {
  auto options = std::make_shared<NeedOptions>();
  auto add = [options](CLI::App& app) {
    options->model.add_to(app, true);
    options->step.add_to(app);
    add_value(app, "--convention", "NAME", options->convention,
              "Convention to count by, or all (default exact)");
    add_value(app, "--lora", "RANK[:TARGETS]", options->lora, "Train only adapters of that rank");
    add_value(app, "--frozen", "PATTERN", options->frozen,
              "Pattern for the names of weights that are not trained")
        ->allow_extra_args(false);
    add_value(app, "--tokens-per-second", "N", options->tokens_per_second,
              "Measured tokens per second of the whole job, for MFU");
    add_value(app, "--step-seconds", "S", options->step_seconds,
              "Measured time of this step, for MFU");
    options->device.add_to(app);
    options->sweep.add_to(app);
    add_count(app, "--devices", options->devices, "Number of devices (default 1)");
    app.add_flag("--tree", options->tree, "Also show each layer");
    app.add_flag("--by-class", options->by_class, "Ask the class even if mfu knows the model");
    add_value(app, "--image", "HxW", options->image,
              "Size of the picture of a vision or diffusion model, in pixels");
    add_value(app, "--latent", "HxW", options->latent,
              "Size of a diffusion model's input, in latents");
    add_count(app, "--frames", options->frames, "Frames of a video, in latents (default 1)");
    app.add_option_function<std::vector<std::string>>(
           "--mtp", [options](const std::vector<std::string>& given) { set_mtp(given, *options); },
           "Count the multi-token-prediction layers too; with N, that many of them")
        ->type_name("[N]")
        ->expected(0, 1);
    add_value(app, "--rl", "PASS,PASS…", options->rl,
              "Also count a step of reinforcement learning over --batch sequences, as a list "
              "of its passes: actor generates; old, reference, reward and values run forward; "
              "critic and learner are updated");
    for (auto [name, length, what] :
         {std::tuple("--prompt", &options->prompt,
                     "With --rl: prompt tokens per sequence (default 512)"),
          std::tuple("--response", &options->response,
                     "With --rl: generated tokens per sequence (default 1024)")}) {
      add_count(app, name, *length, what)->each([options](const std::string&) {
        options->lengths_of_rl = true;
      });
    }
  };
  return {need_text(), add, [options](Context& context) { return run(context, *options); }};
}

}  // namespace mfu::app
