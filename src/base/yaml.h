// Reads small YAML into a tree that knows line and column of each node. No exception of yaml-cpp
// leaves this file.
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
  bool quoted = false;  // a quoted "500" is a text; a bare 500 is a number
  std::vector<YamlNode> elements;
  std::vector<YamlMember> members;
};

struct YamlMember {
  YamlNode key, value;  // the key is a scalar
};

// Fails with `malformed`, naming `name`, line and column. Size (1 MB), depth and number of nodes
// are bounded; aliases count as nodes.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name);

// "config.yaml:3:5".
std::string place_of(const YamlNode& node, std::string_view name);

}  // namespace mfu
