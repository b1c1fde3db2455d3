// The body of a JSON string as a small byte automaton: raw UTF-8, escapes, surrogate pairs. A lone surrogate is
// refused, because no UTF-8 text can carry it on.
#pragma once

#include <array>
#include <cstdint>

namespace bora::text {

inline constexpr int kStringHome = 0;
inline constexpr int kStringStates = 22;
inline constexpr int kStringDead = -1;
inline constexpr int kStringExit = -2;  // the closing quote, from home only

namespace detail {

// kU*: bytes of a character still to come; kHex*, kHigh*, kLow*: digits of an escape still to come.
inline constexpr int kHome = 0;
inline constexpr int kU1 = 1;
inline constexpr int kU2 = 2;
inline constexpr int kU3 = 3;
inline constexpr int kUE0 = 4;
inline constexpr int kUED = 5;
inline constexpr int kUF0 = 6;
inline constexpr int kUF4 = 7;
inline constexpr int kEscape = 8;
inline constexpr int kHex1 = 9;
inline constexpr int kHex2 = 10;
inline constexpr int kHex2D = 11;
inline constexpr int kHex3 = 12;
inline constexpr int kHex4 = 13;
inline constexpr int kHigh3 = 14;
inline constexpr int kHigh4 = 15;
inline constexpr int kLowSlash = 16;
inline constexpr int kLowU = 17;
inline constexpr int kLowD = 18;
inline constexpr int kLowC = 19;
inline constexpr int kLow3 = 20;
inline constexpr int kLow4 = 21;

constexpr bool is_hex(int c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
constexpr int hex_value(int c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

constexpr int string_home_step(int c) {
  if (c == '"') return kStringExit;
  if (c == '\\') return kEscape;
  if (c >= 0x20 && c < 0x80) return kHome;
  if (c >= 0xC2 && c <= 0xDF) return kU1;
  if (c == 0xE0) return kUE0;
  if (c == 0xED) return kUED;
  if (c >= 0xE1 && c <= 0xEF) return kU2;
  if (c == 0xF0) return kUF0;
  if (c >= 0xF1 && c <= 0xF3) return kU3;
  if (c == 0xF4) return kUF4;
  return kStringDead;
}

constexpr int string_escape_step(int c) {
  if (c == 'u') return kHex1;
  bool plain = c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't';
  return plain ? kHome : kStringDead;
}

constexpr int string_hex_step(int s, int c) {
  if (!is_hex(c)) return kStringDead;
  int v = hex_value(c);
  switch (s) {
    case kHex1:
      return v == 13 ? kHex2D : kHex2;
    case kHex2:
      return kHex3;
    case kHex2D:
      return v < 8 ? kHex3 : (v < 12 ? kHigh3 : kStringDead);
    case kHex3:
      return kHex4;
    case kHigh3:
      return kHigh4;
    case kHigh4:
      return kLowSlash;
    case kLowD:
      return v == 13 ? kLowC : kStringDead;
    case kLowC:
      return v >= 12 ? kLow3 : kStringDead;
    case kLow3:
      return kLow4;
    default:
      return kHome;  // kHex4, kLow4
  }
}

constexpr int string_step(int s, int c) {
  bool cont = c >= 0x80 && c <= 0xBF;
  switch (s) {
    case kHome:
      return string_home_step(c);
    case kU1:
      return cont ? kHome : kStringDead;
    case kU2:
      return cont ? kU1 : kStringDead;
    case kU3:
      return cont ? kU2 : kStringDead;
    case kUE0:
      return cont && c >= 0xA0 ? kU1 : kStringDead;
    case kUED:
      return cont && c <= 0x9F ? kU1 : kStringDead;
    case kUF0:
      return cont && c >= 0x90 ? kU2 : kStringDead;
    case kUF4:
      return cont && c <= 0x8F ? kU2 : kStringDead;
    case kEscape:
      return string_escape_step(c);
    case kLowSlash:
      return c == '\\' ? kLowU : kStringDead;
    case kLowU:
      return c == 'u' ? kLowD : kStringDead;
    default:
      return string_hex_step(s, c);
  }
}

constexpr auto make_string_table() {
  std::array<std::array<int8_t, 256>, kStringStates> table{};
  for (int s = 0; s < kStringStates; ++s) {
    for (int c = 0; c < 256; ++c) {
      table[static_cast<size_t>(s)][static_cast<size_t>(c)] = static_cast<int8_t>(string_step(s, c));
    }
  }
  return table;
}

}  // namespace detail

inline constexpr auto kStringTable = detail::make_string_table();

constexpr bool is_json_ws(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace bora::text
