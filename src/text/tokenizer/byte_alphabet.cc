#include "text/tokenizer/byte_alphabet.h"

#include "text/tokenizer/unicode.h"

namespace bora::text {

uint32_t byte_to_alphabet(uint8_t byte) {
  if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD)) return byte;
  if (byte <= 0x20) return 0x100u + byte;
  if (byte <= 0xA0) return 0x121u + byte - 0x7F;
  return 0x143;
}

void append_alphabet(std::string_view bytes, std::string* out) {
  for (char c : bytes) utf8_append(byte_to_alphabet(static_cast<uint8_t>(c)), out);
}

bool append_from_alphabet(std::string_view text, std::string* out) {
  size_t start = out->size();
  out->resize(start + text.size());
  char* to = out->data() + start;
  size_t pos = 0;
  while (pos < text.size()) {
    auto lead = static_cast<uint8_t>(text[pos]);
    int byte = lead;
    if (lead >= 0x21 && lead <= 0x7E) {
      ++pos;
    } else {
      byte = alphabet_to_byte(utf8_next(text.data(), &pos));
    }
    if (byte < 0) {
      out->resize(start);
      return false;
    }
    *to++ = static_cast<char>(byte);
  }
  out->resize(static_cast<size_t>(to - out->data()));
  return true;
}

}  // namespace bora::text
