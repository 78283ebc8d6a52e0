#include "model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace mfu::app {

namespace {

Result<std::uint64_t> parse_whole(const std::string& text, const std::string& what) {
  std::uint64_t number = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || stop != text.data() + text.size()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a whole number", what, text));
  }
  return number;
}

}  // namespace

std::vector<std::string> comma_parts(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    std::size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Result<double> parse_amount(const std::string& text, const std::string& what) {
  double number = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(stop, text.data() + text.size());
  double scale = unit.empty()                 ? 1
                 : unit == "k" || unit == "K" ? 1e3
                 : unit == "M"                ? 1e6
                 : unit == "B" || unit == "G" ? 1e9
                 : unit == "T"                ? 1e12
                                              : 0;
  if (problem != std::errc() || scale == 0 || !std::isfinite(number) || number <= 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a number above 0, such as 15e12 or 70B", what, text));
  }
  return number * scale;
}

Result<std::uint64_t> parse_whole_amount(const std::string& text, const std::string& what,
                                         double most) {
  double number = MFU_TRY(parse_amount(text, what));
  if (number < 1 || number > most || number != std::floor(number)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a whole number from 1 to {:g}", what, text, most));
  }
  return static_cast<std::uint64_t>(number);
}

Result<Fraction> parse_share(const std::string& text, const std::string& what) {
  bool percent = !text.empty() && text.back() == '%';
  std::string digits = percent ? text.substr(0, text.size() - 1) : text;
  Result<double> number = parse_amount(digits, what);
  if (!number.has_value()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a share, such as 45.2% or 0.452", what, text));
  }
  return Fraction{percent ? *number / 100 : *number};
}

void ModelOptions::add_to(CLI::App& app, bool several) {
  add_value(app, "CONFIG", "CONFIG", paths,
            "config.json or a folder that has one; or a .safetensors file, its index or a .gguf")
      ->expected(0, several ? 1 << 20 : 1);
  add_value(app, "--architecture", "NAME", architecture,
            "Class of the model to count, instead of the config's architectures[0]");
  add_value(app, "--set", "KEY=VALUE", overrides, "Use another value for a field of the config")
      ->allow_extra_args(false);
  add_value(app, "--assume", "TYPE", assume,
            "Read the fields of an unknown model type as those of this type");
  add_count(app, "--layers", shape.layers, "Shape of a model without a config: number of layers");
  add_count(app, "--hidden", shape.hidden, "Shape: hidden size");
  add_count(app, "--heads", shape.heads, "Shape: query heads");
  add_count(app, "--kv-heads", shape.kv_heads, "Shape: key and value heads (default: --heads)");
  add_count(app, "--head-dim", shape.head_dim,
            "Shape: size of a head (default: --hidden / --heads)");
  add_count(app, "--ffn", shape.ffn, "Shape: size of the MLP (default: 4 × --hidden)");
  add_value(app, "--mlp", "KIND", mlp, "Shape: kind of MLP")
      ->check(CLI::IsMember({"gated", "plain"}));
  add_count(app, "--vocab", shape.vocab, "Shape: size of the vocabulary");
  app.add_flag("--tied", shape.tied, "Shape: embedding and output head share one matrix");
  add_count(app, "--experts", shape.experts, "Shape: experts per layer");
  add_count(app, "--experts-per-token", shape.experts_per_token,
            "Shape: experts that each token uses");
  add_value(app, "--params", "N", parameters,
            "Published number of parameters, for conventions that count with N");
}

Result<ModelSpec> ModelOptions::load(const std::string& path) const {
  if (path.empty()) {
    ModelShape wanted = shape;
    wanted.gated = mlp == "gated";
    return model_of_shape(wanted);
  }
  return read_model(path, MFU_TRY(config()));
}

Result<ConfigOptions> ModelOptions::config() const {
  ConfigOptions options;
  options.architecture = architecture;
  options.assume = assume;
  options.mtp_layers = mtp_layers;
  for (const std::string& pair : overrides) {
    std::size_t cut = pair.find('=');
    if (cut == std::string::npos || cut == 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--set {}: write it as KEY=VALUE", pair));
    }
    options.overrides.emplace_back(pair.substr(0, cut), pair.substr(cut + 1));
  }
  return options;
}

Result<std::optional<std::uint64_t>> ModelOptions::published_parameters() const {
  if (parameters.empty()) return std::optional<std::uint64_t>();
  Result<std::uint64_t> exact = parse_whole(parameters, "--params");
  if (exact.has_value() && *exact > 0) return std::optional(*exact);
  std::uint64_t amount = MFU_TRY(parse_whole_amount(parameters, "--params", 1e18));
  return std::optional(amount);
}

void StepOptions::add_to(CLI::App& app) {
  add_value(app, "--phase", "PHASE", phase, "Kind of step")
      ->check(CLI::IsMember({"train", "forward", "prefill", "decode"}));
  add_count(app, "--batch", work.batch, "Sequences in the step (default 1)");
  add_count(app, "--seq", work.sequence, "New tokens per sequence (default 2048; for decode 1)");
  add_value(app, "--context", "N", work.context,
            "Tokens per sequence that are already in the cache")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
  add_count(app, "--encoder-seq", work.encoder_sequence,
            "Encoder tokens per sequence, for encoder-decoder models");
  add_value(app, "--lengths", "N,N,…", lengths,
            "Lengths of packed or ragged sequences, instead of --batch and --seq");
  add_value(app, "--images", "N", work.images, "Images in the step, in total")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
  add_value(app, "--image-grid", "T,H,W", grid,
            "Patches of an image before merging, as in image_grid_thw");
  add_value(app, "--recompute", "POLICY", recompute, "What the backward pass computes again")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  add_value(app, "--mla", "FORM", mla, "Form of latent attention (auto: absorbed in decode)")
      ->check(CLI::IsMember({"auto", "expanded", "absorbed"}));
}

Result<Workload> StepOptions::workload() const {
  Workload asked = work;
  asked.phase = MFU_TRY(parse_phase(phase));
  asked.recompute = MFU_TRY(parse_recompute(recompute));
  asked.mla = mla == "expanded"   ? MlaForm::expanded
              : mla == "absorbed" ? MlaForm::absorbed
                                  : MlaForm::automatic;
  if (work.sequence == 0) asked.sequence = asked.phase == Phase::decode ? 1 : 2048;
  if (!lengths.empty()) {
    if (work.batch != 1 || work.sequence != 0) {
      return fail(ErrorCode::invalid_argument,
                  "--lengths replaces --batch and --seq. Leave those out");
    }
    for (const std::string& part : comma_parts(lengths))
      asked.lengths.push_back(MFU_TRY(parse_whole(part, "--lengths")));
  }
  if (!grid.empty()) {
    std::vector<std::string> sides = comma_parts(grid);
    if (sides.size() != 3)
      return fail(ErrorCode::invalid_argument, "--image-grid: write it as T,H,W");
    asked.grid.frames = MFU_TRY(parse_whole(sides[0], "--image-grid"));
    asked.grid.height = MFU_TRY(parse_whole(sides[1], "--image-grid"));
    asked.grid.width = MFU_TRY(parse_whole(sides[2], "--image-grid"));
  }
  return asked;
}

void DeviceOptions::add_to(CLI::App& app) {
  add_value(app, "--device", "NAME", device,
            "Compare with the peak of this device, named as its driver names it");
  add_value(app, "--dtype", "TYPE", type, "Data type of the matmuls (default bf16)");
  add_value(app, "--peak", "N", peak, "Peak of one device in FLOP/s; wins over --device");
}

Result<Precision> parse_type(const std::string& text) {
  std::optional<Precision> precision = parse_precision(text);
  if (precision) return *precision;
  std::vector<std::string_view> names;
  for (Precision each : all_precisions()) names.push_back(name_of(each));
  return fail(ErrorCode::invalid_argument,
              fmt::format("--dtype {}: there is no such type. Give one of {}", text,
                          fmt::join(names, " ")));
}

Result<FlopRate> parse_peak(const std::string& text) {
  return FlopRate{MFU_TRY(parse_amount(text, "--peak"))};
}

Result<DeviceOptions::Against> DeviceOptions::against(const Catalog& catalog) const {
  Against found;
  Precision precision = MFU_TRY(parse_type(type));
  if (!device.empty()) found.device = MFU_TRY(find_device(catalog, device));
  PeakQuestion question{.device = device.empty() ? nullptr : &found.device};
  if (!peak.empty()) question.given = MFU_TRY(parse_peak(peak));
  if (device.empty()) found.device.name = "a device of your own";
  found.peak = choose_peak(question, name_of(precision));
  if (found.peak.rate) return found;
  if (device.empty()) {
    return fail(ErrorCode::invalid_argument,
                "a utilization needs a peak. Give --device NAME or --peak FLOP_PER_S");
  }
  return fail(ErrorCode::not_found, fmt::format("the catalogue has no peak of {} for {}, nor for a "
                                                "wider type. Give --peak, or another --dtype",
                                                found.device.name, type));
}

}  // namespace mfu::app
