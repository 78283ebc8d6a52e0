#include "base/json.h"

#include <gtest/gtest.h>

#include <random>

namespace mfu {
namespace {

TEST(Json, reads_what_a_config_holds) {
  auto json =
      parse_json(R"({"a": [1, 2.5, -3e2], "b": {"c": "x\u00e9\n\ud83d\ude00"}, "d": true, "e": null,
                             "limit": Infinity, "n": 8.0})",
                 "config.json");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  EXPECT_EQ(json->find("a")->elements()[1].number(), 2.5);
  EXPECT_EQ(json->find("a")->elements()[0].count(), 1u);
  EXPECT_FALSE(json->find("a")->elements()[2].count().has_value());
  EXPECT_EQ(*json->find("b")->find("c")->string(), "xé\n😀");
  EXPECT_EQ(json->find("d")->boolean(), true);
  EXPECT_TRUE(json->find("e")->is(Json::Kind::null));
  EXPECT_FALSE(json->find("limit")->number().has_value());
  EXPECT_EQ(json->find("n")->count(), 8u);
  EXPECT_EQ(json->find("absent"), nullptr);
}

TEST(Json, says_file_line_and_column_of_what_is_wrong) {
  auto json = parse_json("{\n  \"a\": 1,\n  \"b\" 2\n}", "config.json");
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().message, "config.json:3:7: not JSON: ':' was expected");
}

TEST(Json, hostile_texts_are_refused_without_harm) {
  for (std::string text :
       {std::string(100000, '['), std::string("{\"a\":"), std::string("\"\\ud800"),
        std::string("[1,]"), std::string("nul"), std::string(""), std::string("{} {}"),
        std::string("1e999"), std::string("--1"), std::string("\"\\u12"), std::string("{\"a\":1,}"),
        std::string("\xff")}) {
    EXPECT_FALSE(parse_json(text, "x").has_value()) << text.substr(0, 20);
  }
}

TEST(Json, every_prefix_of_a_document_is_refused_and_every_written_one_reads_back) {
  std::string text = R"({"schema":"x/1","list":[1,2,{"k":"v\t\"\\"}],"t":true,"f":1.5e-7})";
  ASSERT_TRUE(parse_json(text, "x").has_value());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_json(text.substr(0, length), "x").has_value()) << length;
  }
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string any;
    for (int i = 0; i < 20; ++i) any += static_cast<char>(random());
    auto back = parse_json(json_quoted(any), "x");
    ASSERT_TRUE(back.has_value()) << back.error().message;
  }
}

TEST(JsonWriter, separates_escapes_and_keeps_digits) {
  JsonWriter json;
  json.begin_object();
  json.member("name", "a\"b\x01");
  json.member("rate", 989.4e12);
  json.member("third", 1.0 / 3);
  json.member("big", FlopCount::from_halves(1, 0));
  json.key("unknown").null();
  json.key("list").begin_array().value(std::uint64_t{1}).value(true).end_array();
  json.end_object();
  EXPECT_EQ(json.text(),
            "{\"name\":\"a\\\"b\\u0001\",\"rate\":989400000000000,\"third\":0.3333333333333333,"
            "\"big\":18446744073709551616,\"unknown\":null,\"list\":[1,true]}");
}

}  // namespace
TEST(Json, reads_a_member_only_where_it_is_of_that_kind) {
  Json json = parse_json(R"({"text": "a", "number": 1.5, "count": 7})", "test").value();
  EXPECT_EQ(json.text_at("text"), "a");
  EXPECT_EQ(json.text_at("number", "none"), "none");
  EXPECT_EQ(json.text_at("absent"), "");
  EXPECT_EQ(json.number_at("number"), 1.5);
  EXPECT_FALSE(json.number_at("text").has_value());
  EXPECT_EQ(json.count_at("count"), 7u);
  EXPECT_FALSE(json.count_at("number").has_value());
  EXPECT_FALSE(Json().count_at("count").has_value());
}

TEST(Json, what_controls_a_terminal_is_escaped_and_reads_back) {
  std::string hostile = "a\xC2\x9B[2J\x1b[2J\xE2\x80\xAE\x7F";
  std::string quoted = json_quoted(hostile);
  EXPECT_EQ(quoted, R"("a\u009b[2J\u001b[2J\u202e\u007f")");
  EXPECT_EQ(*parse_json(quoted, "x")->string(), hostile);
}

}  // namespace mfu
