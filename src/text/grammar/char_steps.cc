// State of an unfinished character, packed: [mode:3][left:3][high:10][value:16], for UTF-8 [mode:3][left:3][-:2]
// [length:3][value:21].
#include "text/grammar/char_steps.h"

#include <algorithm>

#include "text/grammar/string_states.h"

namespace bora::text {
namespace {

enum Mode : uint32_t { kUtf8 = 1, kEscape, kHex, kLowSlash, kLowU, kLowHex };

bool overlaps(const Program& p, const Node& n, uint32_t lo, uint32_t hi) {
  if (lo > hi) return false;
  if (n.is_class) return p.classes[n.a].intersects(lo, hi);
  return std::max(lo, n.a) <= std::min(hi, n.b);
}

// Whether the set holds every code point of [lo, hi].
bool covers(const Program& p, const Node& n, uint32_t lo, uint32_t hi) {
  if (!n.is_class) return n.a <= lo && hi <= n.b;
  const std::vector<CodeSpan>& spans = p.classes[n.a].spans();
  auto at = std::lower_bound(spans.begin(), spans.end(), hi, [](const CodeSpan& s, uint32_t c) { return s.hi < c; });
  return at != spans.end() && at->lo <= lo && hi <= at->hi;
}

// In place of the length: any continuation bytes finish a member, so the value so far does not matter. Prefixes of a
// wide class share their states by that.
constexpr uint32_t kFree = 7;

constexpr uint32_t pack(uint32_t mode, uint32_t left, uint32_t high, uint32_t value) {
  return mode << 29 | left << 26 | high << 16 | value;
}
constexpr uint32_t pack_utf8(uint32_t left, uint32_t length, uint32_t value) {
  return kUtf8 << 29 | left << 26 | length << 21 | value;
}

CharStep finished(const Program& p, const Node& n, uint32_t c) {
  return {overlaps(p, n, c, c) ? CharStep::kDone : CharStep::kNone, 0};
}

CharStep utf8_state(const Program& p, const Node& n, uint32_t left, uint32_t length, uint32_t value) {
  if (left == 0) return finished(p, n, value);
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t lo = std::max(value << (6 * left), kLeast[length]);
  uint32_t hi = std::min((value + 1) << (6 * left), kMaxCodePoint + 1) - 1;
  if (!overlaps(p, n, lo, hi)) return {CharStep::kNone, 0};
  // Not where the next byte is itself limited (overlong forms, the last plane).
  const bool whole = value << (6 * left) >= kLeast[length] && ((value + 1) << (6 * left)) - 1 <= kMaxCodePoint;
  if (whole && covers(p, n, lo, hi)) return {CharStep::kPartial, pack_utf8(left, kFree, 0)};
  return {CharStep::kPartial, pack_utf8(left, length, value)};
}

uint32_t beyond(uint32_t high) { return 0x10000 + (high << 10); }

CharStep hex_state(const Program& p, const Node& n, uint32_t left, uint32_t value) {
  uint32_t lo = value << (4 * left);
  uint32_t hi = lo + (1u << (4 * left)) - 1;
  uint32_t high_lo = std::max(lo, 0xD800u);
  uint32_t high_hi = std::min(hi, 0xDBFFu);
  bool pair = high_lo <= high_hi && overlaps(p, n, beyond(high_lo - 0xD800), beyond(high_hi - 0xD800) + 0x3FF);
  if (left == 0) {
    if (value >= 0xD800 && value <= 0xDBFF) {
      return {pair ? CharStep::kPartial : CharStep::kNone, pack(kLowSlash, 0, value - 0xD800, 0)};
    }
    return finished(p, n, value);
  }
  if (!pair && !overlaps(p, n, lo, hi)) return {CharStep::kNone, 0};
  return {CharStep::kPartial, pack(kHex, left, 0, value)};
}

CharStep low_state(const Program& p, const Node& n, uint32_t left, uint32_t high, uint32_t value) {
  uint32_t lo = std::max(value << (4 * left), 0xDC00u);
  uint32_t hi = std::min((value << (4 * left)) + (1u << (4 * left)) - 1, 0xDFFFu);
  if (lo > hi || !overlaps(p, n, beyond(high) + lo - 0xDC00, beyond(high) + hi - 0xDC00)) return {CharStep::kNone, 0};
  if (left == 0) return {CharStep::kDone, 0};
  return {CharStep::kPartial, pack(kLowHex, left, high, value)};
}

CharStep first_byte(const Program& p, const Node& n, uint8_t byte) {
  if (n.json && (byte < 0x20 || byte == '"')) return {CharStep::kNone, 0};
  if (n.json && byte == '\\') return {CharStep::kPartial, pack(kEscape, 0, 0, 0)};
  if (byte < 0x80) return finished(p, n, byte);
  if (byte < 0xC2 || byte > 0xF4) return {CharStep::kNone, 0};
  uint32_t length = byte < 0xE0 ? 2 : (byte < 0xF0 ? 3 : 4);
  return utf8_state(p, n, length - 1, length, byte & (0x7Fu >> length));
}

CharStep escaped(const Program& p, const Node& n, uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return finished(p, n, byte);
    case 'b':
      return finished(p, n, '\b');
    case 'f':
      return finished(p, n, '\f');
    case 'n':
      return finished(p, n, '\n');
    case 'r':
      return finished(p, n, '\r');
    case 't':
      return finished(p, n, '\t');
    case 'u':
      return hex_state(p, n, 4, 0);
    default:
      return {CharStep::kNone, 0};
  }
}

uint32_t lead_byte(uint32_t c) {
  if (c < 0x800) return 0xC0 | c >> 6;
  if (c < 0x10000) return 0xE0 | c >> 12;
  return 0xF0 | c >> 18;
}

void mark_span(const Node& n, uint32_t lo, uint32_t hi, uint32_t* row, uint32_t value) {
  for (uint32_t c = lo; c <= std::min(hi, 0x7Fu); ++c) {
    if (!n.json || (c >= 0x20 && c != '"' && c != '\\')) row[c] = value;
  }
  if (hi < 0x80) return;
  for (uint32_t b = lead_byte(std::max(lo, 0x80u)); b <= lead_byte(hi); ++b) row[b] = value;
}

}  // namespace

