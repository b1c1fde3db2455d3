#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>

#include "text/tokenizer/unicode_tables.h"

namespace bora::text {
namespace {

constexpr uint32_t kCodeSpace = 0x110000;

bool in_ranges(const CodeRange* ranges, size_t count, uint32_t cp) {
  const CodeRange* end = ranges + count;
  const CodeRange* it = std::upper_bound(ranges, end, cp, [](uint32_t c, const CodeRange& r) { return c < r.first; });
  return it != ranges && cp <= it[-1].last;
}

std::unique_ptr<uint8_t[]> build_categories() {
  auto table = std::make_unique<uint8_t[]>(kCodeSpace);
  for (size_t i = 0; i < kCategoryStartsCount; ++i) {
    uint32_t end = i + 1 < kCategoryStartsCount ? kCategoryStarts[i + 1].first : kCodeSpace;
    std::fill(table.get() + kCategoryStarts[i].first, table.get() + end, kCategoryStarts[i].category);
  }
  return table;
}

}  // namespace

const uint8_t* category_table() {
  static const std::unique_ptr<const uint8_t[]> table = build_categories();
  return table.get();
}

bool is_white_space(uint32_t cp) { return kSpaceMask >> category_of(cp) & 1; }
bool is_punctuation(uint32_t cp) { return in_ranges(kPunctuation, kPunctuationCount, cp); }
bool is_combining_mark(uint32_t cp) { return in_ranges(kCombiningMarks, kCombiningMarksCount, cp); }
bool is_numeric(uint32_t cp) { return cp < 0x80 ? cp >= '0' && cp <= '9' : in_ranges(kNumeric, kNumericCount, cp); }
bool is_word_char(uint32_t cp) {
  constexpr uint32_t mask = kLetterMask | kMarkMask | cat_bit(kNd) | cat_bit(kNl) | cat_bit(kPc);
  return (mask >> category_of(cp) & 1) || in_ranges(kWordOther, kWordOtherCount, cp);
}
bool is_bert_mark(uint32_t cp) { return in_ranges(kBertMarks, kBertMarksCount, cp); }
bool is_bert_control(uint32_t cp) { return in_ranges(kBertControl, kBertControlCount, cp); }
bool is_norm_inert(uint32_t cp) { return in_ranges(kNormInert, kNormInertCount, cp); }

bool is_cjk_ideograph(uint32_t cp) {
  // The range 0x2B820-0x2B91F is missing in the reference and so it is here.
  return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
         (cp >= 0x2A700 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
         (cp >= 0x2F800 && cp <= 0x2FA1F);
}

uint8_t script_of(uint32_t cp) {
  const ScriptRange* end = kScripts + kScriptsCount;
  const ScriptRange* it =
      std::upper_bound(kScripts, end, cp, [](uint32_t c, const ScriptRange& r) { return c < r.first; });
  return it != kScripts && cp <= it[-1].last ? it[-1].script : 0;
}

void append_lower(uint32_t cp, std::string* out) {
  if (cp < 0x80) {
    out->push_back(static_cast<char>(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
    return;
  }
  if (cp == 0x130) {
    out->append("i\xCC\x87");
    return;
  }
  const CodeRange* end = kLowerExtra + kLowerExtraCount;
  const CodeRange* it =
      std::lower_bound(kLowerExtra, end, cp, [](const CodeRange& pair, uint32_t c) { return pair.first < c; });
  if (it != end && it->first == cp) {
    utf8_append(it->last, out);
  } else {
    utf8_append(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(cp))), out);
  }
}

void utf8_append(uint32_t cp, std::string* out) {
  if (cp < 0x80) {
    out->push_back(static_cast<char>(cp));
  } else if (cp < 0x800) {
    const char bytes[2] = {static_cast<char>(0xC0 | cp >> 6), static_cast<char>(0x80 | (cp & 0x3F))};
    out->append(bytes, 2);
  } else if (cp < 0x10000) {
    const char bytes[3] = {static_cast<char>(0xE0 | cp >> 12), static_cast<char>(0x80 | (cp >> 6 & 0x3F)),
                           static_cast<char>(0x80 | (cp & 0x3F))};
    out->append(bytes, 3);
  } else {
    const char bytes[4] = {static_cast<char>(0xF0 | cp >> 18), static_cast<char>(0x80 | (cp >> 12 & 0x3F)),
                           static_cast<char>(0x80 | (cp >> 6 & 0x3F)), static_cast<char>(0x80 | (cp & 0x3F))};
    out->append(bytes, 4);
  }
}

size_t utf8_count(std::string_view text) {
  size_t n = 0;
  for (char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

Utf8Step utf8_step(std::string_view bytes, size_t pos) {
  auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  uint8_t lead = at(pos);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  int length = utf8_length(lead);
  // The second byte has a narrower range after some leads (overlong forms, surrogates, beyond U+10FFFF).
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    if (pos + i >= bytes.size()) return {static_cast<uint8_t>(i), false, true};
    uint8_t b = at(pos + i);
    if (b < low || b > high) return {static_cast<uint8_t>(i), false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {static_cast<uint8_t>(length), true, false};
}

void utf8_append_lossy(std::string_view bytes, std::string* out) {
  size_t pos = 0;
  size_t good = 0;  // start of the valid run not yet copied
  while (pos < bytes.size()) {
    Utf8Step step = utf8_step(bytes, pos);
    if (!step.valid) {
      out->append(bytes.substr(good, pos - good));
      utf8_append(kReplacementChar, out);
      good = pos + step.length;
    }
    pos += step.length;
  }
  out->append(bytes.substr(good));
}

}  // namespace bora::text
