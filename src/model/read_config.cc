// Makes a model from a Hugging Face config.json: finds the family, lets it build the model, and
// checks the result.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "model/families.h"
#include "model/parameters.h"
#include "model/tensors.h"

namespace mfu {
namespace {

constexpr std::uint64_t kMostConfigBytes = 16u << 20;

std::vector<std::span<const Family>> all_families() {
  return {llama_families(),           llama_variant_families(), gemma_families(),
          gemma4_families(),          gpt_families(),           moe_families(),
          deepseek_families(),        ssm_families(),           hybrid_families(),
          nemotron_families(),        mamba_hybrid_families(),  bert_families(),
          encoder_decoder_families(), vision_families(),        multimodal_families(),
          diffusion_families(),       bart_families(),          albert_families(),
          zamba_families(),           contrastive_families(),   internvl_families(),
          gemma4_media_families()};
}

bool is_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string folder_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  for (std::string_view file : {"/config.json", "/params.json"}) {
    if (path.ends_with(file)) path.remove_suffix(file.size());
  }
  std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

// The error for an unknown type. It names the fields that even its shape would need.
Failure unknown_type(const Fields& config, const std::string& type) {
  std::vector<std::string> missing;
  for (std::string_view field : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                 "intermediate_size", "vocab_size"}) {
    if (!config.has(field)) missing.emplace_back(field);
  }
  std::vector<std::string> near = closest(type, known_model_types(), 3);
  std::string lacks = missing.empty() ? "its sizes are there, but not how its layers use them"
                                      : fmt::format("it lacks {}", fmt::join(missing, ", "));
  return fail(ErrorCode::unsupported,
              fmt::format("{}: model type \"{}\" is not known, and {}; give the shape (layers, "
                          "hidden, heads, ffn, vocab), a safetensors file, or --assume TYPE if it "
                          "is built like a known one{}{}",
                          config.file(), printable(type), lacks,
                          near.empty() ? "" : "; near: ", fmt::join(near, ", ")));
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (char c : name) {
    if (c != '_' && c != '-' && c != '.') letters += c;
  }
  return to_lower(letters);
}

// The model type whose name begins the class's name, if it belongs to another family. If no known
// type begins the name, the class may belong to any family.
std::string other_family(std::string_view architecture, const Family& family) {
  std::string name = letters_of(architecture), own = letters_of(family.type);
  for (std::string_view suffix : {"text", "model", "vision"}) {
    if (own.ends_with(suffix)) own.resize(own.size() - suffix.size());
  }
  if (name.empty() || name.starts_with(own)) return "";
  std::string_view nearest;
  for (std::span<const Family> families : all_families()) {
    for (const Family& other : families) {
      if (!name.starts_with(letters_of(other.type))) continue;
      if (other.build == family.build) return "";
      if (other.type.size() > nearest.size()) nearest = other.type;
    }
  }
  return std::string(nearest);
}

// Heads that no family here describes, so that the class has to be asked for their cost. An empty
// type means any type.
bool left_to_class(std::string_view type, std::string_view architecture) {
  struct Left {
    std::string_view type, ending;
  };
  constexpr Left kLeft[] = {{"", "ForMultipleChoice"},
                            {"", "ForNextSentencePrediction"},
                            {"", "DoubleHeadsModel"},
                            {"", "ForMaskedImageModeling"},
                            {"", "ForAudioClassification"},
                            {"bert", "ForPreTraining"},
                            {"bert", "LMHeadModel"},
                            {"clip", "ForImageClassification"},
                            {"siglip", "ForImageClassification"},
                            {"clip_vision_model", "WithProjection"},
                            {"t5", "Classification"},
                            {"t5", "ForQuestionAnswering"},
                            {"mt5", "Classification"},
                            {"mt5", "ForQuestionAnswering"},
                            {"whisper", "ForCausalLM"},
                            {"bart", "ForCausalLM"},
                            {"mbart", "ForCausalLM"}};
  return std::ranges::any_of(kLeft, [&](const Left& left) {
    return (left.type.empty() || left.type == type) && architecture.ends_with(left.ending);
  });
}

// The class to count: the one that was asked for, or else the first one in the config.
std::string class_of(const Fields& config, const ConfigOptions& options) {
  std::vector<std::string> named = config.texts({"architectures"});
  if (!options.architecture.empty()) return options.architecture;
  return named.empty() ? "" : named[0];
}

// The model type whose name begins the class's name, the longest one: Qwen2MoeForCausalLM belongs
// to qwen2_moe.
std::string type_of_class(std::string_view architecture) {
  std::string name = letters_of(architecture), nearest;
  for (std::span<const Family> families : all_families()) {
    for (const Family& family : families) {
      std::string letters = letters_of(family.type);
      if (!name.starts_with(letters) || letters.size() <= letters_of(nearest).size()) continue;
      std::string_view rest = std::string_view(name).substr(letters.size());
      if (rest.starts_with("for") || rest.starts_with("model") || rest.starts_with("lmhead")) {
        nearest = family.type;
      }
    }
  }
  return nearest;
}

struct ReadType {
  std::string type;
  std::vector<Note> notes{};  // what was assumed
};

ReadType read_type(const Fields& config, const ConfigOptions& options) {
  std::string type = config.text({"model_type"}, "");
  // diffusers names the class instead.
  if (type.empty()) type = config.text({"_class_name"}, "");
  if (!options.assume.empty() && find_family(type) == nullptr) {
    return {options.assume,
            {{type.empty() ? "no_type_read_as_asked" : "type_read_as_asked",
              {{"type", printable(type, 80)}, {"family", options.assume}}}}};
  }
  std::vector<std::string> architectures = config.texts({"architectures"});
  if (!type.empty() || architectures.empty()) return {type};
  type = type_of_class(architectures[0]);
  if (type.empty()) return {type};
  return {type, {{"type_by_class", {{"type", type}, {"class", printable(architectures[0], 80)}}}}};
}

// Fields with which an original params.json is more than a Llama or a Mistral.
constexpr std::string_view kOfOthers[] = {"moe_args",          "vision_args", "vision_encoder",
                                          "vision_chunk_size", "q_lora_rank", "kv_lora_rank"};

// The width of the MLP. In a Llama it follows from a rule (llama/model.py, FeedForward). In a
// Mistral it is a field.
Result<std::uint64_t> width_of_params(const Fields& params, std::uint64_t hidden,
                                      std::string_view name) {
  if (params.has("hidden_dim")) return params.size({"hidden_dim"}, 0);
  std::uint64_t multiple = params.count({"multiple_of"}, 256);
  double factor = params.has("ffn_dim_multiplier") ? params.number({"ffn_dim_multiplier"}, 1) : 1;
  if (multiple == 0 || !(factor > 0 && factor < 1e3)) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: multiple_of and ffn_dim_multiplier above 0 were expected", name));
  }
  std::uint64_t two_thirds = 8 * hidden / 3;  // of 4 × hidden, rounded down as in Llama's code
  auto width = static_cast<std::uint64_t>(factor * static_cast<double>(two_thirds));
  return (width + multiple - 1) / multiple * multiple;
}

