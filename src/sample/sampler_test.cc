// Every processor against results worked out by hand. Rows are logarithms of probabilities, so that a softmax gives
// them back.
#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace bora::sample {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> logs(const std::vector<double>& p) {
  std::vector<float> out;
  for (double v : p) out.push_back(static_cast<float>(std::log(v)));
  return out;
}

Params sampled(float temperature = 1) {
  Params p;
  p.temperature = temperature;
  return p;
}

// The candidates must be exactly these ids with these probabilities.
void expect_candidates(const Input& in, const Params& p, const std::map<int32_t, double>& want) {
  ASSERT_TRUE(check(p, static_cast<int32_t>(in.logits.size())).ok());
  std::map<int32_t, double> got;
  for (const Candidate& c : candidates(in, p, nullptr)) got[c.id] = c.probability;
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, probability] : want) {
    ASSERT_TRUE(got.count(id)) << "id " << id << " is no candidate";
    EXPECT_NEAR(got[id], probability, 1e-6) << "id " << id;
  }
}
void expect_candidates(const std::vector<float>& logits, const Params& p, const std::map<int32_t, double>& want) {
  expect_candidates(Input{.logits = logits, .history = {}}, p, want);
}

const std::vector<float> kFour = logs({0.1, 0.4, 0.2, 0.3});

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(pick(std::vector<float>{1, 3, NAN, 3, 2}, Params{}, 7).id, 1);
  EXPECT_EQ(pick(std::vector<float>{NAN, NAN}, Params{}, 0).id, -1);
  EXPECT_EQ(pick(std::vector<float>{-kInf, NAN}, sampled(), 0).id, -1);
  EXPECT_EQ(pick(std::vector<float>{0, kInf, 5}, sampled(), 0).id, 1);
}

