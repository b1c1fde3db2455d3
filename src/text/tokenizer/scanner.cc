#include "text/tokenizer/scanner.h"

#include <array>

#include "text/tokenizer/split_patterns.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {

namespace {

// What stands at a place: its category as one bit, 0 at the end of the text.
struct Char {
  uint32_t bit;
  uint32_t cp;
  uint32_t length;
};

struct Reader {
  const char* text;
  size_t end;
  const uint8_t* categories;

  Char at(size_t pos) const {
    if (pos >= end) return {0, 0, 0};
    auto lead = static_cast<uint8_t>(text[pos]);
    if (lead < 0x80) return {uint32_t{1} << categories[lead], lead, 1};
    size_t next = pos;
    uint32_t cp = utf8_next(text, &next);
    return {uint32_t{1} << categories[cp], cp, static_cast<uint32_t>(next - pos)};
  }
  // End of the run of characters whose category is in `mask`.
  size_t run(size_t pos, uint32_t mask) const {
    while (pos < end) {
      Char c = at(pos);
      if (!(c.bit & mask)) break;
      pos += c.length;
    }
    return pos;
  }
};

// A reader for which some characters end the text: earlier stages have cut them out.
template <typename Stop>
struct StoppingReader : Reader {
  Char at(size_t pos) const {
    Char c = Reader::at(pos);
    if (Stop::stops(c)) return {0, 0, 0};
    return c;
  }
  size_t run(size_t pos, uint32_t mask) const {
    while (pos < end) {
      Char c = at(pos);
      if (!(c.bit & mask)) break;
      pos += c.length;
    }
    return pos;
  }
};

constexpr uint32_t kLn = kLetterMask | kNumberMask;
constexpr uint32_t kNotSpaceLn = ~(kSpaceMask | kLn);

// Length of 's 't 're 've 'm 'll 'd at pos, where the apostrophe is known to stand; 0 when none. Case-insensitive
// matching folds U+017F to s.
template <bool kIgnoreCase, typename R>
size_t contraction(const R& r, size_t pos) {
  auto letter = [&](size_t p) -> uint32_t {
    Char c = r.at(p);
    if (kIgnoreCase && c.cp == 0x17F) return 's' | 2u << 8;
    uint32_t cp = c.cp < 0x80 ? c.cp : 0;
    if (kIgnoreCase && cp >= 'A' && cp <= 'Z') cp += 32;
    return cp | 1u << 8;
  };
  uint32_t first = letter(pos + 1);
  switch (first & 0xFF) {
    case 's':
      return 1 + (first >> 8);
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return (letter(pos + 2) & 0xFF) == 'e' ? 3 : 0;
    case 'l':
      return (letter(pos + 2) & 0xFF) == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

// \s*[\r\n]+ | \s+(?!\S) | \s+ with the white space at pos; `newlines`: the first alternative exists.
template <bool kNewlines, typename R>
size_t spaces(const R& r, size_t pos) {
  size_t last = pos;       // start of the last character of the run
  size_t newline_end = 0;  // end of the last line end in it
  size_t p = pos;
  for (;;) {
    Char c = r.at(p);
    if (!(c.bit & kSpaceMask)) {
      if (kNewlines && newline_end) return newline_end;
      if (c.bit == 0 || last == pos) return p;  // end of text, or one character
      return last;
    }
    last = p;
    p += c.length;
    if (c.bit & kNewlineMask) newline_end = p;
  }
}

// At most kMax numbers.
template <int kMax, typename R>
size_t numbers(const R& r, size_t pos) {
  for (int i = 0; i < kMax; ++i) {
    Char c = r.at(pos);
    if (!(c.bit & kNumberMask)) break;
    pos += c.length;
  }
  return pos;
}

// Each rule gives the end of the piece at pos (> pos), or 0 when nothing matches there.

template <int kMaxNumbers, bool kMarks>
struct Cl100kRule {
  using R = Reader;
  static constexpr uint32_t kWord = kLetterMask | (kMarks ? kMarkMask : 0);
  static size_t match(const R& r, size_t pos) {
    Char c = r.at(pos);
    if (c.bit & kWord) return r.run(pos + c.length, kWord);
    if (c.bit & kNumberMask) return numbers<kMaxNumbers>(r, pos);
    if (c.cp == '\'') {
      if (size_t n = contraction<true>(r, pos)) return pos + n;
    }
    size_t after = pos + c.length;
    if (!(c.bit & kNewlineMask)) {
      Char d = r.at(after);
      if (d.bit & kWord) return r.run(after + d.length, kWord);
      constexpr uint32_t kOther = ~(kSpaceMask | kLn | kWord);
      if ((c.cp == ' ' && (d.bit & kOther)) || (c.bit & kOther)) {
        return r.run(r.run(after, kOther), kNewlineMask);
      }
    }
    return spaces<true>(r, pos);
  }
};

template <typename Stop>
struct Gpt2Rule {
  using R = StoppingReader<Stop>;
  static size_t match(const R& r, size_t pos) {
    Char c = r.at(pos);
    if (c.cp == '\'') {
      if (size_t n = contraction<false>(r, pos)) return pos + n;
    }
    size_t after = pos + c.length;
    if (c.cp == ' ') {
      Char d = r.at(after);
      if (d.bit == 0 || (d.bit & kSpaceMask)) return spaces<false>(r, pos);
      c = d;
      after += d.length;
    }
    if (c.bit & kLetterMask) return r.run(after, kLetterMask);
    if (c.bit & kNumberMask) return r.run(after, kNumberMask);
    if (c.bit & kSpaceMask) return spaces<false>(r, pos);
    return r.run(after, kNotSpaceLn);
  }
};
struct NoStop {
  static bool stops(const Char&) { return false; }
};
struct StopAtDigits {
  static bool stops(const Char& c) {
    // The digit stage knows a few numbers that the pattern's Unicode version has not assigned.
    return (c.bit & kNumberMask) || ((c.bit & cat_bit(kCn)) && is_numeric(c.cp));
  }
};

struct O200kRule {
  using R = Reader;
  static constexpr uint32_t kUpper = cat_bit(kLu) | cat_bit(kLt) | cat_bit(kLm) | cat_bit(kLo) | kMarkMask;
  static constexpr uint32_t kLower = cat_bit(kLl) | cat_bit(kLm) | cat_bit(kLo) | kMarkMask;
  // Upper*Lower+ at pos; 0 when it does not match. `run_end` gets the end of Upper*.
  static size_t word(const R& r, size_t pos, size_t* run_end) {
    size_t last_lower = 0;  // end of the last character of the upper run that could end the word
    size_t p = pos;
    Char c = r.at(p);
    while (c.bit & kUpper) {
      p += c.length;
      if (c.bit & kLower) last_lower = p;
      c = r.at(p);
    }
    *run_end = p;
    if (c.bit & kLower) return r.run(p + c.length, kLower);
    return last_lower;
  }
  static size_t suffix(const R& r, size_t pos) {
    return pos < r.end && r.text[pos] == '\'' ? pos + contraction<true>(r, pos) : pos;
  }
  static size_t match(const R& r, size_t pos) {
    Char c = r.at(pos);
    size_t after = pos + c.length;
    bool prefix = !(c.bit & (kNewlineMask | kLn));
    size_t run_end = 0;
    size_t prefixed_run = 0;
    if (prefix) {
      if (size_t e = word(r, after, &prefixed_run)) return suffix(r, e);
    }
    if (size_t e = word(r, pos, &run_end)) return suffix(r, e);
    if (prefix && prefixed_run > after) return suffix(r, prefixed_run);
    if (run_end > pos) return suffix(r, run_end);
    if (c.bit & kNumberMask) return numbers<3>(r, pos);
    Char d = c.cp == ' ' ? r.at(after) : Char{0, 0, 0};
    if ((d.bit & kNotSpaceLn) || (c.bit & kNotSpaceLn)) {
      size_t e = r.run(after, kNotSpaceLn);
      while (e < r.end && (r.text[e] == '\r' || r.text[e] == '\n' || r.text[e] == '/')) ++e;
      return e;
    }
    return spaces<true>(r, pos);
  }
};

// Numbers are cut out first, then runs of a CJK range; the main pattern sees each stretch alone.
struct CjkReader : Reader {
  bool in_cjk = false;
  static bool cjk(uint32_t cp) { return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF); }
  Char at(size_t pos) const {
    Char c = Reader::at(pos);
    if ((c.bit & kNumberMask) || cjk(c.cp) != in_cjk) return {0, 0, 0};
    return c;
  }
  size_t run(size_t pos, uint32_t mask) const {
    while (pos < end) {
      Char c = at(pos);
      if (!(c.bit & mask)) break;
      pos += c.length;
    }
    return pos;
  }
};

struct CjkRule {
  using R = CjkReader;
  static constexpr uint32_t kWord = kLetterMask | kMarkMask;
  static constexpr uint32_t kPs = kPunctMask | kSymbolMask;
  static bool ascii_letter(uint32_t cp) { return (cp | 32) >= 'a' && (cp | 32) <= 'z'; }
  static size_t match(const R& r, size_t pos) {
    Char c = r.at(pos);
    if (c.bit == 0) return 0;
    size_t after = pos + c.length;
    if (c.bit & kWord) return r.run(after, kWord);
    Char d = r.at(after);
    if ((c.bit & kPs) && c.cp < 0x80 && ascii_letter(d.cp)) {
      size_t e = after + 1;
      while (e < r.end && ascii_letter(static_cast<uint8_t>(r.text[e]))) ++e;
      return e;
    }
    if (!(c.bit & (kNewlineMask | kPs)) && (d.bit & kWord)) return r.run(after + d.length, kWord);
    if ((c.bit & kPs) || (c.cp == ' ' && (d.bit & kPs))) return r.run(r.run(after, kPs), kNewlineMask);
    if (c.bit & kSpaceMask) return spaces<true>(r, pos);
    return 0;
  }
};

// Cuts with one rule; characters that match nothing are gathered up to the next match.
template <typename Rule>
size_t next_piece(const typename Rule::R& r, size_t pos) {
  if (size_t e = Rule::match(r, pos)) return e;
  size_t p = pos;
  for (;;) {
    Char c = r.at(p);
    if (c.bit == 0) return p;
    p += c.length;
    if (p >= r.end || Rule::match(r, p)) return p;
  }
}

template <typename Rule>
class RuleScanner final : public Scanner {
 public:
  size_t scan(const char* text, size_t begin, size_t end, uint32_t* ends, size_t max) const override {
    typename Rule::R r{};
    r.text = text;
    r.end = end;
    r.categories = categories_;
    size_t count = 0;
    for (size_t pos = begin; pos < end && count < max;) {
      pos = piece(r, pos);
      ends[count++] = static_cast<uint32_t>(pos);
    }
    return count;
  }

 private:
  static size_t piece(const Cl100kRule<3, false>::R& r, size_t pos) { return next_piece<Rule>(r, pos); }
  static size_t piece(const StoppingReader<NoStop>& r, size_t pos) { return next_piece<Rule>(r, pos); }
  static size_t piece(const StoppingReader<StopAtDigits>& r, size_t pos) {
    const Reader& plain = r;
    Char c = plain.at(pos);
    return StopAtDigits::stops(c) ? pos + c.length : next_piece<Rule>(r, pos);
  }
  static size_t piece(CjkReader& r, size_t pos) {
    const Reader& plain = r;
    Char c = plain.at(pos);
    if (c.bit & kNumberMask) return numbers<3>(plain, pos);
    r.in_cjk = CjkReader::cjk(c.cp);
    return next_piece<Rule>(r, pos);
  }
  const uint8_t* categories_ = category_table();
};

template <typename Rule>
std::unique_ptr<Scanner> make() {
  return std::make_unique<RuleScanner<Rule>>();
}

struct Entry {
  std::string_view name;
  std::array<ScanStage, 3> stages;
  size_t count;
  std::unique_ptr<Scanner> (*make)();
};

constexpr Entry kEntries[] = {
    {"gpt2",
     {{{false, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}},
     1,
     make<Gpt2Rule<NoStop>>},
    {"digits gpt2",
     {{{true, ""}, {false, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}},
     2,
     make<Gpt2Rule<StopAtDigits>>},
    {"digits-3", {{{false, kThreeDigitsPattern}}}, 1, make<Cl100kRule<3, false>>},
    {"digits-1", {{{false, kOneDigitPattern}}}, 1, make<Cl100kRule<1, false>>},
    {"digits-1-marks", {{{false, kOneDigitMarksPattern}}}, 1, make<Cl100kRule<1, true>>},
    {"o200k", {{{false, kO200kPattern}}}, 1, make<O200kRule>},
    {"cjk-apart", {{{false, kCjkNumbers}, {false, kCjkRuns}, {false, kCjkMain}}}, 3, make<CjkRule>},
};

}  // namespace

std::unique_ptr<Scanner> find_scanner(const std::vector<ScanStage>& stages) {
  for (const Entry& e : kEntries) {
    if (e.count != stages.size()) continue;
    bool same = true;
    for (size_t i = 0; i < e.count; ++i) {
      same = same && e.stages[i].digits == stages[i].digits && e.stages[i].pattern == stages[i].pattern;
    }
    if (same) return e.make();
  }
  return nullptr;
}

std::vector<KnownScanner> known_scanners() {
  std::vector<KnownScanner> all;
  for (const Entry& e : kEntries) all.push_back({e.name, {e.stages.begin(), e.stages.begin() + e.count}});
  return all;
}

}  // namespace bora::text
