//===- JsonTest.cpp - what the bounded JSON reader takes and refuses ------===//

#include "frontends/Formats/Json.h"
#include "test/support/ModelFolder.h"

#include <gtest/gtest.h>

using namespace encast;

namespace {

/// The error of parsing `text`; empty if it is accepted.
std::string errorOf(const std::string &text, const JsonLimits &limits = {}) {
  JsonValue value;
  std::string error;
  return parseJson(text, limits, value, error) ? "" : error;
}

JsonValue parsed(const std::string &text) {
  JsonValue value;
  std::string error;
  EXPECT_TRUE(parseJson(text, {}, value, error)) << error;
  return value;
}

TEST(Json, KeepsOrderAndKindsOfValues) {
  JsonValue value =
      parsed(R"({"b": [1, -2.5, true, null, "x"], "a": {"c": false}})");
  ASSERT_EQ(value.keys, (std::vector<std::string>{"b", "a"}));
  const JsonValue &array = *value.find("b");
  ASSERT_EQ(array.elements.size(), 5u);
  EXPECT_EQ(array.elements[0].integer, 1);
  EXPECT_TRUE(array.elements[1].is(JsonValue::Kind::Real));
  EXPECT_EQ(array.elements[1].real, -2.5);
  EXPECT_TRUE(array.elements[2].boolean);
  EXPECT_TRUE(array.elements[3].is(JsonValue::Kind::Null));
  EXPECT_EQ(array.elements[4].string, "x");
  EXPECT_FALSE(value.find("a")->find("c")->boolean);
  EXPECT_EQ(value.find("d"), nullptr);
}

TEST(Json, IntegersAreExactOverAll64Bits) {
  EXPECT_EQ(parsed("9223372036854775807").integer, INT64_MAX);
  EXPECT_EQ(parsed("-9223372036854775808").integer, INT64_MIN);
  EXPECT_EQ(parsed("9007199254740993").integer, 9007199254740993);
  // Tokenizers write 1e30 like that where a text may have any length.
  JsonValue large = parsed("1000000000000000019884624838656");
  EXPECT_TRUE(large.is(JsonValue::Kind::Real));
  EXPECT_EQ(large.real, 1e30);
}

TEST(Json, ARealNeverBecomesAnInteger) {
  for (const char *text : {"1.0", "1e3", "-0.0", "1E0"})
    EXPECT_TRUE(parsed(text).is(JsonValue::Kind::Real)) << text;
}

TEST(Json, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_NE(errorOf("1e400"), "");
  EXPECT_NE(errorOf("-1e999999999999"), "");
  EXPECT_NE(errorOf("NaN"), "");
  EXPECT_NE(errorOf("[Infinity]"), "");
  EXPECT_NE(errorOf("-Infinity"), "");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char *text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "01", "+1", "1 2", "{\"a\" 1}",
        "{a:1}", "'x'", "\"\n\"", "// c\n1", "tru", "[1]]", "\"\\x\"", ".5",
        "1.", "\xEF\xBB\xBF{}"})
    EXPECT_NE(errorOf(text), "") << text;
}

TEST(Json, NamesLineAndPositionOfAnError) {
  EXPECT_EQ(errorOf("{\n  \"a\": 1,\n  \"a\": 2}").substr(0, 20),
            "line 3, position 5: ");
}

TEST(Json, RefusesAKeyGivenTwice) {
  EXPECT_NE(errorOf(R"({"a":1,"b":{"a":1},"a":2})")
                .find("the key \"a\" is given twice"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"a":1,"\u0061":2})"), "");
  EXPECT_EQ(errorOf(R"([{"a":1},{"a":2}])"), "");
}

TEST(Json, RefusesInvalidUnicode) {
  for (const char *text :
       {"\"\xFF\"", "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"\xE2\x82\"",
        "\"\\ud800\"", "\"\\udc00\"", "{\"\\udc00\":1}", "\"\\ud800\\u0041\""})
    EXPECT_NE(errorOf(text), "") << text;
  EXPECT_EQ(parsed("\"\\ud83d\\ude00\"").string, "\xF0\x9F\x98\x80");
  EXPECT_EQ(parsed("\"\\u0000\"").string, std::string(1, '\0'));
}

TEST(Json, RefusesAZeroByteEverywhere) {
  EXPECT_NE(errorOf(std::string("{}\0", 3)), "");
  EXPECT_NE(errorOf(std::string("{}\0garbage", 10)), "");
  EXPECT_NE(errorOf(std::string("\"a\0b\"", 5)), "");
}

TEST(Json, BoundsDepthSizeAndNumberOfValues) {
  JsonLimits limits;
  limits.depth = 3;
  EXPECT_EQ(errorOf("[[[1]]]", limits), "");
  EXPECT_NE(errorOf("[[[[1]]]]", limits).find("nested deeper than 3"),
            std::string::npos);
  EXPECT_NE(errorOf("{\"a\":{\"b\":{\"c\":{}}}}", limits), "");
  limits.values = 4;
  EXPECT_EQ(errorOf("[1,2,3]", limits), "");
  EXPECT_NE(errorOf("[1,2,3,4]", limits).find("more than 4 values"),
            std::string::npos);
  limits.bytes = 4;
  EXPECT_EQ(errorOf("[10]", limits), "");
  EXPECT_EQ(errorOf("[100]", limits), "has 5 bytes, the limit is 4");
}