TEST(Sampler, Temperature) {
  expect_candidates(kFour, sampled(), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  // Squares: 1, 16, 4, 9 of 30.
  expect_candidates(kFour, sampled(0.5f), {{0, 1 / 30.0}, {1, 16 / 30.0}, {2, 4 / 30.0}, {3, 9 / 30.0}});
}

TEST(Sampler, DynamicTemperature) {
  // A flat row has the greatest entropy: temperature 1 + 1.
  Params p = sampled();
  p.dynatemp_range = 1;
  expect_candidates(logs({0.25, 0.25, 0.25, 0.25}), p, {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
  // Two tokens of 0.8 and 0.2: entropy 0.5004024 of ln 2, share 0.7219281, temperature 0 + 2 * share.
  const double t = 2 * 0.7219280949, a = std::pow(0.8, 1 / t), b = std::pow(0.2, 1 / t);
  expect_candidates(logs({0.8, 0.2}), p, {{0, a / (a + b)}, {1, b / (a + b)}});
  p.dynatemp_range = 0.5f;
  p.dynatemp_exponent = 2;
  const double u = 0.5 + 0.7219280949 * 0.7219280949, c = std::pow(0.8, 1 / u), d = std::pow(0.2, 1 / u);
  expect_candidates(logs({0.8, 0.2}), p, {{0, c / (c + d)}, {1, d / (c + d)}});
}

TEST(Sampler, TopK) {
  Params p = sampled();
  p.top_k = 2;
  expect_candidates(kFour, p, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  p.top_k = 1;
  expect_candidates({2, 2, 2}, p, {{0, 1}});  // ties: the smaller id
  p.top_k = 9;
  expect_candidates({2, 2}, p, {{0, 0.5}, {1, 0.5}});
}

TEST(Sampler, TopPKeepsTheShortestBeginning) {
  Params p = sampled();
  p.top_p = 0.69f;
  expect_candidates(kFour, p, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  p.top_p = 0.71f;
  expect_candidates(kFour, p, {{1, 4 / 9.0}, {2, 2 / 9.0}, {3, 3 / 9.0}});
  p.top_p = 1e-6f;
  expect_candidates(kFour, p, {{1, 1}});
  // Of what top_k left: 4/7 is already more than 0.5.
  p.top_p = 0.5f;
  p.top_k = 2;
  expect_candidates(kFour, p, {{1, 1}});
}

TEST(Sampler, MinP) {
  Params p = sampled();
  p.min_p = 0.6f;  // 0.4 * 0.6 = 0.24
  expect_candidates(kFour, p, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  p.min_p = 0.3f;  // 0.12
  expect_candidates(kFour, p, {{1, 4 / 9.0}, {2, 2 / 9.0}, {3, 3 / 9.0}});
}

TEST(Sampler, TypicalP) {
  // 0.6, 0.2, 0.15, 0.05: entropy 1.0627; surprises 0.511, 1.609, 1.897, 2.996; distances 0.552, 0.547, 0.834, 1.933.
  Params p = sampled();
  p.typical_p = 0.19f;
  expect_candidates(logs({0.6, 0.2, 0.15, 0.05}), p, {{1, 1}});
  p.typical_p = 0.5f;
  expect_candidates(logs({0.6, 0.2, 0.15, 0.05}), p, {{0, 0.75}, {1, 0.25}});
  p.typical_p = 0.9f;
  expect_candidates(logs({0.6, 0.2, 0.15, 0.05}), p, {{0, 0.6 / 0.95}, {1, 0.2 / 0.95}, {2, 0.15 / 0.95}});
}

TEST(Sampler, TopNSigma) {
  // Logits 0, 0, 0, 4: mean 1, deviation sqrt(3); 4 - 2 * 1.732 = 0.536, 4 - 2.4 * 1.732 = -0.157.
  Params p = sampled();
  p.top_n_sigma = 2;
  expect_candidates({0, 0, 0, 4}, p, {{3, 1}});
  p.top_n_sigma = 2.4f;
  const double sum = 3 + std::exp(4.0);
  expect_candidates({0, 0, 0, 4}, p, {{0, 1 / sum}, {1, 1 / sum}, {2, 1 / sum}, {3, std::exp(4.0) / sum}});
}

TEST(Sampler, XtcRemovesTheLikelyButTheLeastOfThem) {
  Params p = sampled();
  p.xtc_probability = 1;
  p.xtc_threshold = 0.15f;  // 0.4, 0.3 and 0.2 reach it: 0.2 stays
  expect_candidates(kFour, p, {{0, 1 / 3.0}, {2, 2 / 3.0}});
  p.xtc_threshold = 0.35f;  // one alone is not removed
  expect_candidates(kFour, p, {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  p.xtc_threshold = 0.15f;
  p.xtc_probability = 0.25f;
  int happened = 0;
  for (int32_t position = 0; position < 4000; ++position) {
    const std::vector<int32_t> history(static_cast<size_t>(position), 0);
    happened += candidates({.logits = kFour, .history = history}, p, nullptr).size() == 2 ? 1 : 0;
  }
  EXPECT_NEAR(happened / 4000.0, 0.25, 0.03);
}

TEST(Sampler, RepetitionPresenceAndFrequency) {
  const std::vector<float> logits{2, -2, 1, 0.5f};
  const std::vector<int32_t> history{0, 1, 2, 2, 1};
  Params p;
  p.repetition_penalty = 2;
  Input in{.logits = logits, .history = history, .prompt = 2};
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, -4, 0.5, 0.5}));
  p.repetition_last_n = 2;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{2, -4, 0.5, 0.5}));
  p.repetition_last_n = 0;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{2, -2, 1, 0.5}));
  p.repetition_penalty = 1;
  p.presence_penalty = 0.5f;  // output: 2, 2, 1
  p.frequency_penalty = 0.25f;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{2, -2.75, 0, 0.5}));
}

TEST(Sampler, DryPenalizesWhatWouldProlongARepetition) {
  const std::vector<float> logits(6, 0.0f);
  // ... 1 2 3 4 | 1 2 3: after "1 2 3" came 4. Match of three, two are allowed: 0.5 * 2^1.
  const std::vector<int32_t> history{5, 1, 2, 3, 4, 1, 2, 3};
  Params p;
  p.dry_multiplier = 0.5f;
  p.dry_base = 2;
  Input in{.logits = logits, .history = history};
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{0, 0, 0, 0, -1, 0}));
  p.dry_allowed_length = 4;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>(6, 0)));
  p.dry_allowed_length = 2;
  p.dry_last_n = 6;  // 2 3 4 1 2 3: a match of two
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{0, 0, 0, 0, -0.5, 0}));
  p.dry_last_n = -1;
  const std::vector<int32_t> two{2}, one{1}, four{4};
  p.dry_breakers = two;  // the match ends after "3": one token
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>(6, 0)));
  p.dry_breakers = one;  // "2 3"
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{0, 0, 0, 0, -0.5, 0}));
  p.dry_breakers = four;  // a breaker is not penalised
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>(6, 0)));
}

