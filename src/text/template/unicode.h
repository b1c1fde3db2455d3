// Character properties as Python's str methods see them (utf8proc's tables, plus the unconditional special casings).
#pragma once

#include <cstdint>
#include <string>

namespace bora::text::jinja {

bool printable(uint32_t c);
bool is_alpha(uint32_t c);
bool is_decimal(uint32_t c);
bool is_digit_char(uint32_t c);  // str.isdigit
bool is_numeric(uint32_t c);
bool is_alnum(uint32_t c);
bool is_upper(uint32_t c);
bool is_lower(uint32_t c);
bool is_title(uint32_t c);
bool is_cased(uint32_t c);
// Append the full mapping.
void to_upper(uint32_t c, std::string* out);
void to_lower(uint32_t c, std::string* out);
void to_title(uint32_t c, std::string* out);

}  // namespace bora::text::jinja
