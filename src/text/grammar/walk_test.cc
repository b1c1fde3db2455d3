// Masks over a real vocabulary: valid instances are reachable token by token, a mask holds exactly the tokens that
// accept_token takes, random walks end in documents that the grammar accepts, and how long it all takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "base/rng.h"
#include "text/grammar/test_vocab.h"

namespace bora::text {
namespace {

using Clock = std::chrono::steady_clock;

double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

bool bit(const std::vector<uint32_t>& mask, int32_t id) {
  return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

std::vector<Json> schema_lines() {
  std::vector<Json> out;
  std::ifstream in(fixtures_root() + "/fixtures/text/schema.jsonl");
  for (std::string line; std::getline(in, line);) out.push_back(*Json::parse(line));
  return out;
}

void print_percentiles(const char* what, std::vector<double> values) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  auto at = [&values](double p) { return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))]; };
  std::printf("%s: n=%zu p50=%.1f us p90=%.1f us p99=%.1f us max=%.1f us\n", what, values.size(), at(0.5), at(0.9),
              at(0.99), values.back());
}

const TestVocab& llama() {
  static const TestVocab kVocab = load_vocab("llama3_1");
  return kVocab;
}

void walk_instances(const TestVocab& vocab, const std::string& name) {
  std::vector<double> compile_times;
  std::vector<double> mask_times;
  std::vector<uint32_t> mask(vocab.words());
  int reached = 0;
  for (const Json& line : schema_lines()) {
    auto begin = Clock::now();
    auto grammar = compile_json_schema(*line.find("schema"), {});
    compile_times.push_back(micros(begin));
    if (!grammar.ok()) continue;
    for (const Json& c : line.find("instances")->items()) {
      const Json* in_order = c.find("in_order");
      if (!c.find("valid")->as_bool() || (in_order && !in_order->as_bool())) continue;
      const std::string& text = c.find("text")->as_string();
      auto matcher = (*grammar)->matcher(vocab.vocab);
      size_t pos = 0;
      while (pos < text.size()) {
        begin = Clock::now();
        matcher->fill_mask(mask);
        mask_times.push_back(micros(begin));
        int32_t id = vocab.longest(text, pos);
        ASSERT_GE(id, 0);
        ASSERT_TRUE(bit(mask, id)) << line.find("id")->as_int() << " " << text << " at " << pos;
        ASSERT_TRUE(matcher->accept_token(id)) << text;
        pos += vocab.bytes[static_cast<size_t>(id)].size();
      }
      matcher->fill_mask(mask);
      EXPECT_TRUE(bit(mask, vocab.end_id)) << text;
      EXPECT_TRUE(matcher->accept_token(vocab.end_id));
      EXPECT_TRUE(matcher->ended());
      ++reached;
    }
  }
  EXPECT_GT(reached, 260);
  print_percentiles((name + " compile").c_str(), compile_times);
  print_percentiles((name + " mask").c_str(), mask_times);
}

TEST(GrammarWalk, InstancesTokenByToken) {
  for (const char* name : {"llama3_1", "qwen3", "gptoss"}) {
    TestVocab other;
    const TestVocab& vocab = std::string(name) == "llama3_1" ? llama() : (other = load_vocab(name));
    if (vocab.bytes.empty()) GTEST_SKIP() << "fixture data/tokenizers/" << name << " is absent";
    walk_instances(vocab, name);
  }
}

// A mask is exact: every token is allowed if and only if it can be accepted.
TEST(GrammarWalk, MaskEqualsAccept) {
  const TestVocab& vocab = llama();
  if (vocab.bytes.empty()) GTEST_SKIP() << "fixture data/tokenizers/llama3_1 is absent";
  std::vector<uint32_t> mask(vocab.words());
  Rng rng(7);
  int checked = 0;
  std::vector<Json> lines = schema_lines();
  for (size_t l = 0; l < lines.size(); l += 4) {
    auto grammar = compile_json_schema(*lines[l].find("schema"), {});
    if (!grammar.ok()) continue;
    auto matcher = (*grammar)->matcher(vocab.vocab);
    for (int step = 0; step < 6; ++step) {
      matcher->fill_mask(mask);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < static_cast<int32_t>(vocab.bytes.size()); ++id) {
        if (bit(mask, id) && id != vocab.end_id) allowed.push_back(id);
        if (rng.below(400) != 0 && !(bit(mask, id) && rng.below(40) == 0)) continue;
        auto fork = matcher->fork();
        EXPECT_EQ(fork->accept_token(id), bit(mask, id)) << lines[l].find("id")->as_int() << " token " << id << " '"
                                                         << vocab.bytes[static_cast<size_t>(id)] << "' step " << step;
        ++checked;
      }
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher->accept_token(allowed[rng.below(allowed.size())]));
    }
  }
  EXPECT_GT(checked, 5000);
}

