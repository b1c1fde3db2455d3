// Limits, errors and the matcher's own promises, on a small vocabulary of single bytes and a few words.
#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "text/grammar/number.h"
#include "text/grammar/test_vocab.h"

namespace bora::text {
namespace {

TestVocab byte_vocab() {
  TestVocab v;
  for (int b = 0; b < 256; ++b) v.bytes.emplace_back(1, static_cast<char>(b));
  for (const char* word : {"{\"", "\":", "\",\"", "true", "12", "  ", " \"", "<tool>", "</tool>", "\"}"})
    v.bytes.emplace_back(word);
  v.bytes.emplace_back();
  v.end_id = static_cast<int32_t>(v.bytes.size() - 1);
  v.finish();
  return v;
}

Json parse(const std::string& text) { return *Json::parse(text); }

Result<GrammarPtr> schema(const std::string& text) { return compile_json_schema(parse(text), {}); }

bool accepts(const Result<GrammarPtr>& grammar, const std::string& text) {
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.status().message());
  if (!grammar.ok()) return false;
  auto m = (*grammar)->matcher(nullptr);
  return m->accept_text(text) && m->can_end();
}

double seconds_of(const std::function<void()>& f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(GrammarLimitsTest, LargeCountsCompileAsCounters) {
  EXPECT_LT(seconds_of([] { EXPECT_TRUE(schema(R"({"type":"string","maxLength":1000000})").ok()); }), 0.25);
  EXPECT_LT(seconds_of(
                [] { EXPECT_TRUE(schema(R"({"type":"array","items":{"type":"integer"},"maxItems":100000})").ok()); }),
            0.25);
  auto g = schema(R"({"type":"array","items":{"enum":[1]},"minItems":3000,"maxItems":3001})");
  auto text = [](int n) {
    std::string s = "[1";
    for (int i = 1; i < n; ++i) s += ",1";
    return s + "]";
  };
  EXPECT_FALSE(accepts(g, text(2999)));
  EXPECT_TRUE(accepts(g, text(3000)));
  EXPECT_TRUE(accepts(g, text(3001)));
  EXPECT_FALSE(accepts(g, text(3002)));
  auto s = schema(R"({"type":"string","maxLength":1000000})");
  EXPECT_TRUE(accepts(s, "\"" + std::string(1000000, 'x') + "\""));
  EXPECT_FALSE(accepts(s, "\"" + std::string(1000001, 'x') + "\""));
}

TEST(GrammarLimitsTest, LargeEnumCompilesInTime) {
  std::string text = R"({"enum":[)";
  for (int i = 0; i < 10000; ++i)
    text += (i ? ",\"value number " : "\"value number ") + std::to_string(i * 7919) + "\"";
  Json json = parse(text + "]}");
  Result<GrammarPtr> g = invalid_argument("");
  double best = 1;
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of([&] { g = compile_json_schema(json, {}); }));
  std::printf("10,000-value enum: %.1f ms\n", best * 1e3);
  EXPECT_LT(best, 0.25);
  EXPECT_TRUE(accepts(g, "\"value number 7919\""));
  EXPECT_FALSE(accepts(g, "\"value number 7918\""));
}

TEST(GrammarLimitsTest, DeepSourcesAreErrorsAtOnce) {
  for (char open : {'(', '['}) {
    std::string text = "root ::= " + std::string(60000, open);
    EXPECT_LT(seconds_of([&] { EXPECT_FALSE(compile_ebnf(text, {}).ok()); }), 0.05);
  }
  EXPECT_FALSE(compile_regex(std::string(60000, '('), {}).ok());
  EXPECT_FALSE(compile_ebnf("root ::= \"a\"" + std::string(60000, '*'), {}).ok());
}

TEST(GrammarLimitsTest, AmbiguityIsShared) {
  auto g = compile_ebnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\"", {});
  ASSERT_TRUE(g.ok());
  auto m = (*g)->matcher(nullptr);
  EXPECT_LT(seconds_of([&] { EXPECT_TRUE(m->accept_text(std::string(2000, 'a'))); }), 2.0);
  std::string tail;
  for (int i = 0; i < 1999; ++i) tail += i % 2 ? 'b' : 'c';
  EXPECT_TRUE(m->accept_text(tail));
  EXPECT_TRUE(m->can_end());
}

