// The fixture files: every instance of schema.jsonl, grammar.jsonl and regex.jsonl.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "text/grammar/test_vocab.h"

namespace bora::text {

std::string fixtures_root() {
  const char* root = std::getenv("BORA_FIXTURES");
  return root ? std::string(root) : std::string(BORA_SOURCE_DIR "/../shared");
}

namespace {

std::string fixture(const std::string& name) { return fixtures_root() + "/fixtures/text/" + name; }

bool accepts(const GrammarPtr& grammar, const std::string& text) {
  auto m = grammar->matcher(nullptr);
  return m->accept_text(text) && m->can_end();
}

struct Tally {
  int cases = 0;
  int wrong = 0;
  int refused_grammars = 0;
};

template <typename Compile>
Tally run_cases(const std::string& file, const std::string& key, Compile compile) {
  Tally tally;
  std::ifstream in(fixture(file));
  for (std::string line; std::getline(in, line);) {
    auto json = Json::parse(line);
    EXPECT_TRUE(json.ok());
    auto grammar = compile(*json);
    const Json* cases = json->find(key);
    if (!grammar.ok()) {
      ++tally.refused_grammars;
      ADD_FAILURE() << file << " " << json->find("id")->as_int() << ": " << grammar.status().message();
      continue;
    }
    for (const Json& c : cases->items()) {
      ++tally.cases;
      bool want = c.find("accept")->as_bool();
      if (accepts(*grammar, c.find("text")->as_string()) == want) continue;
      ++tally.wrong;
      ADD_FAILURE() << file << " " << json->find("id")->as_int() << ": " << c.dump();
    }
  }
  return tally;
}

TEST(GrammarFixtures, Regex) {
  if (!std::ifstream(fixture("regex.jsonl"))) GTEST_SKIP() << "fixture regex.jsonl is absent";
  Tally t = run_cases("regex.jsonl", "cases",
                      [](const Json& j) { return compile_regex(j.find("pattern")->as_string(), {}); });
  EXPECT_EQ(t.cases, 240);
}

TEST(GrammarFixtures, Ebnf) {
  if (!std::ifstream(fixture("grammar.jsonl"))) GTEST_SKIP() << "fixture grammar.jsonl is absent";
  Tally t = run_cases("grammar.jsonl", "cases",
                      [](const Json& j) { return compile_ebnf(j.find("grammar")->as_string(), {}); });
  EXPECT_EQ(t.cases, 226);
}

// At most two schemas may be refused, and only by name.
TEST(GrammarFixtures, Schema) {
  std::ifstream in(fixture("schema.jsonl"));
  if (!in) GTEST_SKIP() << "fixture schema.jsonl is absent";
  int refused = 0;
  int instances = 0;
  int out_of_order = 0;
  for (std::string line; std::getline(in, line);) {
    auto json = Json::parse(line);
    ASSERT_TRUE(json.ok());
    auto grammar = compile_json_schema(*json->find("schema"), {});
    std::string name = "schema " + std::to_string(json->find("id")->as_int());
    if (!grammar.ok()) {
      ++refused;
      EXPECT_NE(grammar.status().message().find("contains"), std::string::npos)
          << name << ": " << grammar.status().message();
      continue;
    }
    for (const Json& c : json->find("instances")->items()) {
      ++instances;
      bool valid = c.find("valid")->as_bool();
      if (accepts(*grammar, c.find("text")->as_string()) == valid) continue;
      const Json* in_order = c.find("in_order");
      bool excused = valid && in_order && !in_order->as_bool();
      out_of_order += excused ? 1 : 0;
      EXPECT_TRUE(excused) << name << ": " << c.dump();
    }
  }
  EXPECT_LE(refused, 2);
  EXPECT_GE(instances, 550);
  std::printf("schema.jsonl: %d instances, %d schemas refused, %d valid texts out of order refused\n", instances,
              refused, out_of_order);
}

}  // namespace
}  // namespace bora::text