// States that let nearly every token through take whole parts of the token trie at once: there, every single token is
// compared with what accept_token says.
TEST(GrammarWalk, WideMasksEqualAcceptForEveryToken) {
  const TestVocab& vocab = llama();
  if (vocab.bytes.empty()) GTEST_SKIP() << "fixture data/tokenizers/llama3_1 is absent";
  struct Case {
    const char* source;  // a schema, or GBNF
    const char* before;
    size_t allowed_min;
  };
  const Case kCases[] = {
      {R"({"type":"object","properties":{"abc":{},"a\"c":{},"\u00e9t\u00e9":{}}})", "{\"", 100000},
      {R"({"type":"object","properties":{"abc":{},"a\"c":{},"\u00e9t\u00e9":{}}})", "{\"a", 100000},
      {R"({"type":"object","properties":{"abc":{}}})", "{\"\xE4", 50},
      {R"({"type":"string","pattern":"^[^x]+$"})", "\"", 80000},
      {R"({"type":"string","pattern":"^.+;"})", "\"a", 100000},
      {"root ::= [^x]*", "", 80000},
      {"root ::= [^\u4e2d]*", "\xE4", 50}};
  std::vector<uint32_t> mask(vocab.words());
  for (const Case& c : kCases) {
    auto grammar = c.source[0] == '{' ? compile_json_schema(*Json::parse(c.source), {}) : compile_ebnf(c.source, {});
    ASSERT_TRUE(grammar.ok()) << c.source << ": " << grammar.status().message();
    auto matcher = (*grammar)->matcher(vocab.vocab);
    ASSERT_TRUE(matcher->accept_text(c.before)) << c.source;
    matcher->fill_mask(mask);
    size_t allowed = 0;
    size_t wrong = 0;
    for (int32_t id = 0; id < static_cast<int32_t>(vocab.bytes.size()); ++id) {
      if (id == vocab.end_id) continue;
      const bool taken = matcher->accept_token(id);
      if (taken) matcher->rollback(1);
      allowed += taken ? 1 : 0;
      wrong += taken != bit(mask, id) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0u) << c.source << " after " << c.before;
    EXPECT_GE(allowed, c.allowed_min) << c.source << " after " << c.before;
  }
}

// Ends soon: prefers the end, then closers, else any token.
int32_t choose(const TestVocab& vocab, const std::vector<uint32_t>& mask, Rng* rng, int step) {
  if (bit(mask, vocab.end_id) && (step > 40 || rng->below(3) == 0)) return vocab.end_id;
  if (step > 60) {
    for (const char* closer : {"\"", "}", "]", "\"}", "\":", "0", "1", ":", ","}) {
      auto it = vocab.ids.find(closer);
      if (it != vocab.ids.end() && bit(mask, it->second) && rng->below(6) != 0) return it->second;
    }
  }
  std::vector<int32_t> allowed;
  for (size_t w = 0; w < mask.size(); ++w) {
    for (uint32_t bits = mask[w]; bits != 0; bits &= bits - 1) {
      allowed.push_back(static_cast<int32_t>(w * 32 + static_cast<size_t>(__builtin_ctz(bits))));
    }
  }
  return allowed.empty() ? -1 : allowed[rng->below(allowed.size())];
}

// Documents go to the file that GRAMMAR_WALKS names, for tests/text/validate_walks.py.
TEST(GrammarWalk, RandomWalksEndInAcceptedDocuments) {
  const TestVocab& vocab = llama();
  if (vocab.bytes.empty()) GTEST_SKIP() << "fixture data/tokenizers/llama3_1 is absent";
  const char* out_path = std::getenv("GRAMMAR_WALKS");
  std::ofstream out(out_path ? out_path : "/dev/null");
  int per_schema = out_path ? 105 : 4;
  std::vector<uint32_t> mask(vocab.words());
  Rng rng(20260301);
  int finished = 0;
  for (const Json& line : schema_lines()) {
    auto grammar = compile_json_schema(*line.find("schema"), {});
    if (!grammar.ok()) continue;
    for (int n = 0; n < per_schema; ++n) {
      auto matcher = (*grammar)->matcher(vocab.vocab);
      std::string text;
      for (int step = 0; step < 400 && !matcher->ended(); ++step) {
        matcher->fill_mask(mask);
        int32_t id = choose(vocab, mask, &rng, step);
        ASSERT_GE(id, 0) << "dead end after " << text;
        ASSERT_TRUE(matcher->accept_token(id)) << text;
        if (id != vocab.end_id) text += vocab.bytes[static_cast<size_t>(id)];
      }
      if (!matcher->ended()) continue;
      ++finished;
      auto again = (*grammar)->matcher(nullptr);
      EXPECT_TRUE(again->accept_text(text) && again->can_end()) << text;
      Json record = Json::object();
      record.set("id", *line.find("id"));
      record.set("text", text);
      out << record.dump() << "\n";
    }
  }
  EXPECT_GT(finished, 250);
}

}  // namespace
}  // namespace bora::text
