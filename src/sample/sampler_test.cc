#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace bora::sample {
namespace {

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  const std::vector<float> logits{1, 3, NAN, 3, 2};
  const Picked p = pick(logits, {}, 7);
  EXPECT_EQ(p.id, 1);
  EXPECT_NEAR(p.logprob, 3 - std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0)), 1e-12);
  EXPECT_EQ(pick(std::vector<float>{NAN, NAN}, {}, 0).id, -1);
}

TEST(Sampler, FrequenciesFollowTheDistribution) {
  const std::vector<float> logits{0, std::log(2.0f), std::log(5.0f)};
  std::map<int32_t, int> count;
  for (int32_t position = 0; position < 40000; ++position)
    ++count[pick(logits, {.temperature = 1, .seed = 3}, position).id];
  EXPECT_NEAR(count[0] / 40000.0, 1.0 / 8, 0.006);
  EXPECT_NEAR(count[1] / 40000.0, 2.0 / 8, 0.008);
  EXPECT_NEAR(count[2] / 40000.0, 5.0 / 8, 0.008);
}

TEST(Sampler, FiltersKeepWhatTheyPromise) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  const auto seen = [&](Params p) {
    std::map<int32_t, int> count;
    p.temperature = 1;
    for (int32_t position = 0; position < 3000; ++position) ++count[pick(logits, p, position).id];
    return count.size();
  };
  EXPECT_EQ(seen({}), 4u);
  EXPECT_EQ(seen({.top_k = 2}), 2u);
  EXPECT_EQ(seen({.top_p = 0.79}), 2u);
  EXPECT_EQ(seen({.top_p = 0.9}), 3u);
  EXPECT_EQ(seen({.min_p = 0.25}), 3u);
  EXPECT_EQ(seen({.top_k = 1}), 1u);
}

TEST(Sampler, TheNoiseIsOfSeedChoiceAndPosition) {
  std::vector<float> logits(100, 0.0f);
  const auto line = [&](uint64_t seed, int32_t choice) {
    std::vector<int32_t> out;
    for (int32_t position = 0; position < 20; ++position) {
      out.push_back(pick(logits, {.temperature = 1, .seed = seed, .choice = choice}, position).id);
    }
    return out;
  };
  EXPECT_EQ(line(1, 0), line(1, 0));
  EXPECT_NE(line(1, 0), line(2, 0));
  EXPECT_NE(line(1, 0), line(1, 1));
}

TEST(Sampler, RangesAreChecked) {
  for (const Params& bad : {Params{.temperature = -1}, Params{.temperature = NAN}, Params{.top_k = -1},
                            Params{.top_p = 0}, Params{.top_p = 1.5}, Params{.min_p = -0.1}}) {
    EXPECT_FALSE(check(bad).ok());
  }
  EXPECT_TRUE(check({}).ok());
}

}  // namespace
}  // namespace bora::sample