// The original params.json of a Llama (Meta) or a Mistral, as a config.
Result<std::string> config_of_params(const Fields& params, std::string_view name) {
  std::uint64_t hidden = params.count({"dim"}, 0), heads = params.count({"n_heads"}, 0);
  std::uint64_t layers = params.count({"n_layers"}, 0);
  if (hidden == 0 || heads == 0 || layers == 0) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: dim, n_heads and n_layers above 0 were expected", name));
  }
  for (std::string_view field : kOfOthers) {
    if (!params.has(field)) continue;
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {} is not read of a params.json: give the model's config.json",
                            name, field));
  }
  if (!params.is_count("vocab_size")) {
    return fail(ErrorCode::malformed,
                fmt::format("{}: its vocabulary is the tokenizer's: give --set vocab_size=32000 "
                            "(Llama 1 and 2) or what it has",
                            name));
  }
  std::uint64_t width = MFU_TRY(width_of_params(params, hidden, name));
  Fields moe = params.section({"moe"});
  bool experts = params.has("moe"), own = params.has("hidden_dim");
  JsonWriter json;
  json.begin_object();
  json.member("model_type", experts ? "mixtral" : own ? "mistral" : "llama");
  json.member("hidden_size", hidden).member("num_hidden_layers", layers);
  json.member("num_attention_heads", heads);
  json.member("num_key_value_heads", params.count({"n_kv_heads"}, heads));
  if (params.has("head_dim")) json.member("head_dim", params.size({"head_dim"}, 0));
  json.member("intermediate_size", width).member("vocab_size", params.count({"vocab_size"}, 0));
  json.key("sliding_window");
  params.is_count("sliding_window") ? json.value(params.count({"sliding_window"}, 0)) : json.null();
  if (experts) {
    json.member("num_local_experts", moe.size({"num_experts"}, 8));
    json.member("num_experts_per_tok", moe.size({"num_experts_per_tok"}, 2));
  }
  bool tied = params.flag({"tied_embeddings", "tie_word_embeddings"}, false);
  json.member("tie_word_embeddings", tied).end_object();
  return json.text();
}