TEST(Json, AMillionBracketsAreAnErrorAndNoCrash) {
  EXPECT_NE(errorOf(std::string(1000000, '[')), "");
  std::string objects;
  for (int i = 0; i < 100000; ++i)
    objects += "{\"a\":";
  EXPECT_NE(errorOf(objects), "");
}

TEST(Json, EveryPrefixOfATextIsRefused) {
  std::string text = R"({"a": [1, 2.5e1, "x\u00e9y"], "b": {"c": null}})";
  ASSERT_EQ(errorOf(text), "");
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(errorOf(text.substr(0, size)), "") << size;
}

TEST(Json, FileErrorsNameTheFile) {
  test::TemporaryFolder folder;
  JsonValue value;
  std::string error;
  EXPECT_FALSE(readJsonFile(folder.path("none.json"), {}, value, error));
  EXPECT_NE(error.find("none.json: cannot open: "), std::string::npos);
  EXPECT_FALSE(readJsonFile(folder.path(), {}, value, error));
  EXPECT_EQ(error, folder.path() + ": is not a regular file");
  folder.write("bad.json", "{]");
  EXPECT_FALSE(readJsonFile(folder.path("bad.json"), {}, value, error));
  EXPECT_NE(error.find("bad.json: line 1, position 1: "), std::string::npos);
  folder.write("empty.json", "");
  EXPECT_FALSE(readJsonFile(folder.path("empty.json"), {}, value, error));
}

/// Reads fields of `text` with `read`; the error, or empty.
template <typename Read>
std::string fieldError(const std::string &text, const Read &read) {
  JsonValue value = parsed(text);
  JsonFields fields(value, "f.json");
  read(fields);
  std::string error;
  return fields.ok(error) ? "" : error;
}

TEST(JsonFields, GivesMembersOrTheirDefaults) {
  JsonValue value = parsed(
      R"({"i": 3, "n": 2, "x": 1e-5, "b": true, "s": "t", "null": null})");
  JsonFields fields(value, "f.json");
  EXPECT_EQ(fields.integer("i", 7, 1, 9), 3);
  EXPECT_EQ(fields.integer("absent", 7, 1, 9), 7);
  EXPECT_EQ(fields.number("n", 0.5, 0, 9), 2.0);
  EXPECT_EQ(fields.number("x", 0.5, 0, 1), 1e-5);
  EXPECT_EQ(fields.number("absent", 0.5, 0, 1), 0.5);
  EXPECT_TRUE(fields.boolean("b", false));
  EXPECT_TRUE(fields.boolean("null", true));
  EXPECT_EQ(fields.string("s", "d"), "t");
  EXPECT_EQ(fields.string("null", "d"), "d");
  EXPECT_TRUE(fields.has("i"));
  EXPECT_FALSE(fields.has("null"));
  EXPECT_TRUE(fields.mentions("null"));
  std::string error;
  EXPECT_TRUE(fields.ok(error));
}

TEST(JsonFields, ErrorsNameFileFieldLimitAndValue) {
  auto size = [](JsonFields &fields) { fields.integer("size", 1, 1, 64); };
  for (const auto &[given, shown] :
       std::vector<std::pair<std::string, std::string>>{{"0", "0"},
                                                        {"-1", "-1"},
                                                        {"65", "65"},
                                                        {"8.0", "8.0"},
                                                        {"1e20", "1e+20"},
                                                        {"1e400000", ""},
                                                        {"\"8\"", "\"8\""},
                                                        {"true", "true"},
                                                        {"null", "null"},
                                                        {"[8]", "an array"},
                                                        {"{}", "an object"}}) {
    if (shown.empty())
      continue;
    EXPECT_EQ(fieldError("{\"size\": " + given + "}", size),
              "f.json: size: expected an integer from 1 to 64, but got " +
                  shown);
  }
  EXPECT_EQ(
      fieldError("{\"e\": 0}", [](JsonFields &f) { f.number("e", 0.5, 0, 1); }),
      "f.json: e: expected a number above 0 and below 1, but got 0");
  EXPECT_EQ(fieldError("{\"e\": 1.5}",
                       [](JsonFields &f) { f.number("e", 0.5, 0, 1); }),
            "f.json: e: expected a number above 0 and below 1, but got 1.5");
  EXPECT_EQ(
      fieldError("{\"b\": 1}", [](JsonFields &f) { f.boolean("b", false); }),
      "f.json: b: expected true or false, but got 1");
  EXPECT_EQ(fieldError("{\"s\": 1}", [](JsonFields &f) { f.string("s", ""); }),
            "f.json: s: expected a string, but got 1");
  EXPECT_EQ(fieldError("[1]", [](JsonFields &) {}),
            "f.json: expected an object, but got an array");
}

TEST(JsonFields, KeepsTheFirstError) {
  EXPECT_EQ(fieldError("{\"a\": 0, \"b\": 0}",
                       [](JsonFields &f) {
                         f.integer("b", 1, 1, 2);
                         f.integer("a", 1, 1, 2);
                       }),
            "f.json: b: expected an integer from 1 to 2, but got 0");
}

TEST(JsonFields, TakesOverTheErrorOfAPart) {
  auto read = [](JsonFields &fields) {
    JsonFields part(*fields.get("part"), fields.where() + ": part");
    part.integer("size", 1, 1, 2);
    fields.adopt(part);
    fields.boolean("b", false);
  };
  EXPECT_EQ(fieldError(R"({"part": {"size": 3}, "b": 1})", read),
            "f.json: part: size: expected an integer from 1 to 2, but got 3");
  EXPECT_EQ(fieldError(R"({"part": {"size": 2}, "b": true})", read), "");
}

} // namespace
