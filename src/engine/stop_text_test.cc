// Stop strings at every split of the text, against a search in the whole text.
#include "engine/stop_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace bora::engine {
namespace {

struct Found {
  std::string text;
  std::string stop;
  bool operator==(const Found&) const = default;
};

// The definition: the match that ends first, of those the one that begins first.
Found search(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& s : stops) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0 && (!best || s.size() > best->size()))
        best = &s;
    }
    if (best != nullptr) return {text.substr(0, include ? end : end - best->size()), *best};
  }
  return {text, ""};
}

Found feed(const std::vector<std::string>& pieces, const std::vector<std::string>& stops, bool include) {
  StopText s(stops, include);
  Found out;
  for (const std::string& p : pieces) {
    if (const std::string* stop = s.push(p, &out.text)) {
      out.stop = *stop;
      return out;
    }
  }
  s.flush(&out.text);
  return out;
}

TEST(StopText, EverySplitGivesTheSame) {
  const std::vector<std::vector<std::string>> sets = {
      {"STOP"}, {"ab", "abc"}, {"bc", "abcd"}, {"aab", "ab"}, {"é!", "\n\n"}};
  const std::vector<std::string> texts = {"xxSTOPyy",      "aaabcd",      "STSTOP", "abab\n\nx",
                                          "caf\xC3\xA9!x", "no match ST", ""};
  int stopped = 0;
  for (const auto& stops : sets) {
    for (const std::string& text : texts) {
      for (bool include : {false, true}) {
        const Found want = search(text, stops, include);
        stopped += want.stop.empty() ? 0 : 1;
        for (size_t i = 0; i <= text.size(); ++i) {
          for (size_t j = i; j <= text.size(); ++j) {
            EXPECT_EQ(feed({text.substr(0, i), text.substr(i, j - i), text.substr(j)}, stops, include), want);
          }
        }
        std::vector<std::string> bytes;
        for (char c : text) bytes.emplace_back(1, c);
        EXPECT_EQ(feed(bytes, stops, include), want);
      }
    }
  }
  EXPECT_GT(stopped, 10);
}

TEST(StopText, RandomTexts) {
  const uint64_t seed = 20260;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(1 + rng.below(3)), pieces(rng.below(8));
    for (auto& s : stops) {
      for (uint64_t n = 1 + rng.below(4); n > 0; --n) s += static_cast<char>('a' + rng.below(2));
    }
    std::string text;
    for (auto& p : pieces) {
      for (uint64_t n = rng.below(4); n > 0; --n) p += static_cast<char>('a' + rng.below(3));
      text += p;
    }
    const Found want = search(text, stops, round % 2 == 0);
    stopped += want.stop.empty() ? 0 : 1;
    ASSERT_EQ(feed(pieces, stops, round % 2 == 0), want) << text;
  }
  EXPECT_GT(stopped, 2000);
}

TEST(StopText, HoldsBackOnlyWhatMayBecomeAStop) {
  const std::vector<std::string> stops = {"STOP"};
  StopText s(stops, false);
  std::string out;
  EXPECT_EQ(s.push("hello S", &out), nullptr);
  EXPECT_EQ(out, "hello ");
  EXPECT_EQ(s.push("x", &out), nullptr);
  EXPECT_EQ(out, "hello Sx");
}

}  // namespace
}  // namespace bora::engine
