// Sets of Unicode code points as sorted disjoint ranges, with the properties that patterns name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace bora::text {

struct CodeSpan {
  uint32_t lo;
  uint32_t hi;  // inclusive
  bool operator==(const CodeSpan&) const = default;
};

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Invariant after normalize(): sorted, disjoint, no two spans touch; surrogates (D800-DFFF) are never in a set that
// normalize() or complement() made, because UTF-8 cannot hold them.
class CharClass {
 public:
  CharClass() = default;
  explicit CharClass(std::vector<CodeSpan> spans);
  static CharClass single(uint32_t c) { return CharClass({{c, c}}); }
  static CharClass any() { return CharClass({{0, kMaxCodePoint}}); }

  const std::vector<CodeSpan>& spans() const { return spans_; }
  bool empty() const { return spans_.empty(); }
  bool contains(uint32_t c) const { return intersects(c, c); }
  // Whether any code point of [lo, hi] is in the set.
  bool intersects(uint32_t lo, uint32_t hi) const;
  CharClass complement() const;
  CharClass with(const CharClass& other) const;
  CharClass minus(const CharClass& other) const;
  // Adds the simple case variants of every member.
  CharClass fold_case() const;
  bool operator==(const CharClass&) const = default;

 private:
  std::vector<CodeSpan> spans_;
};

// ASCII forms are ECMAScript's, Unicode forms are those of Python's re.
CharClass digit_class(bool unicode);
CharClass word_class(bool unicode);
CharClass space_class();
// General categories by short name ("L", "Lu", "Nd", ...) and a few long names; nothing for other names.
std::optional<CharClass> property_class(std::string_view name);

// Decodes one code point at *pos and moves on; nothing when the bytes are not well-formed UTF-8.
std::optional<uint32_t> decode_utf8(std::string_view text, size_t* pos);

}  // namespace bora::text
