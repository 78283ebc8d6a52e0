#include "model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace mfu::app {

namespace {

std::vector<std::string> comma_parts(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    std::size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Result<std::uint64_t> parse_whole(const std::string& text, const std::string& what) {
  std::uint64_t number = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || stop != text.data() + text.size()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' where a whole number was expected", what, text));
  }
  return number;
}

}  // namespace

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
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: '{}' where a number above 0 was expected (15e12, 70B)", what, text));
  }
  return number * scale;
}

Result<std::uint64_t> parse_whole_amount(const std::string& text, const std::string& what,
                                         double most) {
  double number = MFU_TRY(parse_amount(text, what));
  if (number < 1 || number > most || number != std::floor(number)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: '{}' where a whole number from 1 to {:g} was expected", what, text, most));
  }
  return static_cast<std::uint64_t>(number);
}

CLI::Validator whole_number() {
  auto check = [](std::string& text) -> std::string {
    bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    bool good = digits && text.size() < 16 && text.find_first_not_of('0') != std::string::npos;
    return good ? "" : "'" + text + "' where a whole number from 1 on was expected";
  };
  return CLI::Validator(check, "");
}

Result<Fraction> parse_share(const std::string& text, const std::string& what) {
  bool percent = !text.empty() && text.back() == '%';
  std::string digits = percent ? text.substr(0, text.size() - 1) : text;
  Result<double> number = parse_amount(digits, what);
  if (!number.has_value()) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: '{}' where a share such as 45.2% or 0.452 was expected", what, text));
  }
  return Fraction{percent ? *number / 100 : *number};
}

void ModelOptions::add_to(CLI::App& app, bool several) {
  app.add_option("CONFIG", paths, "config.json, a folder holding one, .safetensors, index or .gguf")
      ->type_name("CONFIG")
      ->expected(0, several ? 1 << 20 : 1);
  app.add_option("--architecture", architecture,
                 "Class to count instead of the config's architectures[0]")
      ->type_name("NAME");
  app.add_option("--set", overrides, "Another value for a config field")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--assume", assume, "Read a type that is not known as this one, by its fields")
      ->type_name("TYPE");
  app.add_option("--layers", shape.layers, "A model by its shape, without a config: layers")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--hidden", shape.hidden, "… width")->type_name("N")->check(whole_number());
  app.add_option("--heads", shape.heads, "… query heads")->type_name("N")->check(whole_number());
  app.add_option("--kv-heads", shape.kv_heads, "… key and value heads (default: heads)")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--head-dim", shape.head_dim, "… width of a head (default: width / heads)")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--ffn", shape.ffn, "… width of the MLP (default: 4 × width)")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--mlp", mlp, "… kind of MLP")
      ->type_name("KIND")
      ->check(CLI::IsMember({"gated", "plain"}));
  app.add_option("--vocab", shape.vocab, "… vocabulary")->type_name("N")->check(whole_number());
  app.add_flag("--tied", shape.tied, "… head and embedding are one matrix");
  app.add_option("--experts", shape.experts, "… experts a layer")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--experts-per-token", shape.experts_per_token, "… experts a token visits")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--params", parameters, "Published parameter count, for conventions written in N")
      ->type_name("N");
}

Result<ModelSpec> ModelOptions::load(const std::string& path, Diagnostics& diagnostics) const {
  if (path.empty()) {
    ModelShape wanted = shape;
    wanted.gated = mlp == "gated";
    return model_of_shape(wanted);
  }
  return read_model(path, MFU_TRY(config()), diagnostics);
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
                  fmt::format("--set {}: KEY=VALUE was expected", pair));
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
  app.add_option("--phase", phase, "What kind of step")
      ->type_name("PHASE")
      ->check(CLI::IsMember({"train", "forward", "prefill", "decode"}));
  app.add_option("--batch", work.batch, "Sequences (default 1)")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--seq", work.sequence, "New tokens of each (default 2048; decode 1)")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--context", work.context, "Tokens of each already in the cache")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
  app.add_option("--encoder-seq", work.encoder_sequence,
                 "Encoder tokens of each, for encoder-decoder models")
      ->type_name("N")
      ->check(whole_number());
  app.add_option("--lengths", lengths, "Packed or ragged lengths, instead of batch and seq")
      ->type_name("N,N,…");
  app.add_option("--images", work.images, "Pictures in all")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
  app.add_option("--image-grid", grid, "Patches of a picture before merging, as image_grid_thw")
      ->type_name("T,H,W");
  app.add_option("--recompute", recompute, "What the backward pass runs again")
      ->type_name("POLICY")
      ->check(CLI::IsMember({"none", "selective", "full"}));
  app.add_option("--mla", mla, "Latent attention: absorbed in decode by default")
      ->type_name("FORM")
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
      return fail(ErrorCode::invalid_argument, "--lengths stands instead of --batch and --seq");
    }
    for (const std::string& part : comma_parts(lengths))
      asked.lengths.push_back(MFU_TRY(parse_whole(part, "--lengths")));
  }
  if (!grid.empty()) {
    std::vector<std::string> sides = comma_parts(grid);
    if (sides.size() != 3)
      return fail(ErrorCode::invalid_argument, "--image-grid: T,H,W was expected");
    asked.grid.frames = MFU_TRY(parse_whole(sides[0], "--image-grid"));
    asked.grid.height = MFU_TRY(parse_whole(sides[1], "--image-grid"));
    asked.grid.width = MFU_TRY(parse_whole(sides[2], "--image-grid"));
  }
  return asked;
}

void DeviceOptions::add_to(CLI::App& app) {
  app.add_option("--device", device, "Device whose peak counts, as its driver names it")
      ->type_name("NAME");
  app.add_option("--dtype", type, "Type the matmuls run in (default bf16)")->type_name("TYPE");
  app.add_option("--peak", peak, "Peak of one device in FLOP/s; wins over --device")
      ->type_name("N");
}

Result<Precision> parse_type(const std::string& text) {
  std::optional<Precision> precision = parse_precision(text);
  if (precision) return *precision;
  std::vector<std::string_view> names;
  for (Precision each : all_precisions()) names.push_back(name_of(each));
  return fail(ErrorCode::invalid_argument,
              fmt::format("--dtype {}: one of {} was expected", text, fmt::join(names, " ")));
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
                "no peak, no utilization: give --device NAME, or --peak FLOP_PER_S");
  }
  return fail(ErrorCode::not_found,
              fmt::format("{} has no peak for {} in the catalogue, nor for a wider type; give "
                          "--peak, or another --dtype",
                          found.device.name, type));
}

}  // namespace mfu::app
