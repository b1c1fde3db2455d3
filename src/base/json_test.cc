#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bora {
namespace {

TEST(Json, ParsesEveryType) {
  auto r = Json::parse(R"({"a":[1,-2.5,true,null,"x\u00e9\n"],"b":{"c":18446744073709551615}, "d":1e3})");
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Json& j = *r;
  EXPECT_EQ(j.find("a")->items()[0].as_int(), 1);
  EXPECT_EQ(j.find("a")->items()[1].as_double(), -2.5);
  EXPECT_TRUE(j.find("a")->items()[2].as_bool());
  EXPECT_TRUE(j.find("a")->items()[3].is_null());
  EXPECT_EQ(j.find("a")->items()[4].as_string(), "x\xC3\xA9\n");
  EXPECT_TRUE(j.find("b")->find("c")->is_double());
  EXPECT_TRUE(j.find("d")->is_double());
  EXPECT_EQ(j.find("absent"), nullptr);
  EXPECT_EQ(j.find("d")->find("x"), nullptr);
}

TEST(Json, DumpReadsBack) {
  const std::string text = R"({"z":1,"a":[1.0,0.1,1e+300,"q\"\\\u0001"],"e":{},"f":[]})";
  EXPECT_EQ(Json::parse(text)->dump(), text);
  EXPECT_EQ(Json::parse("{\"a\":[1]}")->dump(2), "{\n  \"a\": [\n    1\n  ]\n}");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, IntegersAboveInt64StayExact) {
  auto r = Json::parse("[12345678901234567890, 9223372036854775807]");
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(r->items()[0].is_double());
  EXPECT_TRUE(r->items()[0].is_uint64());
  EXPECT_EQ(r->items()[0].as_uint64(), 12345678901234567890u);
  EXPECT_TRUE(r->items()[1].is_int());
  EXPECT_EQ(r->dump(), "[12345678901234567890,9223372036854775807]");
}

TEST(Json, RepeatedKeyKeepsFirstPlaceLastValue) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})")->dump(), R"({"a":3,"b":2})");
}

TEST(Json, InvalidUtf8IsReplacedOnOutput) {
  EXPECT_EQ(Json("a\xFFz").dump(), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(Json("\xE2\x82").dump(), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("\xED\xA0\x80").dump(), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("\xF0\x9F\x98\x80").dump(), "\"\xF0\x9F\x98\x80\"");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* bad : {"", "{", "[1,]", "{'a':1}", "nul", "1 2", "\"\xFF\"", "01", "[1e999]"}) {
    EXPECT_FALSE(Json::parse(bad).ok()) << bad;
  }
  const std::string deep(100000, '[');
  EXPECT_FALSE(Json::parse(deep).ok());
  const std::string at_limit = std::string(600, '[') + std::string(600, ']');
  EXPECT_FALSE(Json::parse(at_limit).ok());
  EXPECT_TRUE(Json::parse(std::string(400, '[') + std::string(400, ']')).ok());
}

TEST(Json, LargeObjectsAreIndexed) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text += "\"k7\":-7}";
  auto r = Json::parse(text);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->size(), 200000u);
  EXPECT_EQ(r->find("k7")->as_int(), -7);
  EXPECT_EQ(r->find("k199999")->as_int(), 199999);
}

TEST(Json, CopiesAreDeepAndEqualityIgnoresOrder) {
  Json a = *Json::parse(R"({"x":[1,{"y":2}],"n":1})");
  Json b = a;
  b.set("n", 5);
  EXPECT_EQ(a.find("n")->as_int(), 1);
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a == *Json::parse(R"({"n":1.0,"x":[1,{"y":2}]})"));
}

}  // namespace
}  // namespace bora
