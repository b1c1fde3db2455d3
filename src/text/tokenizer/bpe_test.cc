// The fast ways of byte-pair encoding against a plain one: merge the leftmost pair of lowest rank until there is
// none.
#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "text/tokenizer/fixture_files.h"

namespace bora::text {
namespace {

struct Plain {
  std::vector<std::string> tokens;
  std::map<std::pair<TokenId, TokenId>, std::pair<size_t, TokenId>> merges;

  std::vector<TokenId> encode(const std::string& text) const {
    std::vector<TokenId> ids;
    for (char c : text) ids.push_back(c - 'a');
    for (;;) {
      size_t best = SIZE_MAX;
      size_t rank = SIZE_MAX;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        auto it = merges.find({ids[i], ids[i + 1]});
        if (it != merges.end() && it->second.first < rank) {
          rank = it->second.first;
          best = i;
        }
      }
      if (best == SIZE_MAX) return ids;
      ids[best] = merges.at({ids[best], ids[best + 1]}).second;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
  }
};

// A random vocabulary over a small alphabet. Some merge lists are not in the order in which their tokens arise, and
// some tokens come from several pairs.
Plain random_plain(std::mt19937_64* rng, int letters, int merges) {
  Plain p;
  for (int i = 0; i < letters; ++i) p.tokens.push_back(std::string(1, static_cast<char>('a' + i)));
  std::vector<std::pair<TokenId, TokenId>> order;
  std::map<std::string, TokenId> by_text;
  for (size_t i = 0; i < p.tokens.size(); ++i) by_text[p.tokens[i]] = static_cast<TokenId>(i);
  while (static_cast<int>(order.size()) < merges) {
    auto a = static_cast<TokenId>((*rng)() % p.tokens.size());
    auto b = static_cast<TokenId>((*rng)() % p.tokens.size());
    std::string joint = p.tokens[a] + p.tokens[b];
    if (joint.size() > 24) continue;
    if (!by_text.count(joint)) {
      by_text[joint] = static_cast<TokenId>(p.tokens.size());
      p.tokens.push_back(joint);
    }
    order.emplace_back(a, b);
  }
  if ((*rng)() % 3 == 0) std::shuffle(order.begin(), order.end(), *rng);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    p.merges[order[rank]] = {rank, by_text[p.tokens[order[rank].first] + p.tokens[order[rank].second]]};
  }
  return p;
}

std::unique_ptr<BpeModel> model_of(const Plain& p, bool raw) {
  Vocab vocab;
  for (size_t i = 0; i < p.tokens.size(); ++i) vocab.add(static_cast<TokenId>(i), p.tokens[i]);
  for (int b = 0; raw && b < 256; ++b) {  // every byte has a token
    const char c = static_cast<char>(b);
    if (vocab.find({&c, 1}) < 0) vocab.add(static_cast<TokenId>(p.tokens.size() + b), {&c, 1});
  }
  BpeConfig config;
  config.raw_bytes = raw;
  auto model = std::make_unique<BpeModel>(std::move(vocab), config);
  std::map<size_t, std::pair<std::pair<TokenId, TokenId>, TokenId>> order;
  for (const auto& [pair, value] : p.merges) order[value.first] = {pair, value.second};
  for (const auto& [rank, merge] : order)
    EXPECT_TRUE(model->add_merge(merge.first.first, merge.first.second, merge.second).ok());
  EXPECT_TRUE(model->finish().ok());
  return model;
}

TEST(Bpe, EqualsPlainMergingOnRandomVocabularies) {
  uint64_t seed = testing::test_seed();
  std::mt19937_64 rng(seed);
  int rounds = testing::full_run() ? 400 : 60;
  for (int round = 0; round < rounds; ++round) {
    int letters = 1 + static_cast<int>(rng() % 5);
    Plain plain = random_plain(&rng, letters, 1 + static_cast<int>(rng() % 60));
    for (bool raw : {true, false}) {
      auto model = model_of(plain, raw);
      ModelScratch fresh;
      for (int k = 0; k < 12; ++k) {
        size_t length = k % 2 ? 1 + rng() % 30 : 60 + rng() % 200;  // short, and long enough for the walk
        std::string text;
        int used = k % 3 ? letters : 1;
        for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + rng() % used));
        std::vector<TokenId> ids;
        model->encode(text, text.data() + text.size(), &fresh, &ids);
        ASSERT_EQ(ids, plain.encode(text))
            << "seed " << seed << " round " << round << " raw " << raw << " text " << text;
      }
    }
  }
}

}  // namespace
}  // namespace bora::text
