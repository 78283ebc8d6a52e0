// The file of `--formulas`: YAML, `formulas: [{name, kind, flop, where, dtype}]`.
#include <fmt/format.h>

#include "base/file.h"
#include "base/yaml.h"
#include "mfu/ops.h"

namespace mfu {
namespace {

Failure at(const YamlNode& node, const std::string& path, std::string_view what) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", place_of(node, path), what));
}

Result<UserFormula> formula_of(const YamlNode& node, const std::string& path) {
  if (node.kind != YamlNode::Kind::map)
    return at(node, path, "a formula is a map with name and flop");
  UserFormula formula;
  bool triton = false;
  for (const auto& [key, value] : node.members) {
    if (key.text == "where") {
      if (value.kind != YamlNode::Kind::map) return at(value, path, "`where` is a map of names");
      for (const auto& [name, meaning] : value.members) {
        formula.where.emplace_back(name.text, meaning.text);
      }
      continue;
    }
    if (value.kind != YamlNode::Kind::scalar) return at(value, path, key.text + " is one text");
    if (key.text == "name") {
      formula.name = value.text;
    } else if (key.text == "flop") {
      formula.flop = value.text;
    } else if (key.text == "dtype") {
      formula.type = value.text;
    } else if (key.text == "kind" && (value.text == "operator" || value.text == "triton")) {
      triton = value.text == "triton";
    } else {
      return at(key, path, "a formula has name, kind (operator or triton), flop, where and dtype");
    }
  }
  if (formula.name.empty() || formula.flop.empty()) {
    return at(node, path, "a formula needs a name and flop");
  }
  if (triton) formula.name = "triton::" + formula.name;
  return formula;
}

}  // namespace

Result<std::vector<UserFormula>> read_formulas(const std::string& path) {
  std::string text = MFU_TRY(read_file(path));
  YamlNode root = MFU_TRY(parse_yaml(text, path));
  const YamlNode* list = nullptr;
  for (const auto& [key, value] : root.members) {
    if (key.text == "formulas") list = &value;
  }
  if (list == nullptr || list->kind != YamlNode::Kind::list) {
    return at(root, path, "a list `formulas:` is missing");
  }
  std::vector<UserFormula> formulas;
  for (const YamlNode& each : list->elements) {
    UserFormula formula = MFU_TRY(formula_of(each, path));
    MFU_TRY(add_formula(formula));
    formulas.push_back(std::move(formula));
  }
  return formulas;
}

}  // namespace mfu
