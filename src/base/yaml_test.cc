#include "base/yaml.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Yaml, knows_the_places_of_its_nodes) {
  Result<YamlNode> node = parse_yaml("a: 1\nb:\n  c: \"2\"\n  d: [x, y]\n", "f.yaml");
  ASSERT_TRUE(node.has_value());
  ASSERT_EQ(node->members.size(), 2u);
  const YamlNode& inner = node->members[1].value;
  EXPECT_EQ(place_of(inner.members[0].value, "f.yaml"), "f.yaml:3:6");
  EXPECT_TRUE(inner.members[0].value.quoted);
  EXPECT_FALSE(node->members[0].value.quoted);
  EXPECT_EQ(inner.members[1].value.elements.size(), 2u);
}

TEST(Yaml, refuses_what_is_no_yaml_or_grows_without_end) {
  EXPECT_EQ(parse_yaml("a: {", "f").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse_yaml("? [a, b]\n: c", "f").error().code, ErrorCode::malformed);
  // Each line doubles the one above it.
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            ", *a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_EQ(parse_yaml(bomb, "f").error().code, ErrorCode::unsupported);
  EXPECT_EQ(parse_yaml(std::string(200, '[') + std::string(200, ']'), "f").error().code,
            ErrorCode::unsupported);
  EXPECT_TRUE(parse_yaml("", "f").has_value());
}

TEST(Yaml, more_than_settings_have_is_refused_before_it_is_read) {
  Result<YamlNode> read = parse_yaml(std::string(2u << 20, '#'), "big.yaml");
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("big.yaml: 2097152 bytes are more than"), std::string::npos);
}

}  // namespace
}  // namespace mfu