bool is_params(const Fields& config) {
  return !config.has("model_type") && config.has("dim") && config.has("n_layers") &&
         config.has("n_heads");
}

// Mistral's state-space models have a model_type of transformers but none of its fields.
bool is_other_params(const Fields& config) {
  return config.text({"model_type"}, "") == "mamba" && config.has("dim") &&
         !config.has("hidden_size") && !config.has("d_model");
}

// Sets the number of prediction layers that was asked for. False if the config has none.
bool set_mtp_layers(ModelSpec& model, std::uint64_t layers) {
  for (Stage& stage : model.stages) {
    if (!stage.mtp || stage.order.empty()) continue;
    stage.order.resize(1);
    stage.order[0].count = layers;
    return true;
  }
  return false;
}

// Reads a config without prediction layers as if it had as many as were asked for. Fails if its
// family has no such layers.
Result<ModelSpec> parse_with_mtp(std::string_view json, std::string_view name,
                                 const ConfigOptions& options) {
  for (const char* field : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
    ConfigOptions with = options;
    with.mtp_layers.reset();
    with.overrides.emplace_back(field, std::to_string(*options.mtp_layers));
    Result<ModelSpec> model = parse_model(json, name, with);
    if (!model.has_value()) continue;
    if (std::ranges::any_of(model->stages, [](const Stage& stage) { return stage.mtp; })) {
      return model;
    }
  }
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}: its family has no multi-token-prediction layers: leave --mtp out", name));
}

std::uint64_t bits_of(const Fields& config) {
  std::string dtype = config.text({"dtype", "torch_dtype"}, "bfloat16");
  if (dtype.find("32") != std::string::npos) return 32;
  if (dtype.find("64") != std::string::npos) return 64;
  return dtype.find("float8") != std::string::npos || dtype.find("int8") != std::string::npos ? 8
                                                                                              : 16;
}

// Adds notes on what was assumed for the bytes of weights, if the config names an unknown format.
void note_formats(const Fields& config, std::vector<Note>& notes) {
  constexpr std::string_view kTypes[] = {"bfloat16",      "float16",     "float32", "float64",
                                         "float8_e4m3fn", "float8_e5m2", "int8",    "auto"};
  constexpr std::string_view kMethods[] = {"fp8", "fbgemm_fp8", "gptq",
                                           "awq", "mxfp4",      "bitsandbytes"};
  auto known = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  std::string dtype = config.text({"dtype", "torch_dtype"}, "auto");
  if (dtype.starts_with("torch.")) dtype.erase(0, 6);
  if (!known(kTypes, dtype)) {
    notes.push_back(
        {"dtype_not_known",
         {{"dtype", printable(dtype, 40)}, {"bits", static_cast<std::int64_t>(bits_of(config))}}});
  }
  if (!config.has("quantization_config")) return;
  Fields quant = config.section({"quantization_config"});
  std::string method = quant.text({"quant_method"}, "");
  if (!known(kMethods, method)) {
    notes.push_back({"quantisation_not_known", {{"method", printable(method, 40)}}});
  }
  std::uint64_t bits = quant.count({"bits", "w_bit"}, 4);
  if ((method == "gptq" || method == "awq") && bits != 4 && bits != 8) {
    notes.push_back(
        {"bits_not_known", {{"method", method}, {"bits", static_cast<std::int64_t>(bits)}}});
  }
}

