// The byte-level alphabet: every byte as one printable character (U+0021-U+017F region), as GPT-2 introduced it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bora::text {

// Character that stands for a byte.
uint32_t byte_to_alphabet(uint8_t byte);
// The byte that a character stands for, or -1.
inline int alphabet_to_byte(uint32_t cp) {
  if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD)) return static_cast<int>(cp);
  if (cp < 0x100 || cp > 0x143) return -1;
  if (cp <= 0x120) return static_cast<int>(cp - 0x100);         // 0x00-0x20
  if (cp <= 0x142) return static_cast<int>(cp - 0x121 + 0x7F);  // 0x7F-0xA0
  return 0xAD;
}

// Appends the alphabet's text of `bytes`.
void append_alphabet(std::string_view bytes, std::string* out);
// Appends the bytes that `text` stands for; false (and *out unchanged) when a character is not of the alphabet.
bool append_from_alphabet(std::string_view text, std::string* out);

}  // namespace bora::text