TEST(GrammarErrors, NameThePlace) {
  struct Case {
    const char* schema;
    const char* part;
  };
  const Case kCases[] = {
      {R"({"properties":{"a":{"contains":{}}}})", "#/properties/a/contains"},
      {R"({"type":"array","uniqueItems":true})", "#/uniqueItems"},
      {R"({"multipleOf":0.1,"type":"number"})", "#/multipleOf"},
      {R"({"anyOf":[{"type":"strin"}]})", "#/anyOf/0/type"},
      {R"({"type":"string","pattern":"(?=a)b"})", "#/pattern"},
      {R"({"type":"string","pattern":"(a)\\1"})", "#/pattern"},
      {R"({"$ref":"#"})", "base case"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})", "base case"},
      {R"({"$ref":"#/$defs/none"})", "#/$ref"},
      {R"({"$ref":"http://example.com/x"})", "#/$ref"},
      {R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})", "no text ends"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "no text ends"},
      {R"({"type":"string","format":"weekday"})", "#/format"},
      {R"({"frobnicate":1})", "#/frobnicate"},
      {R"({"oneOf":[{"type":"object","additionalProperties":{"type":"string"}},{"type":"object",)"
       R"("additionalProperties":{"type":"integer"}}]})",
       "#/oneOf"},
      {R"([])", "object or a boolean"}};
  for (const Case& c : kCases) {
    auto g = schema(c.schema);
    ASSERT_FALSE(g.ok()) << c.schema;
    EXPECT_NE(g.status().message().find(c.part), std::string::npos) << c.schema << ": " << g.status().message();
  }
  EXPECT_FALSE(compile_ebnf("root ::= root \"a\" | \"a\"", {}).ok());
  EXPECT_FALSE(compile_ebnf("root ::= other", {}).ok());
  EXPECT_FALSE(compile_ebnf("x ::= \"a\"", {}).ok());
  EXPECT_FALSE(compile_regex("a++", {}).ok());
  EXPECT_FALSE(compile_choice({}, {}).ok());
}

TEST(GrammarSchema, LogicOfKeywords) {
  auto g = schema(R"({"oneOf":[{"type":"integer","minimum":5},{"type":"integer","maximum":10}]})");
  EXPECT_TRUE(accepts(g, "4"));
  EXPECT_FALSE(accepts(g, "7"));
  EXPECT_TRUE(accepts(g, "11"));
  g = schema(R"({"type":"object","patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":false})");
  EXPECT_TRUE(accepts(g, R"({"n_a":1,"n_b":2})"));
  EXPECT_FALSE(accepts(g, R"({"x":1})"));
  EXPECT_FALSE(accepts(g, R"({"n_a":"s"})"));
  g = schema(R"({"type":"object","properties":{"a":true,"b":true,"c":true},"minProperties":2,"maxProperties":2,)"
             R"("additionalProperties":false})");
  EXPECT_FALSE(accepts(g, R"({"a":1})"));
  EXPECT_TRUE(accepts(g, R"({"a":1,"c":1})"));
  EXPECT_FALSE(accepts(g, R"({"a":1,"b":1,"c":1})"));
  g = schema(R"({"type":"string","nullable":true})");
  EXPECT_TRUE(accepts(g, "null"));
  g = schema(R"({"not":{"enum":["a",1,null]}})");
  EXPECT_FALSE(accepts(g, "\"a\""));
  EXPECT_FALSE(accepts(g, "1.0"));
  EXPECT_FALSE(accepts(g, "null"));
  EXPECT_TRUE(accepts(g, "\"ab\""));
  EXPECT_TRUE(accepts(g, "2"));
  g = schema(R"({"type":"string","pattern":"^[a-z]+$","minLength":3,"maxLength":5})");
  EXPECT_FALSE(accepts(g, "\"ab\""));
  EXPECT_TRUE(accepts(g, "\"abcde\""));
  EXPECT_FALSE(accepts(g, "\"abcdef\""));
  g = schema(R"({"type":"object","propertyNames":{"enum":["x","y"]},"additionalProperties":{"type":"null"}})");
  EXPECT_TRUE(accepts(g, R"({"y":null})"));
  EXPECT_FALSE(accepts(g, R"({"z":null})"));
  // A name spelled with an escape is the same name.
  g = schema(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})");
  EXPECT_TRUE(accepts(g, R"({"\u0061":1})"));
  EXPECT_FALSE(accepts(g, R"({"a":1,"\u0061":"x"})"));
  // Recursion is by stack, not by expansion.
  g = schema(R"({"type":"array","items":{"$ref":"#"}})");
  EXPECT_TRUE(accepts(g, std::string(5000, '[') + std::string(5000, ']')));
}

TEST(GrammarSchema, Formats) {
  struct Case {
    const char* format;
    std::vector<std::string> good;
    std::vector<std::string> bad;
  };
  const Case kCases[] = {
      {"date", {"2024-02-29", "2000-02-29", "2026-12-31"}, {"2023-02-29", "1900-02-29", "2026-04-31", "0000-01-01"}},
      {"time", {"12:00:00Z", "23:59:59.5+02:00"}, {"24:00:00Z", "12:00:00", "12:60:00Z"}},
      {"date-time", {"2026-01-02T03:04:05Z"}, {"2026-01-02 03:04:05", "2026-13-02T03:04:05Z"}},
      {"email", {"a.b@example.com"}, {"a", "@x", "a@"}},
      {"ipv4", {"1.2.3.4", "255.255.255.255"}, {"256.1.1.1", "01.2.3.4", "1.2.3"}},
      {"ipv6", {"::", "1::", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"}, {":::", "1::2::3", "12345::", "1:2:3"}},
      {"hostname", {"example.com", "a-b.c"}, {"-a.com", "a..b", "a_b"}},
      {"uri", {"http://example.com/a?b#c", "mailto:a@b.c"}, {"//x", "http://a b", "x"}},
      {"uuid", {"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}, {"3f2504e04f8911d39a0c0305e82c3301"}}};
  for (const Case& c : kCases) {
    auto g = schema(std::string(R"({"type":"string","format":")") + c.format + "\"}");
    for (const std::string& s : c.good) EXPECT_TRUE(accepts(g, "\"" + s + "\"")) << c.format << " " << s;
    for (const std::string& s : c.bad) EXPECT_FALSE(accepts(g, "\"" + s + "\"")) << c.format << " " << s;
  }
}

// Every prefix that the reader lets through can be completed, and completion agrees with arithmetic.
TEST(GrammarNumbers, AgreeWithArithmetic) {
  NumberRange range;
  range.min = decimal_of(int64_t{-37});
  range.max = decimal_of(412.5);
  range.open_max = true;
  range.multiple = 3;
  int accepted = 0;
  for (int i = -600; i <= 600; ++i) {
    std::string text = std::to_string(i);
    NumberReader reader;
    bool ok = true;
    for (char c : text) ok = ok && reader.step(c, range);
    bool want = i >= -37 && i < 412.5 && i % 3 == 0;
    EXPECT_EQ(ok && reader.complete(range), want) << i;
    accepted += want ? 1 : 0;
  }
  EXPECT_EQ(accepted, 150);
}

TEST(GrammarMatcherTest, RollbackForkForcedEnd) {
  TestVocab v = byte_vocab();
  auto g = schema(
      R"({"type":"object","properties":{"name":{"const":"x"}},"required":["name"],"additionalProperties":false})");
  ASSERT_TRUE(g.ok());
  auto m = (*g)->matcher(v.vocab);
  std::vector<uint32_t> first(v.words());
  std::vector<uint32_t> mask(v.words());
  m->fill_mask(first);
  ASSERT_TRUE(m->accept_token(v.ids.at("{\"")));
  EXPECT_EQ(m->forced(), "name\"");
  auto fork = m->fork();
  EXPECT_FALSE(m->accept_text("nope"));
  EXPECT_EQ(m->forced(), "name\"");
  ASSERT_TRUE(m->accept_text("name\":\"x\"}"));
  EXPECT_TRUE(m->can_end());
  EXPECT_FALSE(fork->can_end());
  EXPECT_TRUE(m->accept_token(v.end_id));
  EXPECT_TRUE(m->ended());
  EXPECT_FALSE(m->accept_text(" "));
  m->rollback(3);
  EXPECT_FALSE(m->ended());
  m->fill_mask(mask);
  EXPECT_EQ(mask, first);
  EXPECT_TRUE(fork->accept_text("name\": \"x\" }"));
}

TEST(GrammarMatcherTest, SmallMemoryGivesTheSameMasks) {
  TestVocab v = byte_vocab();
  GrammarLimits small;
  small.memory_bytes = 1 << 20;
  Json s =
      parse(R"({"type":"object","additionalProperties":{"type":"array","items":{"type":"string","maxLength":900}}})");
  auto a = compile_json_schema(s, small);
  auto b = compile_json_schema(s, {});
  ASSERT_TRUE(a.ok() && b.ok());
  auto x = (*a)->matcher(v.vocab);
  auto y = (*b)->matcher(v.vocab);
  std::string text = R"({"k":[)";
  for (int i = 0; i < 40; ++i)
    text += (i ? ",\"" : "\"") + std::string(static_cast<size_t>(20 * i % 850), 'z') + "\"";
  text += "]}";
  std::vector<uint32_t> mx(v.words());
  std::vector<uint32_t> my(v.words());
  for (char c : text) {
    ASSERT_TRUE(x->accept_token(v.ids.at(std::string_view(&c, 1))));
    ASSERT_TRUE(y->accept_token(v.ids.at(std::string_view(&c, 1))));
    x->fill_mask(mx);
    y->fill_mask(my);
    ASSERT_EQ(mx, my);
  }
  EXPECT_TRUE(x->can_end());
}

TEST(GrammarMatcherTest, WhiteSpaceIsBounded) {
  auto g = schema("{}");
  TestVocab v = byte_vocab();
  auto m = (*g)->matcher(v.vocab);
  int taken = 0;
  while (taken < 1000 && m->accept_token(v.ids.at(" "))) ++taken;
  EXPECT_GE(taken, 100);
  EXPECT_LT(taken, 600);
  std::vector<uint32_t> mask(v.words());
  m->fill_mask(mask);
  EXPECT_EQ(mask[1] & 1u, 0u);
  EXPECT_TRUE(m->accept_text("1"));
  EXPECT_TRUE(m->can_end());
}

TEST(GrammarTags, FreeTextThenEnforcedParts) {
  TestVocab v = byte_vocab();
  StructuralTags tags;
  tags.parts.push_back({"<tool>add:", *schema(R"({"type":"integer"})"), "</tool>"});
  tags.parts.push_back({"<tool>say:", *schema(R"({"type":"string"})"), "</tool>"});
  tags.triggers = {"<tool>"};
  auto g = compile_structural_tags(tags, {});
  EXPECT_TRUE(accepts(g, "just text < to"));
  EXPECT_TRUE(accepts(g, "a<<tool>add:1</tool> b <tool>say:\"x\"</tool>"));
  EXPECT_FALSE(accepts(g, "a<tool>add:\"x\"</tool>"));
  EXPECT_FALSE(accepts(g, "a<tool>add:1"));
  EXPECT_FALSE(accepts(g, "a<tool>other"));
  tags.at_least_one = true;
  g = compile_structural_tags(tags, {});
  EXPECT_FALSE(accepts(g, "just text"));
  EXPECT_TRUE(accepts(g, "t<tool>add:1</tool> more"));
  tags.stop_after_first = true;
  g = compile_structural_tags(tags, {});
  EXPECT_TRUE(accepts(g, "t<tool>add:1</tool>"));
  EXPECT_FALSE(accepts(g, "t<tool>add:1</tool> more"));
  auto m = (*g)->matcher(v.vocab);
  ASSERT_TRUE(m->accept_token(v.ids.at("<tool>")));
  std::vector<uint32_t> mask(v.words());
  m->fill_mask(mask);
  EXPECT_TRUE(mask['a' / 32] >> ('a' % 32) & 1);
  EXPECT_TRUE(mask['s' / 32] >> ('s' % 32) & 1);
  EXPECT_FALSE(mask['t' / 32] >> ('t' % 32) & 1);
}

TEST(GrammarChoice, ExactlyOne) {
  std::vector<std::string> words = {"yes", "no", "yes please", "\xC3\xA9"};
  auto g = compile_choice(words, {});
  for (const std::string& w : words) EXPECT_TRUE(accepts(g, w));
  EXPECT_FALSE(accepts(g, "ye"));
  EXPECT_FALSE(accepts(g, "yes no"));
}

}  // namespace
}  // namespace bora::text