WeightFormat read_format(const Fields& config) {
  WeightFormat format;
  format.bits = bits_of(config);
  if (!config.has("quantization_config")) return format;
  Fields quant = config.section({"quantization_config"});
  std::string method = quant.text({"quant_method"}, "");
  if (method == "fp8" || method == "fbgemm_fp8") {
    format.quantization = Quantization::fp8;
    std::vector<std::uint64_t> block = quant.counts({"weight_block_size"});
    if (block.size() == 2 && block[0] != 0 && block[1] != 0) {
      format.block_rows = block[0];
      format.group = block[1];
    }
  } else if (method == "gptq" || method == "awq") {
    bool eight = quant.count({"bits", "w_bit"}, 4) == 8;
    format.quantization = eight ? Quantization::int8 : Quantization::int4;
    format.group = quant.is_count("group_size") ? quant.size({"group_size"}, 128) : 0;
  } else if (method == "mxfp4") {
    format.quantization = Quantization::mxfp4;
    format.group = 32;
    format.experts_only = true;
  } else if (method == "bitsandbytes") {
    bool four = quant.flag({"load_in_4bit"}, false);
    format.quantization = four ? Quantization::int4 : Quantization::int8;
    format.group = four ? 64 : 0;
  }
  return format;
}

}  // namespace

const Family* find_family(std::string_view type) {
  for (std::span<const Family> families : all_families()) {
    for (const Family& family : families) {
      if (family.type == type) return &family;
    }
  }
  return nullptr;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> types;
  for (std::span<const Family> families : all_families()) {
    for (const Family& family : families) types.emplace_back(family.type);
  }
  std::sort(types.begin(), types.end());
  return types;
}

Result<ModelSpec> parse_model(std::string_view json, std::string_view name,
                              const ConfigOptions& options) {
  Json document = MFU_TRY(parse_json(json, name));
  Fields config = MFU_TRY(Fields::of(document, name, options.overrides));
  if (is_params(config)) {
    std::string translated = MFU_TRY(config_of_params(config, name));
    MFU_TRY(config.problem());
    ConfigOptions rest = options;
    rest.overrides.clear();
    ModelSpec model = MFU_TRY(parse_model(translated, name, rest));
    model.notes.push_back({"original_params", {{"type", model.type}}});
    return model;
  }
  if (is_other_params(config)) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: dim and n_layers are not read for this type: give the model's "
                            "config.json",
                            name));
  }
  ModelSpec model;
  auto [type, assumed] = read_type(config, options);
  model.type = std::move(type);
  model.notes = std::move(assumed);
  if (model.type.empty()) {
    MFU_TRY(config.problem());
    return fail(ErrorCode::malformed,
                fmt::format("{}: lacks model_type: is it a model's config.json?", name));
  }
  model.architecture = class_of(config, options);
  const Family* family = find_family(model.type);
  if (family == nullptr) return unknown_type(config, model.type);
  if (left_to_class(model.type, model.architecture)) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: the head of {} is not known here: its class can be asked "
                            "(mfu flops --by-class)",
                            name, printable(model.architecture, 80)));
  }
  std::string other = other_family(model.architecture, *family);
  if (!other.empty() && options.assume.empty()) {
    std::string architecture = printable(model.architecture, 80);
    if (!options.architecture.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: {} is a class of {}, but this config is one of {}", name,
                              architecture, other, model.type));
    }
    model.notes.push_back(
        {"class_of_another", {{"class", architecture}, {"other", other}, {"type", model.type}}});
  }
  family->build(config, model);
  model.format = read_format(config);
  MFU_TRY(config.problem());
  if (options.mtp_layers && !set_mtp_layers(model, *options.mtp_layers)) {
    return parse_with_mtp(json, name, options);
  }
  MFU_TRY(check_parameters(model, name));
  note_formats(config, model.notes);
  for (Note& note : MFU_TRY(config.unread_overrides())) model.notes.push_back(std::move(note));
  for (const Note& note : config.defaults_taken()) model.notes.push_back(note);
  return model;
}

