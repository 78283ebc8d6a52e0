// Asks the library that defines a model: its class, built without weights, says which operators it
// runs; what each costs is in ops/.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/digest.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/text.h"
#include "mfu/measure.h"
#include "mfu/ops.h"
#include "ops/formulas.h"
#include "ops/request.h"

MFU_EMBED(mfu_class_operators_py, MFU_MEASURE_DIR "/class_operators.py");
MFU_EMBED(mfu_ask_class_py, MFU_MEASURE_DIR "/ask_class.py");

namespace mfu {
namespace {

constexpr std::chrono::minutes kPatience{10};
constexpr std::uint64_t kMostAnswerBytes = 8u << 20;

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (std::uint8_t byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

// Where a name on PATH leads: the same word means another library in another environment.
std::string found_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    std::size_t end = std::min(left.find(':'), left.size());
    std::string candidate = fmt::format("{}/{}", left.substr(0, end), name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return name;
}

void write_size(JsonWriter& json, std::string_view name, const ImageSize& size) {
  json.key(name);
  if (size.height == 0 || size.width == 0) {
    json.null();
    return;
  }
  json.begin_array().value(size.height).value(size.width).end_array();
}

std::string request_of(const ConfigOptions& config, const Workload& work,
                       const ClassOptions& options) {
  JsonWriter json;
  json.begin_object();
  json.member("phase", name_of(work.phase)).member("batch", work.batch);
  json.member("sequence", work.sequence).member("context", work.context);
  json.member("encoder_sequence", work.encoder_sequence);
  json.member("architecture", config.architecture);
  write_size(json, "image", options.image);
  write_size(json, "latent", options.latent);
  json.key("overrides").begin_array();
  for (const auto& [key, value] : config.overrides) {
    json.begin_array().value(key).value(value).end_array();
  }
  json.end_array().end_object();
  return json.text();
}

// The files that the answer rests on are as they were.
bool still_true(const Json& answer) {
  const Json* stamps = answer.find("stamps");
  if (stamps == nullptr || stamps->elements().empty()) return false;
  for (const Json& stamp : stamps->elements()) {
    struct stat seen{};
    if (::stat(stamp.text_at("path").c_str(), &seen) != 0) return false;
    std::uint64_t changed_ns = static_cast<std::uint64_t>(seen.st_mtim.tv_sec) * 1'000'000'000u +
                               static_cast<std::uint64_t>(seen.st_mtim.tv_nsec);
    if (stamp.count_at("bytes") != static_cast<std::uint64_t>(seen.st_size)) return false;
    if (stamp.count_at("changed_ns") != changed_ns) return false;
  }
  return true;
}

std::optional<Json> kept_answer(const std::string& path) {
  Result<std::string> text = read_file(path, kMostAnswerBytes);
  if (!text.has_value()) return std::nullopt;
  Result<Json> answer = parse_json(*text, path);
  if (!answer.has_value() || !still_true(*answer)) return std::nullopt;
  return *answer;
}

// What a config says reaches the script as base64: nothing of it is ever read as code.
std::string script_for(std::string_view config, std::string_view request) {
  return fmt::format(
      "{}\n{}\nimport base64\nmain(*(base64.b64decode(each).decode(\"utf-8\", \"replace\") for "
      "each "
      "in (\"{}\", \"{}\")))\n",
      std::string_view(mfu_class_operators_py, mfu_class_operators_py_end),
      std::string_view(mfu_ask_class_py, mfu_ask_class_py_end), base64(config), base64(request));
}

// Asks, and keeps the answer.
Result<Json> asked(const std::string& python, const std::string& script, const std::string& kept,
                   std::string_view name) {
  ProcessEnd end = run_command({python, "-"}, script, kPatience);
  if (!end.good()) {
    std::string why = end.kind == ProcessEnd::Kind::not_started
                          ? "cannot be started: name another Python (--python)"
                          : end.describe() + " while it built the class";
    return fail(ErrorCode::unsupported, fmt::format("{}: {} {}", name, python, why));
  }
  Json answer = MFU_TRY(parse_json(end.output, python));
  if (std::string problem = answer.text_at("problem"); !problem.empty()) {
    return fail(ErrorCode::unsupported, fmt::format("{}: {}", name, printable(problem, 700)));
  }
  (void)write_file(kept, end.output);  // where it cannot be kept, it is asked again
  return answer;
}

Part part_named(std::string_view name) {
  for (std::size_t i = 0; i < kPartCount; ++i) {
    if (name_of(static_cast<Part>(i)) == name) return static_cast<Part>(i);
  }
  return Part::mlp;
}

struct Priced {
  FlopNeed need;
  std::map<std::string, std::uint64_t> uncounted;  // calls by operator
};

// Nothing is recomputed: what a fused backward repeats of its scores is left out, as everywhere in
// `mfu flops`.
void add_cost(Priced& priced, Part part, FlopCount model, std::uint64_t calls) {
  priced.need.model_flop += model * calls;
  priced.need.hardware_flop += model * calls;
  priced.need.by_part[part] += model * calls;
}

void add_attention(Priced& priced, const Json& row, std::uint64_t calls, bool backward) {
  const auto& arguments = row.find("args")->elements();
  if (arguments.empty()) return;
  const Json& shape = arguments[0];
  std::uint64_t pairs =
      times(shape.count_at("pairs").value_or(0), shape.count_at("heads").value_or(0));
  auto qk = static_cast<std::int64_t>(shape.count_at("qk").value_or(0));
  auto v = static_cast<std::int64_t>(shape.count_at("v").value_or(0));
  AttentionFlop flop =
      backward ? attention_backward(pairs, qk, v) : attention_forward(pairs, qk, v);
  add_cost(priced, Part::attention_scores, flop.model_flop, calls);
}

// A product of two activations inside an attention is its scores or its values.
bool is_batched(std::string_view name) {
  return name == "aten::bmm" || name == "aten::baddbmm";
}

void add_row(Priced& priced, const Json& row) {
  std::string name = row.text_at("op");
  std::uint64_t calls = row.count_at("calls").value_or(0);
  const Json* given = row.find("args");
  if (given == nullptr) return;
  if (name.starts_with("attention")) {
    return add_attention(priced, row, calls, name == "attention_backward");
  }
  const Operator* op = find_operator(name);
  if (op == nullptr) {
    if (looks_flop_carrying(name)) priced.uncounted[name] += calls;
    return;
  }
  if (op->role == OperatorRole::uncounted) priced.uncounted[name] += calls;
  if (op->role != OperatorRole::leaf && op->role != OperatorRole::cover) return;
  ArgumentList arguments, result;
  for (const Json& value : given->elements()) add(arguments, value);
  if (const Json* first = row.find("result")) {
    add(result, *first);
  } else {
    result.add_unknown();
  }
  Result<OperatorCost> cost = cost_of(*op, arguments.view(), result.view()[0]);
  if (!cost.has_value()) {
    priced.uncounted[name] += calls;
    return;
  }
  Part part = part_named(row.text_at("part"));
  if (part == Part::attention_projections && is_batched(name)) part = Part::attention_scores;
  add_cost(priced, part, cost->model_flop, calls);
}

Priced priced_of(const Json& answer) {
  Priced priced;
  if (const Json* rows = answer.find("operators")) {
    for (const Json& row : rows->elements()) add_row(priced, row);
  }
  priced.need.tokens = answer.count_at("tokens").value_or(0);
  if (const Json* notes = answer.find("notes")) {
    for (const Json& note : notes->elements()) {
      if (note.string() != nullptr) priced.need.notes.push_back(printable(*note.string(), 400));
    }
  }
  for (const auto& [name, calls] : priced.uncounted) {
    priced.need.notes.push_back(
        fmt::format("{} ran {} times and is not counted", printable(name, 100), calls));
  }
  return priced;
}

ClassNeed need_of(const Json& answer) {
  ClassNeed found;
  found.type = printable(answer.text_at("type"), 200);
  found.architecture = printable(answer.text_at("architecture"), 200);
  found.library = printable(answer.text_at("library"), 100);
  found.version = printable(answer.text_at("version"), 100);
  found.parameters.total = answer.count_at("parameters").value_or(0);
  found.parameters.active = answer.count_at("active").value_or(found.parameters.total);
  if (const Json* parts = answer.find("parts")) {
    for (const auto& [name, count] : parts->members()) {
      found.parameters.by_part[part_named(name)] += count.count().value_or(0);
    }
  }
  found.parameters.embedding = found.parameters.by_part[Part::embedding] +
                               found.parameters.by_part[Part::position_embedding];
  found.need = priced_of(answer).need;
  return found;
}

Result<void> check_asked(const Workload& work) {
  std::string_view what = !work.lengths.empty() || work.sums          ? "lengths"
                          : work.recompute != Recompute::none         ? "recomputation"
                          : work.images != 0 || work.grid.frames != 0 ? "pictures beside a text"
                          : work.mtp                                  ? "multi-token prediction"
                          : work.mla != MlaForm::automatic            ? "forms of latent attention"
                                                                      : "";
  if (what.empty()) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("{} are not known for a model that is counted by its class", what));
}

}  // namespace

Result<ClassNeed> ask_class(const std::string& path, const ConfigOptions& config,
                            const Workload& work, const ClassOptions& options) {
  MFU_TRY(check_asked(work));
  ConfigText text = MFU_TRY(read_config_text(path));
  std::string python = found_on_path(options.python);
  std::string script = script_for(text.text, request_of(config, work, options));
  std::string kept = fmt::format("{}/classes/{}.json", cache_directory(),
                                 hexadecimal(fmt::format("{}\n{}", python, script)));
  std::optional<Json> answer = kept_answer(kept);
  if (!answer) answer = MFU_TRY(asked(python, script, kept, text.path));
  ClassNeed found = need_of(*answer);
  found.name = text.name;
  return found;
}

}  // namespace mfu