CharStep char_step(const Program& p, const Node& n, uint32_t aux, uint8_t byte) {
  uint32_t left = aux >> 26 & 7;
  uint32_t high = aux >> 16 & 0x3FF;
  uint32_t value = aux & 0xFFFF;
  bool hex = detail::is_hex(byte);
  uint32_t digit = hex ? static_cast<uint32_t>(detail::hex_value(byte)) : 0;
  switch (aux >> 29) {
    case 0:
      return first_byte(p, n, byte);
    case kUtf8:
      if (byte < 0x80 || byte > 0xBF) break;
      if ((aux >> 21 & 7) == kFree) {
        if (left == 1) return {CharStep::kDone, 0};
        return {CharStep::kPartial, pack_utf8(left - 1, kFree, 0)};
      }
      return utf8_state(p, n, left - 1, aux >> 21 & 7, (aux & 0x1FFFFF) << 6 | (byte & 0x3F));
    case kEscape:
      return escaped(p, n, byte);
    case kHex:
      if (!hex) break;
      return hex_state(p, n, left - 1, value << 4 | digit);
    case kLowSlash:
      if (byte != '\\') break;
      return {CharStep::kPartial, pack(kLowU, 0, high, 0)};
    case kLowU:
      if (byte != 'u') break;
      return {CharStep::kPartial, pack(kLowHex, 4, high, 0)};
    default:
      if (!hex) break;
      return low_state(p, n, left - 1, high, value << 4 | digit);
  }
  return {CharStep::kNone, 0};
}

void mark_first_bytes(const Program& p, const Node& n, uint32_t aux, uint32_t* row, uint32_t value) {
  switch (n.kind) {
    case NodeKind::kChar:
      if (aux != 0) {
        for (int c = 0; c < 0xC0; ++c) row[c] = value;
      } else if (n.is_class) {
        for (CodeSpan s : p.classes[n.a].spans()) mark_span(n, s.lo, s.hi, row, value);
      } else {
        mark_span(n, n.a, n.b, row, value);
      }
      if (n.json) row['\\'] = value;
      break;
    case NodeKind::kByte:
      for (uint32_t c = n.a; c <= n.b; ++c) row[c] = value;
      break;
    case NodeKind::kString:
      for (int c = 0; c < 256; ++c) {
        if (kStringTable[aux & 31][static_cast<size_t>(c)] >= 0) row[c] = value;
      }
      break;
    case NodeKind::kNumber:
      for (char c : {'+', '-', '.', 'e', 'E'}) row[static_cast<uint8_t>(c)] = value;
      for (int c = '0'; c <= '9'; ++c) row[c] = value;
      break;
    case NodeKind::kWs:
      for (char c : {' ', '\n', '\r', '\t'}) row[static_cast<uint8_t>(c)] = value;
      break;
    default:
      break;
  }
}

int single_byte(const Program& p, const Node& n, uint32_t aux) {
  if (n.kind == NodeKind::kByte) return n.a == n.b ? static_cast<int>(n.a) : -1;
  if (n.kind != NodeKind::kChar || n.is_class || n.a != n.b) return -1;
  if (aux == 0) {
    if (n.json && (n.a < 0x20 || n.a == '"' || n.a == '\\')) return -1;
    return static_cast<int>(n.a < 0x80 ? n.a : lead_byte(n.a));
  }
  if (aux >> 29 == kUtf8) return static_cast<int>(0x80 | (n.a >> (6 * ((aux >> 26 & 7) - 1)) & 0x3F));
  (void)p;
  return -1;
}

}  // namespace bora::text
