// Asks the library that defines a model. Its class is built without weights and tells which
// operators it runs. ops/ knows what each costs.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/digest.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/text.h"
#include "class_price.h"
#include "mfu/measure.h"

MFU_EMBED(mfu_class_operators_py, MFU_MEASURE_DIR "/class_operators.py");
MFU_EMBED(mfu_class_values_py, MFU_MEASURE_DIR "/class_values.py");
MFU_EMBED(mfu_class_attention_py, MFU_MEASURE_DIR "/class_attention.py");
MFU_EMBED(mfu_class_inputs_py, MFU_MEASURE_DIR "/class_inputs.py");
MFU_EMBED(mfu_class_diffusers_py, MFU_MEASURE_DIR "/class_diffusers.py");
MFU_EMBED(mfu_class_model_py, MFU_MEASURE_DIR "/class_model.py");
MFU_EMBED(mfu_class_training_py, MFU_MEASURE_DIR "/class_training.py");
MFU_EMBED(mfu_ask_class_py, MFU_MEASURE_DIR "/ask_class.py");

namespace mfu {
namespace {

constexpr std::chrono::minutes kPatience{10};
constexpr std::uint64_t kMostAnswerBytes = 8u << 20;
constexpr std::size_t kMostLengths = 64;
constexpr std::size_t kMostAnswers = 2000;  // kept on disk at most

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (std::uint8_t byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

// Where a name on PATH leads. The same name means another library in another environment.
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

// Sequences of the same length run together.
void write_steps(JsonWriter& json, const Workload& work) {
  std::map<std::uint64_t, std::uint64_t> batch_of;
  for (std::uint64_t length : work.lengths) ++batch_of[length];
  if (work.lengths.empty()) batch_of[work.sequence] = work.batch;
  json.key("steps").begin_array();
  for (auto [length, batch] : batch_of) json.begin_array().value(batch).value(length).end_array();
  json.end_array();
}

void write_training(JsonWriter& json, const Workload& work, const TrainingOptions& training) {
  if (work.phase != Phase::train) return;
  auto write_list = [&](std::string_view name, const std::vector<std::string>& texts) {
    json.key(name).begin_array();
    for (const std::string& text : texts) json.value(text);
    json.end_array();
  };
  write_list("frozen", training.frozen);
  if (training.lora_rank == 0) return;
  json.key("lora").begin_object().member("rank", training.lora_rank);
  write_list("targets", training.lora_targets);
  json.end_object();
}

std::string request_of(const ConfigOptions& config, const Workload& work,
                       const ClassOptions& options) {
  JsonWriter json;
  json.begin_object();
  json.member("phase", name_of(work.phase)).member("context", work.context);
  write_steps(json, work);
  write_training(json, work, options.training);
  json.member("encoder_sequence", work.encoder_sequence);
  json.member("architecture", config.architecture);
  write_size(json, "image", options.image);
  write_size(json, "latent", options.latent);
  json.member("frames", options.frames);
  json.key("overrides").begin_array();
  if (!config.assume.empty()) {
    json.begin_array().value("model_type").value(config.assume).end_array();
    json.begin_array().value("architectures").value("null").end_array();
  }
  for (const auto& [key, value] : config.overrides) {
    json.begin_array().value(key).value(value).end_array();
  }
  json.end_array().end_object();
  return json.text();
}

// Whether the files that the answer was made from are unchanged.
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

// The folder for answers. Nobody else may write to it. Empty if there is none.
std::optional<std::string> kept_folder() {
  std::string folder = cache_directory() + "/classes";
  if (!make_folder_of(folder).has_value() || !make_own_folder(folder).has_value()) return {};
  return folder;
}

std::optional<Json> kept_answer(const std::string& path) {
  struct stat seen{};
  if (::lstat(path.c_str(), &seen) != 0 || !S_ISREG(seen.st_mode)) return std::nullopt;
  if (seen.st_uid != ::geteuid() || (seen.st_mode & 022) != 0) return std::nullopt;
  Result<std::string> text = read_file(path, kMostAnswerBytes);
  if (!text.has_value()) return std::nullopt;
  Result<Json> answer = parse_json(*text, path);
  if (!answer.has_value() || !still_true(*answer)) return std::nullopt;
  return *answer;
}

// Keeps an answer. If that fails, it is asked for again next time. If there are too many, the older
// half is deleted.
void keep(const std::string& folder, const std::string& path, std::string_view answer) {
  namespace fs = std::filesystem;
  std::error_code none;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    files.emplace_back(entry.last_write_time(none), entry.path());
  }
  if (files.size() >= kMostAnswers) {
    std::ranges::sort(files);
    for (std::size_t i = 0; i < files.size() / 2; ++i) fs::remove(files[i].second, none);
  }
  if (!write_file(path, answer).has_value()) return;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, none);
}

// The config reaches the script as base64, so nothing of it is ever read as code.
std::string script_for(std::string_view config, std::string_view request) {
  std::string script;
  for (std::string_view part :
       {std::string_view(mfu_class_operators_py, mfu_class_operators_py_end),
        std::string_view(mfu_class_values_py, mfu_class_values_py_end),
        std::string_view(mfu_class_attention_py, mfu_class_attention_py_end),
        std::string_view(mfu_class_inputs_py, mfu_class_inputs_py_end),
        std::string_view(mfu_class_diffusers_py, mfu_class_diffusers_py_end),
        std::string_view(mfu_class_model_py, mfu_class_model_py_end),
        std::string_view(mfu_class_training_py, mfu_class_training_py_end),
        std::string_view(mfu_ask_class_py, mfu_ask_class_py_end)}) {
    script.append(part).push_back('\n');
  }
  return fmt::format(
      "{}import base64\nmain(*(base64.b64decode(each).decode(\"utf-8\", \"replace\") for "
      "each in (\"{}\", \"{}\")))\n",
      script, base64(config), base64(request));
}

Result<Json> asked(const std::string& python, const std::string& script, std::string_view name,
                   std::string& text) {
  ProcessEnd end = run_command({python, "-"}, script, kPatience);
  if (!end.good()) {
    bool absent = end.kind == ProcessEnd::Kind::not_started;
    std::string why = absent ? "cannot be started: name another Python (--python)"
                             : end.describe() + " while it built the class";
    return fail(absent ? ErrorCode::not_found : ErrorCode::unsupported,
                fmt::format("{}: {} {}", name, python, why));
  }
  Json answer = MFU_TRY(parse_json(end.output, python));
  if (std::string problem = answer.text_at("problem"); !problem.empty()) {
    bool absent = !answer.text_at("missing").empty();
    bool known = answer.find("known") != nullptr;  // the type is known, the config is bad
    ErrorCode code = known ? ErrorCode::malformed : ErrorCode::unsupported;
    if (absent && !known) code = ErrorCode::not_found;
    return fail(code, fmt::format("{}: {}", name, printable(problem, 900)));
  }
  text = std::move(end.output);
  return answer;
}

ClassNeed need_of(const Json& answer, Recompute recompute) {
  ClassNeed found;
  found.type = printable(answer.text_at("type"), 200);
  found.architecture = printable(answer.text_at("architecture"), 200);
  found.library = printable(answer.text_at("library"), 100);
  found.version = printable(answer.text_at("version"), 100);
  found.parameters.total = answer.count_at("parameters").value_or(0);
  found.parameters.active = answer.count_at("active").value_or(found.parameters.total);
  found.parameters_trained = answer.count_at("trained").value_or(found.parameters.total);
  found.parameters.by_part[Part::adapter] = answer.count_at("adapters").value_or(0);
  if (const Json* parts = answer.find("parts")) {
    for (const auto& [name, count] : parts->members()) {
      found.parameters.by_part[part_named(name)] += count.count().value_or(0);
    }
  }
  found.parameters.embedding = found.parameters.by_part[Part::embedding] +
                               found.parameters.by_part[Part::position_embedding];
  found.need.tokens = answer.count_at("tokens").value_or(0);
  if (const Json* notes = answer.find("notes")) {
    for (const Json& note : notes->elements()) {
      if (note.string() != nullptr)
        found.need.notes.push_back(Note::said(printable(*note.string(), 400)));
    }
  }
  if (const Json* inputs = answer.find("inputs")) {
    for (const auto& [name, sizes] : inputs->members()) {
      auto& [input, shape] = found.inputs.emplace_back(printable(name, 100), 0);
      for (const Json& size : sizes.elements()) shape.push_back(size.count().value_or(0));
    }
  }
  price_operators(answer, recompute, found);
  return found;
}

Result<void> check_asked(const Workload& work) {
  std::set<std::uint64_t> lengths(work.lengths.begin(), work.lengths.end());
  if (lengths.size() > kMostLengths) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} different lengths: a class is asked for at most {}", lengths.size(),
                            kMostLengths));
  }
  std::string_view what;
  if (work.sums) what = "a sum of lengths";
  if (work.images != 0 || work.grid.frames != 0) what = "--images and --image-grid";
  if (work.mtp) what = "--mtp";
  if (work.mla != MlaForm::automatic) what = "--mla";
  if (what.empty()) return {};
  return fail(ErrorCode::unsupported,
              fmt::format("{}: not known for a model that is counted by its class", what));
}

}  // namespace

Result<ClassNeed> ask_class(const ConfigText& text, const ConfigOptions& config,
                            const Workload& work, const ClassOptions& options) {
  MFU_TRY(check_asked(work));
  std::string python = found_on_path(options.python);
  std::string script = script_for(text.text, request_of(config, work, options));
  std::optional<std::string> folder = kept_folder();
  std::string kept = fmt::format("{}/{}.json", folder.value_or(""),
                                 hexadecimal(fmt::format("{}\n{}", python, script)));
  std::optional<Json> answer;
  if (folder) answer = kept_answer(kept);
  if (!answer) {
    std::string said;
    answer = MFU_TRY(asked(python, script, text.path, said));
    if (folder) keep(*folder, kept, said);
  }
  ClassNeed found = need_of(*answer, work.recompute);
  found.name = text.name;
  return found;
}

}  // namespace mfu
