#include <cstdint>

#include "base/json.h"

namespace {

// What was read can be written, and reads back the same.
void write(mfu::JsonWriter& json, const mfu::Json& value) {
  switch (value.kind()) {
    case mfu::Json::Kind::null:
      json.null();
      break;
    case mfu::Json::Kind::boolean:
      json.value(*value.boolean());
      break;
    case mfu::Json::Kind::number:
      json.value(value.number());
      break;
    case mfu::Json::Kind::string:
      json.value(*value.string());
      break;
    case mfu::Json::Kind::array:
      json.begin_array();
      for (const mfu::Json& element : value.elements()) write(json, element);
      json.end_array();
      break;
    case mfu::Json::Kind::object:
      json.begin_object();
      for (const auto& [name, member] : value.members()) {
        json.key(name);
        write(json, member);
      }
      json.end_object();
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto json = mfu::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!json.has_value()) return 0;
  mfu::JsonWriter writer;
  write(writer, *json);
  if (!mfu::parse_json(writer.text(), "again").has_value()) __builtin_trap();
  return 0;
}