TEST(Sampler, BiasBansWordsAllowedAndMinimum) {
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<int32_t> history{0, 1};
  const double never = -std::numeric_limits<double>::infinity();
  Input in{.logits = logits, .history = history, .prompt = 1};
  Params p;
  const std::vector<std::pair<int32_t, float>> bias{{0, 5.0f}, {3, -1.0f}};
  p.bias = bias;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{6, 2, 3, 3}));
  p.bias = {};
  const std::vector<int32_t> banned{2}, allowed{0, 3}, ends{3};
  p.banned = banned;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, 2, never, 4}));
  p.banned = {};
  p.allowed = allowed;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, never, never, 4}));
  p.allowed = {};
  p.end_ids = ends;
  p.min_tokens = 2;  // one token was generated
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, 2, 3, never}));
  p.min_tokens = 1;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, 2, 3, 4}));
  // Words 0 1 3, 1 0, 0 2 and 2: the first would be completed by 3, the second by 0, the last always by 2.
  const std::vector<int32_t> words{0, 1, 3, 1, 0, 0, 2, 2}, word_ends{3, 5, 7, 8};
  p.bad_words = words;
  p.bad_word_ends = word_ends;
  ASSERT_TRUE(check(p, 4).ok());
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{never, 2, never, never}));
  p.bad_words = p.bad_word_ends = {};
  const std::vector<uint32_t> mask{0b0101u};
  in.mask = mask;
  EXPECT_EQ(processed_logits(in, p), (std::vector<double>{1, never, 3, never}));
}

TEST(Sampler, Mirostat2) {
  // Surprises 1, 2, 3, 3 bits; mu 2.5 keeps 1/2 and 1/4.
  const std::vector<float> logits = logs({0.5, 0.25, 0.125, 0.125});
  Params p = sampled();
  p.mirostat = 2;
  p.mirostat_tau = 1.5f;
  p.mirostat_eta = 0.5f;
  Input in{.logits = logits, .history = {}, .mu = 2.5};
  expect_candidates(in, p, {{0, 2 / 3.0}, {1, 1 / 3.0}});
  const Picked got = pick(in, p);
  const double surprise = got.id == 0 ? std::log2(1.5) : std::log2(3.0);
  EXPECT_NEAR(got.mu, 2.5 - 0.5 * (surprise - 1.5), 1e-6);
  in.mu = 0.5;  // the likeliest always stays
  expect_candidates(in, p, {{0, 1}});
  p.mirostat_tau = 1.6f;
  in.mu = -1;  // 2 * tau = 3.2: all
  expect_candidates(in, p, {{0, 0.5}, {1, 0.25}, {2, 0.125}, {3, 0.125}});
}

TEST(Sampler, Mirostat1) {
  // Probabilities as 1 / rank^2: the exponent is 2, e = 1, n = 8, k = (1 * 2^mu / (1 - 1/8))^(1/2); mu 3: 3.02.
  std::vector<double> zipf;
  for (int i = 1; i <= 8; ++i) zipf.push_back(1.0 / (i * i));
  Params p = sampled();
  p.mirostat = 1;
  const std::vector<float> logits = logs(zipf);
  const double sum = 1 + 1 / 4.0 + 1 / 9.0;
  expect_candidates({.logits = logits, .history = {}, .mu = 3}, p,
                    {{0, 1 / sum}, {1, 1 / 4.0 / sum}, {2, 1 / 9.0 / sum}});
}

TEST(Sampler, Logprobs) {
  const std::vector<float> logits{1, 3, NAN, 3, 2};
  const double sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  const Logprobs l = logprobs(logits, 4, 3);
  EXPECT_NEAR(l.logprob, 2 - sum, 1e-12);
  EXPECT_EQ(l.rank, 2);
  ASSERT_EQ(l.top.size(), 3u);
  EXPECT_EQ(l.top[0].id, 1);
  EXPECT_EQ(l.top[1].id, 3);
  EXPECT_EQ(l.top[2].id, 4);
  EXPECT_NEAR(l.top[0].logprob, 3 - sum, 1e-12);
  EXPECT_EQ(logprobs(logits, 4, 9).top.size(), 4u);
}

TEST(Sampler, FrequenciesFollowTheDistribution) {
  const std::vector<float> logits = logs({0.125, 0.25, 0.625});
  std::map<int32_t, int> count;
  Params p = sampled();
  p.seed = 3;
  for (int32_t position = 0; position < 40000; ++position) ++count[pick(logits, p, position).id];
  EXPECT_NEAR(count[0] / 40000.0, 0.125, 0.006);
  EXPECT_NEAR(count[1] / 40000.0, 0.25, 0.008);
  EXPECT_NEAR(count[2] / 40000.0, 0.625, 0.008);
}

