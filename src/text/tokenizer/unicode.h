// Code points: UTF-8 in and out, general categories and the predicates of the reference library.
//
// Categories are the 30 of Unicode with the white space among the controls told apart, so that every class of a split
// pattern is one 32-bit mask: `mask >> category & 1`. Spaces are exactly kSpaceMask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bora::text {

enum Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kCn,
  kCcSpace,  // tab, vertical tab, form feed, next line
  kNewline,  // line feed, carriage return
};

constexpr uint32_t cat_bit(Category c) { return uint32_t{1} << c; }
constexpr uint32_t kLetterMask = cat_bit(kLu) | cat_bit(kLl) | cat_bit(kLt) | cat_bit(kLm) | cat_bit(kLo);
constexpr uint32_t kMarkMask = cat_bit(kMn) | cat_bit(kMc) | cat_bit(kMe);
constexpr uint32_t kNumberMask = cat_bit(kNd) | cat_bit(kNl) | cat_bit(kNo);
constexpr uint32_t kPunctMask =
    cat_bit(kPc) | cat_bit(kPd) | cat_bit(kPs) | cat_bit(kPe) | cat_bit(kPi) | cat_bit(kPf) | cat_bit(kPo);
constexpr uint32_t kSymbolMask = cat_bit(kSm) | cat_bit(kSc) | cat_bit(kSk) | cat_bit(kSo);
constexpr uint32_t kNewlineMask = cat_bit(kNewline);
constexpr uint32_t kSpaceMask = cat_bit(kZs) | cat_bit(kZl) | cat_bit(kZp) | cat_bit(kCcSpace) | kNewlineMask;

constexpr uint32_t kReplacementChar = 0xFFFD;

// Category of every code point, 0x110000 entries. Immutable, built on first use.
const uint8_t* category_table();
inline Category category_of(uint32_t cp) { return static_cast<Category>(category_table()[cp]); }

bool is_white_space(uint32_t cp);
bool is_punctuation(uint32_t cp);     // of the Bert and Punctuation pre-tokenizers
bool is_combining_mark(uint32_t cp);  // of StripAccents
bool is_numeric(uint32_t cp);         // of Digits
bool is_word_char(uint32_t cp);       // \w of single_word and of the Whitespace pre-tokenizer
bool is_bert_mark(uint32_t cp);       // accent of BertNormalizer
bool is_bert_control(uint32_t cp);    // dropped by BertNormalizer's cleaning
bool is_cjk_ideograph(uint32_t cp);   // set apart by BertNormalizer
bool is_norm_inert(uint32_t cp);      // unknown to the normalization forms
uint8_t script_of(uint32_t cp);       // number of a script; 0 joins with any
// Appends the lower-case form (U+0130 gives two characters).
void append_lower(uint32_t cp, std::string* out);

// Length of the UTF-8 sequence that a lead byte of valid text starts.
inline int utf8_length(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// Decodes at *pos of valid UTF-8 and moves on. REQUIRES: *pos < text.size(), text valid.
inline uint32_t utf8_next(const char* text, size_t* pos) {
  const auto* p = reinterpret_cast<const uint8_t*>(text) + *pos;
  if (p[0] < 0x80) {
    *pos += 1;
    return p[0];
  }
  if (p[0] < 0xE0) {
    *pos += 2;
    return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
  }
  if (p[0] < 0xF0) {
    *pos += 3;
    return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
  }
  *pos += 4;
  return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

// Start of the character before `pos`. REQUIRES: pos > 0, text valid.
inline size_t utf8_prev(std::string_view text, size_t pos) {
  do {
    --pos;
  } while (pos > 0 && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80);
  return pos;
}

void utf8_append(uint32_t cp, std::string* out);
size_t utf8_count(std::string_view text);
bool utf8_valid(std::string_view text);

// What stands at `pos` of arbitrary bytes. `length` = bytes of a whole character, or of a maximal broken subpart
// (then !valid), or of a beginning that more bytes could complete (then !valid and incomplete).
struct Utf8Step {
  uint8_t length;
  bool valid;
  bool incomplete;
};
Utf8Step utf8_step(std::string_view bytes, size_t pos);

// Appends `bytes` with each maximal broken subpart replaced by U+FFFD.
void utf8_append_lossy(std::string_view bytes, std::string* out);

}  // namespace bora::text
