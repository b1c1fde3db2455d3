// Is a text UTF-8? simdjson has the vector code for every kind of processor.
#include <simdjson.h>

#include "text/tokenizer/unicode.h"

namespace bora::text {

bool utf8_valid(std::string_view text) {
  if (text.size() >= 64) return simdjson::validate_utf8(text.data(), text.size());
  for (size_t pos = 0; pos < text.size();) {
    Utf8Step step = utf8_step(text, pos);
    if (!step.valid) return false;
    pos += step.length;
  }
  return true;
}

}  // namespace bora::text
