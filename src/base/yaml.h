// YAML small enough to hold, as a tree that knows its places; yaml-cpp and its exceptions end here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/result.h"

namespace mfu {

struct YamlMember;

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::size_t line = 1, column = 1;
  std::string text;     // of a scalar
  bool quoted = false;  // "500" is a text, 500 a number
  std::vector<YamlNode> elements;
  std::vector<YamlMember> members;
};

struct YamlMember {
  YamlNode key, value;  // the key is a scalar
};

// `malformed` with `name`, line and column. Bytes (1 MB), depth and nodes are bounded,
// aliases among them.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name);

// "config.yaml:3:5".
std::string place_of(const YamlNode& node, std::string_view name);

}  // namespace mfu
