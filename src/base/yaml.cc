#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

namespace mfu {

namespace {

constexpr std::size_t kMostNodes = 100'000, kMostDepth = 64;
// yaml-cpp needs a few hundred bytes of memory for each byte that it reads.
constexpr std::size_t kMostYamlBytes = 1u << 20;

class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view name) : name_(name) {}

  Result<YamlNode> build(const YAML::Node& from, std::size_t depth) {
    YamlNode node;
    YAML::Mark mark = from.Mark();
    if (!mark.is_null()) {
      node.line = static_cast<std::size_t>(mark.line) + 1;
      node.column = static_cast<std::size_t>(mark.column) + 1;
    }
    if (++nodes_ > kMostNodes || depth > kMostDepth) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("{}: this is larger or deeper than settings may be", place_of(node, name_)));
    }
    if (from.IsScalar()) {
      node.kind = YamlNode::Kind::scalar;
      node.text = from.Scalar();
      node.quoted = from.Tag() == "!";
    } else if (from.IsSequence()) {
      node.kind = YamlNode::Kind::list;
      for (const auto& element : from) node.elements.push_back(MFU_TRY(build(element, depth + 1)));
    } else if (from.IsMap()) {
      node.kind = YamlNode::Kind::map;
      for (const auto& member : from) {
        YamlNode key = MFU_TRY(build(member.first, depth + 1));
        YamlNode value = MFU_TRY(build(member.second, depth + 1));
        if (key.kind != YamlNode::Kind::scalar) {
          return fail(ErrorCode::malformed,
                      fmt::format("{}: a key is one word", place_of(key, name_)));
        }
        node.members.emplace_back(std::move(key), std::move(value));
      }
    }
    return node;
  }

 private:
  std::string_view name_;
  std::size_t nodes_ = 0;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, std::string_view name) {
  if (text.size() > kMostYamlBytes) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {} bytes are more than settings may have ({} at most)", name,
                            text.size(), kMostYamlBytes));
  }
  try {
    return TreeBuilder(name).build(YAML::Load(std::string(text)), 0);
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::malformed,
                fmt::format("{}:{}:{}: not YAML: {}", name, problem.mark.line + 1,
                            problem.mark.column + 1, problem.msg));
  }
}

std::string place_of(const YamlNode& node, std::string_view name) {
  return fmt::format("{}:{}:{}", name, node.line, node.column);
}

}  // namespace mfu
