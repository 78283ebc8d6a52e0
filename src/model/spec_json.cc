#include "model/spec_json.h"

#include <fmt/format.h>

#include <type_traits>

#include "base/crc32c.h"
#include "base/json.h"

namespace mfu {

namespace {

// The fields of each type. Writing and reading both use this list.
void fields(auto& a, auto& v, std::type_identity<Mask>) {
  a(v.kind, v.size);
}
void fields(auto& a, auto& v, std::type_identity<Weights>) {
  a(v.count);
}
void fields(auto& a, auto& v, std::type_identity<Projection>) {
  a(v.in, v.out, v.copies, v.active, v.executed, v.bias, v.stored, v.rows);
}
void fields(auto& a, auto& v, std::type_identity<Attention>) {
  a(v.mask, v.rows, v.heads, v.kv_heads, v.qk_dim, v.v_dim, v.latent_dim, v.rope_dim, v.cached,
    v.cuts_cache, v.pictures_whole);
}
void fields(auto& a, auto& v, std::type_identity<Convolution>) {
  a(v.channels, v.kernel, v.bias);
}
void fields(auto& a, auto& v, std::type_identity<Recurrence>) {
  a(v.kind, v.heads, v.key_dim, v.value_dim, v.chunk);
}
void fields(auto& a, auto& v, std::type_identity<Component>) {
  a(v.name, v.part, v.reads, v.writes, v.work, v.without_gradient);
}
void fields(auto& a, auto& v, std::type_identity<LayerKind>) {
  a(v.components);
}
void fields(auto& a, auto& v, std::type_identity<LayerRun>) {
  a(v.kind, v.count);
}
void fields(auto& a, auto& v, std::type_identity<Stage>) {
  a(v.prefix, v.repeated, v.stream, v.mtp, v.kinds, v.order);
}
void fields(auto& a, auto& v, std::type_identity<ImageGrid>) {
  a(v.frames, v.height, v.width);
}
void fields(auto& a, auto& v, std::type_identity<ImageShape>) {
  a(v.usual, v.class_tokens, v.merge, v.tokens, v.per_frame);
}
void fields(auto& a, auto& v, std::type_identity<WeightFormat>) {
  a(v.bits, v.quantization, v.group, v.block_rows, v.experts_only);
}
void fields(auto& a, auto& v, std::type_identity<ModelSpec>) {
  std::vector<std::string> notes;  // their place in the file; a kept model needs none
  a(v.name, v.type, v.architecture, v.hidden, v.vocab, v.ffn, v.tied, v.vision_only, v.encoder_only,
    v.encoder_sequence, v.frames_per_encoder_token, v.image, v.format, v.weight_bytes,
    v.lower_bound, v.stages, notes);
}
void fields(auto& a, auto& v, std::type_identity<LayerPlan>) {
  a(v.kind, v.count, v.trained, v.adapted);
}
void fields(auto& a, auto& v, std::type_identity<TrainingPlan>) {
  a(v.stages, v.lora_rank, v.parameters_trained, v.parameters_adapter);
}
void fields(auto& a, auto& v, std::type_identity<KeptModel>) {
  a(v.model, v.training);
}

template <typename T>
constexpr bool kPlain = std::is_integral_v<T> || std::is_enum_v<T>;

// Writes every value as an array of its fields, which is short. A missing field is noticed.
struct Writer {
  JsonWriter json;

  template <typename... Fields>
  void operator()(const Fields&... each) {
    (put(each), ...);
  }
  void put(bool value) { json.value(value); }
  void put(const std::string& text) { json.value(text); }
  template <typename T>
    requires kPlain<T>
  void put(T value) {
    json.value(static_cast<std::uint64_t>(value));
  }
  template <typename T>
  void put(const std::optional<T>& maybe) {
    maybe ? put(*maybe) : void(json.null());
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    json.begin_array();
    for (const T& each : values) put(each);
    json.end_array();
  }
  template <typename... Kinds>
  void put(const std::variant<Kinds...>& either) {
    json.begin_array();
    put(std::uint64_t{either.index()});
    std::visit([this](const auto& held) { put(held); }, either);
    json.end_array();
  }
  template <typename T>
    requires std::is_class_v<T>
  void put(const T& value) {
    json.begin_array();
    fields(*this, value, std::type_identity<T>{});
    json.end_array();
  }
};

struct Reader {
  const Json* at = nullptr;  // the array whose next elements are to be read
  std::size_t next = 0;
  bool good = true;