Result<ModelSpec> read_model(const std::string& path, const ConfigOptions& options) {
  if (path.ends_with(".safetensors")) return read_safetensors(path);
  if (path.ends_with(".gguf")) return read_gguf(path);
  ConfigText config = MFU_TRY(read_config_text(path));
  ModelSpec model = MFU_TRY(parse_model(config.text, config.path, options));
  model.name = config.name;
  return model;
}

Result<ConfigText> read_config_text(const std::string& path) {
  std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
  std::string file = path;
  if (is_folder(path)) {
    bool original = !is_file(folder + "/config.json") && is_file(folder + "/params.json");
    file = folder + (original ? "/params.json" : "/config.json");
  }
  // An index names shards but no shapes. The config in the same folder tells them.
  constexpr std::string_view kIndex = ".safetensors.index.json";
  if (path.ends_with(kIndex)) {
    std::size_t slash = path.rfind('/');
    file = (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "config.json";
  }
  std::string text = MFU_TRY(read_named_file(file, kMostConfigBytes));
  return ConfigText{file, folder_name(file), std::move(text)};
}

bool has_family(const ConfigText& config, const ConfigOptions& options) {
  Result<Json> document = parse_json(config.text, config.path);
  if (!document.has_value()) return true;  // parse_model() will refuse it
  Result<Fields> fields = Fields::of(*document, config.path, options.overrides);
  if (!fields.has_value() || is_params(*fields)) return true;
  std::string type = read_type(*fields, options).type;
  bool named = !type.empty() || fields->has("architectures");
  if (!named) return true;
  return find_family(type) != nullptr && !left_to_class(type, class_of(*fields, options));
}

Result<ModelSpec> model_of_shape(const ModelShape& shape) {
  if (shape.layers == 0 || shape.hidden == 0 || shape.heads == 0) {
    return fail(ErrorCode::invalid_argument, "a shape needs at least layers, hidden and heads");
  }
  std::uint64_t kv_heads = shape.kv_heads != 0 ? shape.kv_heads : shape.heads;
  std::uint64_t head_dim = shape.head_dim != 0 ? shape.head_dim : shape.hidden / shape.heads;
  std::uint64_t ffn = shape.ffn != 0 ? shape.ffn : 4 * shape.hidden;
  std::string json = fmt::format(
      R"({{"model_type":"{}","hidden_size":{},"num_hidden_layers":{},"num_attention_heads":{},)"
      R"("num_key_value_heads":{},"head_dim":{},"intermediate_size":{},"vocab_size":{},)"
      R"("tie_word_embeddings":{},"num_local_experts":{},"num_experts_per_tok":{}}})",
      shape.experts != 0 ? "mixtral"
      : shape.gated      ? "llama"
                         : "arcee",
      shape.hidden, shape.layers, shape.heads, kv_heads, head_dim, ffn,
      shape.vocab != 0 ? shape.vocab : 1, shape.tied, shape.experts, shape.experts_per_token);
  ModelSpec model = MFU_TRY(parse_model(json, "the shape", {}));
  model.name = model.type = "shape";
  if (shape.vocab == 0) {
    model.vocab = 0;
    std::erase_if(model.stages, [](const Stage& stage) {
      if (stage.repeated) return false;
      Part part = stage.kinds[0].components[0].part;
      return part == Part::embedding || part == Part::lm_head;
    });
  }
  return model;
}

}  // namespace mfu