TEST(Sampler, TheNoiseIsOfSeedChoiceAndPosition) {
  const std::vector<float> logits(100, 0.0f);
  const auto line = [&](uint64_t seed, int32_t choice) {
    std::vector<int32_t> out;
    Params p = sampled();
    p.seed = seed;
    p.choice = choice;
    for (int32_t position = 0; position < 20; ++position) out.push_back(pick(logits, p, position).id);
    return out;
  };
  EXPECT_EQ(line(1, 0), line(1, 0));
  EXPECT_NE(line(1, 0), line(2, 0));
  EXPECT_NE(line(1, 0), line(1, 1));
}

TEST(Check, MessagesNameTheField) {
  const float nan = NAN;
  const auto expect = [](auto set, const std::string& field) {
    Params p;
    set(&p);
    const Status s = check(p, 10);
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << field;
    EXPECT_EQ(s.message().rfind(field, 0), 0u) << s.message();
  };
  const std::vector<int32_t> outside{10}, unordered{3, 1}, one{1}, no_ends{0};
  const std::vector<std::pair<int32_t, float>> bad_bias{{1, nan}}, far_bias{{11, 1.0f}};
  expect([&](Params* p) { p->temperature = -1; }, "temperature");
  expect([&](Params* p) { p->temperature = nan; }, "temperature");
  expect([&](Params* p) { p->dynatemp_range = -1; }, "dynatemp_range");
  expect([&](Params* p) { p->dynatemp_exponent = 0; }, "dynatemp_exponent");
  expect([&](Params* p) { p->top_k = -1; }, "top_k");
  expect([&](Params* p) { p->top_p = 0; }, "top_p");
  expect([&](Params* p) { p->top_p = 1.5f; }, "top_p");
  expect([&](Params* p) { p->min_p = -0.1f; }, "min_p");
  expect([&](Params* p) { p->typical_p = 0; }, "typical_p");
  expect([&](Params* p) { p->top_n_sigma = nan; }, "top_n_sigma");
  expect([&](Params* p) { p->xtc_probability = 2; }, "xtc_probability");
  expect([&](Params* p) { p->xtc_threshold = 0.6f; }, "xtc_threshold");
  expect([&](Params* p) { p->mirostat = 3; }, "mirostat ");
  expect([&](Params* p) { p->mirostat_tau = 0; }, "mirostat_tau");
  expect([&](Params* p) { p->mirostat_eta = 0; }, "mirostat_eta");
  expect([&](Params* p) { p->repetition_penalty = 0; }, "repetition_penalty");
  expect([&](Params* p) { p->repetition_last_n = -2; }, "repetition_last_n");
  expect([&](Params* p) { p->presence_penalty = 3; }, "presence_penalty");
  expect([&](Params* p) { p->frequency_penalty = -3; }, "frequency_penalty");
  expect([&](Params* p) { p->dry_multiplier = -1; }, "dry_multiplier");
  expect([&](Params* p) { p->dry_base = 0.5f; }, "dry_base");
  expect([&](Params* p) { p->dry_allowed_length = 0; }, "dry_allowed_length");
  expect([&](Params* p) { p->dry_last_n = -2; }, "dry_last_n");
  expect([&](Params* p) { p->min_tokens = -1; }, "min_tokens");
  expect([&](Params* p) { p->choice = -1; }, "choice");
  expect([&](Params* p) { p->logprobs = 500; }, "logprobs");
  expect([&](Params* p) { p->bias = bad_bias; }, "bias");
  expect([&](Params* p) { p->bias = far_bias; }, "bias");
  expect([&](Params* p) { p->banned = outside; }, "banned");
  expect([&](Params* p) { p->allowed = unordered; }, "allowed");
  expect([&](Params* p) { p->end_ids = outside; }, "end_ids");
  expect([&](Params* p) { p->dry_breakers = outside; }, "dry_breakers");
  expect(
      [&](Params* p) {
        p->bad_words = outside;
        p->bad_word_ends = one;
      },
      "bad_words");
  expect([&](Params* p) { p->bad_words = one; }, "bad_word_ends");
  expect(
      [&](Params* p) {
        p->bad_words = one;
        p->bad_word_ends = no_ends;
      },
      "bad_word_ends");
  EXPECT_TRUE(check({}).ok());
}

}  // namespace
}  // namespace bora::sample