  template <typename... Fields>
  void operator()(Fields&... each) {
    (take(each), ...);
  }
  // The next element. If there is none, returns null and sets `bad`.
  const Json* element() {
    if (!good || at == nullptr || next >= at->elements().size()) {
      good = false;
      return nullptr;
    }
    return &at->elements()[next++];
  }
  void inside(const Json& array, const auto& read) {
    if (!array.is(Json::Kind::array)) good = false;
    Reader reader{&array, 0, good};
    if (good) read(reader);
    good = reader.good && reader.next == array.elements().size();
  }

  void take(bool& value) {
    const Json* found = element();
    std::optional<bool> read = found != nullptr ? found->boolean() : std::nullopt;
    good = good && read.has_value();
    value = read.value_or(false);
  }
  void take(std::string& text) {
    const Json* found = element();
    const std::string* read = found != nullptr ? found->string() : nullptr;
    good = good && read != nullptr;
    if (read != nullptr) text = *read;
  }
  template <typename T>
    requires kPlain<T>
  void take(T& value) {
    const Json* found = element();
    std::optional<std::uint64_t> read = found != nullptr ? found->count() : std::nullopt;
    good = good && read.has_value();
    value = static_cast<T>(read.value_or(0));
  }
  template <typename T>
  void take(std::optional<T>& maybe) {
    bool there =
        at != nullptr && next < at->elements().size() && !at->elements()[next].is(Json::Kind::null);
    if (there) {
      take(maybe.emplace());
    } else {
      (void)element();
    }
  }
  template <typename T>
  void take(std::vector<T>& values) {
    const Json* found = element();
    if (found == nullptr) return;
    inside(*found, [&](Reader& reader) {
      values.resize(found->elements().size());
      for (T& each : values) reader.take(each);
    });
  }
  template <typename... Kinds>
  void take(std::variant<Kinds...>& either) {
    const Json* found = element();
    if (found == nullptr) return;
    inside(*found, [&](Reader& reader) {
      std::uint64_t index = 0, number = 0;
      reader.take(index);
      auto try_one = [&]<typename Kind>(std::type_identity<Kind>) {
        if (index == number++) reader.take(either.template emplace<Kind>());
      };
      (try_one(std::type_identity<Kinds>{}), ...);
      reader.good = reader.good && index < sizeof...(Kinds);
    });
  }
  template <typename T>
    requires std::is_class_v<T>
  void take(T& value) {
    const Json* found = element();
    if (found == nullptr) return;
    inside(*found, [&](Reader& reader) { fields(reader, value, std::type_identity<T>{}); });
  }
};

}  // namespace

std::string keep_model(const KeptModel& kept) {
  Writer writer;
  writer.json.begin_array();
  writer.put(kept);
  writer.json.end_array();
  const std::string& text = writer.json.text();
  return fmt::format("{:08x} {}", crc32c(text), text);
}

Result<KeptModel> read_kept_model(std::string_view text, std::string_view name) {
  auto broken = [&] {
    return fail(ErrorCode::malformed,
                fmt::format("{}: the model in it is damaged, or of another version", name));
  };
  if (text.size() < 9) return broken();
  std::string_view rest = text.substr(9);
  if (text.substr(0, 9) != fmt::format("{:08x} ", crc32c(rest))) return broken();
  Json json = MFU_TRY(parse_json(rest, name));
  KeptModel kept;
  Reader reader{&json};
  reader.take(kept);
  if (!reader.good) return broken();
  return kept;
}

}  // namespace mfu
