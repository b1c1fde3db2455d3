// The hand-written splitters against the regex engine, on random text of every script.
#include "text/tokenizer/scanner.h"

#include <gtest/gtest.h>

#include "text/tokenizer/fixture_files.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

// Random text: runs from a few ranges, mixed with what patterns treat specially.
std::string random_text(std::mt19937_64* rng, size_t bytes) {
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x20, 0x7E},       {0x61, 0x7A},       {0x41, 0x5A},     {0x30, 0x39},       {0x00, 0x1F},
      {0x80, 0x24F},      {0x2B0, 0x52F},     {0x590, 0x6FF},   {0x900, 0xDFF},     {0xE00, 0xE7F},
      {0x1100, 0x11FF},   {0x1E00, 0x1FFF},   {0x2000, 0x206F}, {0x2070, 0x2BFF},   {0x3000, 0x30FF},
      {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},   {0xFE00, 0xFFEF}, {0x10000, 0x1FFFF}, {0x1F1E6, 0x1FAFF},
      {0x20000, 0x2A6DF}, {0xE0000, 0xE01EF}, {0x1C5, 0x1C5},   {0x17F, 0x17F}};
  static constexpr std::string_view kBits[] = {
      " ",      "  ",     "\n",       "\r\n",    "\t",  "\n\n ",   " \n",    "'s",  "'S",     "'T",     "'re",
      "'VE",    "'ll",    "'lL",      "'\u017F", "'",   "1234",    "/",      "...", "\u200D", "\uFE0F", "\u0301",
      "\u3000", "\u00A0", "A\u0301b", "abC",     "ABc", "\u6F22A", "\u0085", "{}",  "->"};
  std::string text;
  while (text.size() < bytes) {
    size_t n = (*rng)() % 6;
    if ((*rng)() % 3 == 0) {
      text += kBits[(*rng)() % std::size(kBits)];
      continue;
    }
    auto [low, high] = kRanges[(*rng)() % std::size(kRanges)];
    for (size_t i = 0; i <= n; ++i) {
      uint32_t cp = low + static_cast<uint32_t>((*rng)() % (high - low + 1));
      if (cp < 0xD800 || cp > 0xDFFF) utf8_append(cp, &text);
    }
  }
  return text;
}

using Pieces = std::vector<std::pair<size_t, size_t>>;

// What isolated splitting by the engine gives, stage by stage.
Pieces engine_pieces(const std::vector<ScanStage>& stages, const std::vector<std::unique_ptr<Regex>>& regexes,
                     const std::string& text) {
  Pieces pieces = {{0, text.size()}};
  for (size_t s = 0; s < stages.size(); ++s) {
    Pieces next;
    for (auto [begin, end] : pieces) {
      std::string_view part(text.data() + begin, end - begin);
      size_t done = 0;
      auto found = [&](size_t b, size_t e) {
        if (b > done) next.push_back({begin + done, begin + b});
        if (e > b) next.push_back({begin + b, begin + e});
        done = e;
      };
      if (stages[s].digits) {
        for (size_t pos = 0; pos < part.size();) {
          size_t at = pos;
          if (is_numeric(utf8_next(part.data(), &pos))) found(at, pos);
        }
      } else {
        regexes[s]->for_each(part, found);
      }
      if (done < part.size()) next.push_back({begin + done, end});
    }
    pieces = std::move(next);
  }
  return pieces;
}

TEST(Scanner, EqualsTheRegexEngineOnRandomText) {
  uint64_t seed = testing::test_seed();
  size_t total = testing::full_run() ? 4u << 20 : 400u << 10;
  for (const KnownScanner& known : known_scanners()) {
    std::mt19937_64 rng(seed);
    auto scanner = find_scanner(known.stages);
    ASSERT_TRUE(scanner) << known.name;
    std::vector<std::unique_ptr<Regex>> regexes;
    for (const ScanStage& stage : known.stages) {
      if (stage.digits) {
        regexes.push_back(nullptr);
        continue;
      }
      auto regex = Regex::compile(stage.pattern);
      ASSERT_TRUE(regex.ok()) << regex.status().message();
      regexes.push_back(std::move(regex).value());
    }
    for (size_t done = 0; done < total;) {
      std::string text = random_text(&rng, 1 + rng() % 2000);
      done += text.size();
      Pieces got;
      uint32_t begin = 0;
      while (begin < text.size()) {  // small batches, so that continuing is tested too
        uint32_t ends[3];
        size_t n = scanner->scan(text.data(), begin, text.size(), ends, 3);
        ASSERT_GT(n, 0u);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_GT(ends[i], begin);
          got.push_back({begin, ends[i]});
          begin = ends[i];
        }
      }
      Pieces want = engine_pieces(known.stages, regexes, text);
      size_t k = 0;
      while (k < got.size() && k < want.size() && got[k] == want[k]) ++k;
      ASSERT_TRUE(k == got.size() && k == want.size())
          << known.name << " piece " << k << " at " << got[std::min(k, got.size() - 1)].first << " ends at "
          << got[std::min(k, got.size() - 1)].second << " not " << want[std::min(k, want.size() - 1)].second
          << " in\n"
          << text.substr(got[std::min(k, got.size() - 1)].first, 40);
    }
  }
}

TEST(Scanner, EveryGgufPatternCompiles) {
  for (std::string_view name : gguf_pre_names()) {
    for (std::string_view stage : find_gguf_pre(name)->stages) {
      if (stage.empty()) continue;
      auto regex = Regex::compile(stage);
      EXPECT_TRUE(regex.ok()) << name << ": " << regex.status().message();
    }
  }
  EXPECT_EQ(find_gguf_pre("no-such-name"), nullptr);
}

TEST(Regex, UnknownSyntaxIsNamed) {
  for (const char* pattern : {"(?<name>a)", "\\p{NoSuch}", "[[:nope:]]", "a{2}+", "[", "(?#c)"}) {
    auto regex = Regex::compile(pattern);
    EXPECT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.status().message().find(pattern), std::string::npos) << regex.status().message();
  }
}

TEST(Regex, HostilePatternsEndInBoundedTime) {
  auto regex = Regex::compile("(a+)+b");
  ASSERT_TRUE(regex.ok());
  int found = 0;
  (*regex)->for_each(std::string(5000, 'a'), [&](size_t, size_t) { ++found; });
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace bora::text
