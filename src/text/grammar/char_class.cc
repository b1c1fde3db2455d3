// Set algebra on sorted spans; Unicode properties come from utf8proc's tables.
#include "text/grammar/char_class.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>

namespace bora::text {
namespace {

void append_span(std::vector<CodeSpan>* out, uint32_t lo, uint32_t hi) {
  if (lo > hi) return;
  if (!out->empty() && out->back().hi + 1 >= lo) {
    out->back().hi = std::max(out->back().hi, hi);
  } else {
    out->push_back({lo, hi});
  }
}

CharClass by_category(const std::function<bool(utf8proc_category_t, uint32_t)>& wanted) {
  std::vector<CodeSpan> spans;
  for (uint32_t c = 0; c <= kMaxCodePoint; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    if (wanted(utf8proc_category(static_cast<utf8proc_int32_t>(c)), c)) append_span(&spans, c, c);
  }
  return CharClass(std::move(spans));
}

}  // namespace

CharClass::CharClass(std::vector<CodeSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](CodeSpan a, CodeSpan b) { return a.lo < b.lo; });
  std::vector<CodeSpan> merged;
  for (CodeSpan s : spans) append_span(&merged, s.lo, std::min(s.hi, kMaxCodePoint));
  for (CodeSpan s : merged) {
    if (s.hi < 0xD800 || s.lo > 0xDFFF) {
      spans_.push_back(s);
      continue;
    }
    if (s.lo < 0xD800) spans_.push_back({s.lo, 0xD7FF});
    if (s.hi > 0xDFFF) spans_.push_back({0xE000, s.hi});
  }
}

bool CharClass::intersects(uint32_t lo, uint32_t hi) const {
  auto it = std::lower_bound(spans_.begin(), spans_.end(), lo, [](CodeSpan s, uint32_t v) { return s.hi < v; });
  return it != spans_.end() && it->lo <= hi;
}

CharClass CharClass::complement() const {
  std::vector<CodeSpan> out;
  uint32_t next = 0;
  for (CodeSpan s : spans_) {
    if (s.lo > next) out.push_back({next, s.lo - 1});
    next = s.hi + 1;
  }
  if (next <= kMaxCodePoint) out.push_back({next, kMaxCodePoint});
  return CharClass(std::move(out));
}

CharClass CharClass::with(const CharClass& other) const {
  std::vector<CodeSpan> all = spans_;
  all.insert(all.end(), other.spans_.begin(), other.spans_.end());
  return CharClass(std::move(all));
}

CharClass CharClass::minus(const CharClass& other) const { return complement().with(other).complement(); }

CharClass CharClass::fold_case() const {
  std::vector<CodeSpan> all = spans_;
  for (CodeSpan s : spans_) {
    // Case pairs are dense only in small spans; a span of everything already holds its variants.
    if (s.hi - s.lo > 0x3000) continue;
    for (uint32_t c = s.lo; c <= s.hi; ++c) {
      auto lower = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
      auto upper = static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
      all.push_back({lower, lower});
      all.push_back({upper, upper});
    }
  }
  return CharClass(std::move(all));
}

CharClass digit_class(bool unicode) {
  if (!unicode) return CharClass({{'0', '9'}});
  static const CharClass kDigits =
      by_category([](utf8proc_category_t k, uint32_t) { return k == UTF8PROC_CATEGORY_ND; });
  return kDigits;
}

CharClass word_class(bool unicode) {
  if (!unicode) return CharClass({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  static const CharClass kWord = by_category([](utf8proc_category_t k, uint32_t c) {
    bool letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
    bool number = k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
    return letter || number || c == '_';
  });
  return kWord;
}

CharClass space_class() {
  return CharClass({{0x09, 0x0D},
                    {0x20, 0x20},
                    {0xA0, 0xA0},
                    {0x1680, 0x1680},
                    {0x2000, 0x200A},
                    {0x2028, 0x2029},
                    {0x202F, 0x202F},
                    {0x205F, 0x205F},
                    {0x3000, 0x3000}});
}

std::optional<CharClass> property_class(std::string_view name) {
  struct LongName {
    std::string_view name;
    std::string_view code;
  };
  static constexpr LongName kLongNames[] = {{"Letter", "L"}, {"Uppercase_Letter", "Lu"}, {"Lowercase_Letter", "Ll"},
                                            {"Number", "N"}, {"Decimal_Number", "Nd"},   {"Punctuation", "P"},
                                            {"Symbol", "S"}, {"Separator", "Z"},         {"Mark", "M"},
                                            {"Other", "C"}};
  for (const LongName& entry : kLongNames) {
    if (entry.name == name) name = entry.code;
  }
  if (name.empty() || name.size() > 2) return std::nullopt;
  // utf8proc numbers its categories in this order.
  static constexpr std::string_view kCodes = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
  uint64_t wanted = 0;
  for (size_t i = 0; i * 2 < kCodes.size(); ++i) {
    std::string_view code = kCodes.substr(i * 2, 2);
    if (code == name || (name.size() == 1 && code[0] == name[0])) wanted |= uint64_t{1} << i;
  }
  if (wanted == 0) return std::nullopt;
  return by_category([wanted](utf8proc_category_t k, uint32_t) { return (wanted >> k & 1) != 0; });
}

std::optional<uint32_t> decode_utf8(std::string_view text, size_t* pos) {
  utf8proc_int32_t c = 0;
  auto rest = static_cast<utf8proc_ssize_t>(text.size() - *pos);
  utf8proc_ssize_t n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + *pos, rest, &c);
  if (n <= 0 || c < 0) return std::nullopt;
  *pos += static_cast<size_t>(n);
  return static_cast<uint32_t>(c);
}

}  // namespace bora::text
