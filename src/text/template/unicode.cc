#include "text/template/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/template/value.h"

namespace bora::text::jinja {

namespace {

utf8proc_category_t category(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Unicode's SpecialCasing.txt, unconditional entries: characters whose upper or title case is more than one
// character.
struct Special {
  uint32_t code;
  uint32_t upper[3];
  uint32_t title[3];
};
constexpr Special kSpecial[] = {
    {0x00DF, {0x53, 0x53, 0}, {0x53, 0x73, 0}},
    {0x0149, {0x2BC, 0x4E, 0}, {0x2BC, 0x4E, 0}},
    {0x01F0, {0x4A, 0x30C, 0}, {0x4A, 0x30C, 0}},
    {0x0390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x03B0, {0x3A5, 0x308, 0x301}, {0x3A5, 0x308, 0x301}},
    {0x0587, {0x535, 0x552, 0}, {0x535, 0x582, 0}},
    {0x1E96, {0x48, 0x331, 0}, {0x48, 0x331, 0}},
    {0x1E97, {0x54, 0x308, 0}, {0x54, 0x308, 0}},
    {0x1E98, {0x57, 0x30A, 0}, {0x57, 0x30A, 0}},
    {0x1E99, {0x59, 0x30A, 0}, {0x59, 0x30A, 0}},
    {0x1E9A, {0x41, 0x2BE, 0}, {0x41, 0x2BE, 0}},
    {0xFB00, {0x46, 0x46, 0}, {0x46, 0x66, 0}},
    {0xFB01, {0x46, 0x49, 0}, {0x46, 0x69, 0}},
    {0xFB02, {0x46, 0x4C, 0}, {0x46, 0x6C, 0}},
    {0xFB03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xFB04, {0x46, 0x46, 0x4C}, {0x46, 0x66, 0x6C}},
    {0xFB05, {0x53, 0x54, 0}, {0x53, 0x74, 0}},
    {0xFB06, {0x53, 0x54, 0}, {0x53, 0x74, 0}},
    {0xFB13, {0x544, 0x546, 0}, {0x544, 0x576, 0}},
    {0xFB14, {0x544, 0x535, 0}, {0x544, 0x565, 0}},
    {0xFB15, {0x544, 0x53B, 0}, {0x544, 0x56B, 0}},
    {0xFB16, {0x54E, 0x546, 0}, {0x54E, 0x576, 0}},
    {0xFB17, {0x544, 0x53D, 0}, {0x544, 0x56D, 0}},
};

const Special* special(uint32_t c) {
  if (c < 0xDF) return nullptr;
  const auto* at = std::lower_bound(std::begin(kSpecial), std::end(kSpecial), c,
                                    [](const Special& s, uint32_t x) { return s.code < x; });
  return at != std::end(kSpecial) && at->code == c ? at : nullptr;
}

void append_all(const uint32_t (&codes)[3], std::string* out) {
  for (const uint32_t c : codes) {
    if (c != 0) encode(c, out);
  }
}

}  // namespace

bool printable(uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  const auto k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k != UTF8PROC_CATEGORY_CC && k != UTF8PROC_CATEGORY_CF &&
         k != UTF8PROC_CATEGORY_CS && k != UTF8PROC_CATEGORY_CO && k != UTF8PROC_CATEGORY_ZL &&
         k != UTF8PROC_CATEGORY_ZP && k != UTF8PROC_CATEGORY_ZS;
}

bool is_alpha(uint32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit_char(uint32_t c) {
  if (is_decimal(c)) return true;
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) || c == 0x24FF ||
         (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278A && c <= 0x2792);
}

bool is_numeric(uint32_t c) {
  if (is_digit_char(c)) return true;
  const auto k = category(c);
  if (k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO) return true;
  // The common ideographs with a numeric value.
  static constexpr uint32_t kIdeographs[] = {0x3007, 0x4E00, 0x4E03, 0x4E07, 0x4E09, 0x4E5D, 0x4E8C, 0x4E94, 0x4EBF,
                                             0x516B, 0x516D, 0x5341, 0x5343, 0x56DB, 0x767E, 0x842C, 0x5104, 0x5146};
  return std::find(std::begin(kIdeographs), std::end(kIdeographs), c) != std::end(kIdeographs);
}

bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

bool is_upper(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF);
}

bool is_lower(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2170 && c <= 0x217F) ||
         (c >= 0x24D0 && c <= 0x24E9) || (c >= 0x2B0 && c <= 0x2B8) || (c >= 0x1D2C && c <= 0x1D6A);
}

bool is_title(uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

void to_upper(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (const Special* s = special(c)) {
    append_all(s->upper, out);
  } else {
    encode(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void to_lower(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out->append("i\xCC\x87");
  } else {
    encode(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void to_title(uint32_t c, std::string* out) {
  if (c < 0x80) {
    to_upper(c, out);
  } else if (const Special* s = special(c)) {
    append_all(s->title, out);
  } else {
    encode(static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
  }
}

}  // namespace bora::text::jinja
