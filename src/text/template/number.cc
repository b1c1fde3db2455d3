#include "text/template/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace bora::text::jinja {

namespace {

using Words = std::vector<uint32_t>;

struct Big {
  bool negative = false;
  Words words;
};

void trim(Words* w) {
  while (!w->empty() && w->back() == 0) w->pop_back();
}

Big to_big(const Value& v) {
  Big r;
  if (v.tag == Tag::kBig) {
    r.negative = v.big->negative;
    r.words.assign(v.big->words, v.big->words + v.big->size);
    return r;
  }
  const int64_t i = v.tag == Tag::kBool ? v.b : v.i;
  r.negative = i < 0;
  uint64_t m = i < 0 ? 0 - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  for (; m != 0; m >>= 32) r.words.push_back(static_cast<uint32_t>(m));
  return r;
}

Value from_big(Heap& heap, Big&& b) {
  trim(&b.words);
  if (b.words.size() * 32 > kMaxBits) fail_limit("an integer exceeds " + std::to_string(kMaxBits) + " bits");
  if (b.words.size() <= 2) {
    uint64_t m = 0;
    for (size_t i = b.words.size(); i-- > 0;) m = m << 32 | b.words[i];
    if (!b.negative && m <= static_cast<uint64_t>(INT64_MAX)) return Value::integer(static_cast<int64_t>(m));
    if (b.negative && m <= static_cast<uint64_t>(INT64_MAX) + 1) return Value::integer(static_cast<int64_t>(0 - m));
  }
  uint32_t* words = heap.array<uint32_t>(b.words.size());
  std::copy(b.words.begin(), b.words.end(), words);
  Value v = Value::of(Tag::kBig);
  v.big = heap.make<BigInt>(b.negative, static_cast<uint32_t>(b.words.size()), words);
  return v;
}

int compare_words(const Words& a, const Words& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

Words add_words(const Words& a, const Words& b) {
  Words r(std::max(a.size(), b.size()) + 1);
  uint64_t carry = 0;
  for (size_t i = 0; i < r.size(); ++i) {
    carry += (i < a.size() ? a[i] : 0u) + static_cast<uint64_t>(i < b.size() ? b[i] : 0u);
    r[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  trim(&r);
  return r;
}

Words sub_words(const Words& a, const Words& b) {  // a >= b
  Words r(a.size());
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t d = static_cast<int64_t>(a[i]) - (i < b.size() ? b[i] : 0u) + borrow;
    borrow = d < 0 ? -1 : 0;
    r[i] = static_cast<uint32_t>(d);
  }
  trim(&r);
  return r;
}

Big add_big(const Big& a, const Big& b) {
  if (a.negative == b.negative) return {a.negative, add_words(a.words, b.words)};
  const int order = compare_words(a.words, b.words);
  if (order == 0) return {};
  return order > 0 ? Big{a.negative, sub_words(a.words, b.words)} : Big{b.negative, sub_words(b.words, a.words)};
}

Big mul_big(const Big& a, const Big& b) {
  if ((a.words.size() + b.words.size()) * 32 > 2 * kMaxBits) fail_limit("an integer exceeds the size limit");
  Big r{a.negative != b.negative, Words(a.words.size() + b.words.size())};
  for (size_t i = 0; i < a.words.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.words.size() || carry != 0; ++j) {
      carry += r.words[i + j] + static_cast<uint64_t>(a.words[i]) * (j < b.words.size() ? b.words[j] : 0u);
      r.words[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  trim(&r.words);
  if (r.words.empty()) r.negative = false;
  return r;
}

uint32_t div_small(Words* w, uint32_t by) {  // returns the remainder
  uint64_t rest = 0;
  for (size_t i = w->size(); i-- > 0;) {
    rest = rest << 32 | (*w)[i];
    (*w)[i] = static_cast<uint32_t>(rest / by);
    rest %= by;
  }
  trim(w);
  return static_cast<uint32_t>(rest);
}

// Floor division, bit by bit: sizes are small.
void divide(const Big& a, const Big& b, Big* quotient, Big* rest) {
  Words q(a.words.size()), r;
  for (size_t bit = a.words.size() * 32; bit-- > 0;) {
    uint32_t carry = a.words[bit / 32] >> (bit % 32) & 1;
    for (uint32_t& w : r) {
      const uint32_t next = w >> 31;
      w = w << 1 | carry;
      carry = next;
    }
    if (carry != 0) r.push_back(carry);
    if (compare_words(r, b.words) >= 0) {
      r = sub_words(r, b.words);
      q[bit / 32] |= 1u << (bit % 32);
    }
  }
  trim(&q);
  *quotient = {a.negative != b.negative && !q.empty(), q};
  *rest = {a.negative && !r.empty(), r};
  if (!r.empty() && a.negative != b.negative) {
    *quotient = add_big({true, add_words(q, {1})}, {});
    *rest = add_big(*rest, b);
  }
}

Value pow_int(Heap& heap, const Value& a, const Value& b) {
  if (compare_numbers(b, Value::integer(0)) < 0) {
    if (compare_numbers(a, Value::integer(0)) == 0) {
      fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    }
    return Value::real(std::pow(to_double(a), to_double(b)));
  }
  const Big base = to_big(a);
  const bool unit = base.words.empty() || (base.words.size() == 1 && base.words[0] == 1);
  if (b.tag == Tag::kBig && !unit) fail_limit("an integer exceeds the size limit");
  uint64_t n =
      b.tag == Tag::kBig ? b.big->words[0] & 1 ? 1 : 2 : static_cast<uint64_t>(b.tag == Tag::kBool ? b.b : b.i);
  if (!unit && n > kMaxBits) fail_limit("an integer exceeds the size limit");
  if (unit && n > 2) n = 2 + (n & 1);
  Big r{false, {1}}, x = base;
  for (; n != 0; n >>= 1) {
    if (n & 1) r = mul_big(r, x);
    if (n > 1) x = mul_big(x, x);
  }
  return from_big(heap, std::move(r));
}

Value arith_big(Heap& heap, Arith op, const Value& a, const Value& b) {
  const Big x = to_big(a);
  Big y = to_big(b);
  switch (op) {
    case Arith::kAdd: return from_big(heap, add_big(x, y));
    case Arith::kSub: y.negative = !y.negative && !y.words.empty(); return from_big(heap, add_big(x, y));
    case Arith::kMul: return from_big(heap, mul_big(x, y));
    default: break;
  }
  if (y.words.empty()) fail("ZeroDivisionError", "integer division or modulo by zero");
  Big quotient, rest;
  divide(x, y, &quotient, &rest);
  return from_big(heap, op == Arith::kMod ? std::move(rest) : std::move(quotient));
}

Value arith_float(Arith op, double a, double b) {
  switch (op) {
    case Arith::kAdd: return Value::real(a + b);
    case Arith::kSub: return Value::real(a - b);
    case Arith::kMul: return Value::real(a * b);
    case Arith::kPow:
      if (a == 0 && b < 0) fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
        fail_limit("a fractional power of a negative number is complex, which templates cannot use here");
      }
      if (const double r = std::pow(a, b); std::isfinite(r) || !std::isfinite(a) || !std::isfinite(b)) {
        return Value::real(r);
      }
      fail("OverflowError", "(34, 'Numerical result out of range')");
    default: break;
  }
  if (b == 0) {
    fail("ZeroDivisionError", op == Arith::kMod   ? "float modulo"
                              : op == Arith::kDiv ? "float division by zero"
                                                  : "float floor division by zero");
  }
  if (op == Arith::kDiv) return Value::real(a / b);
  double mod = std::fmod(a, b);
  if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
  if (op == Arith::kMod) return Value::real(mod == 0 ? std::copysign(0.0, b) : mod);
  const double div = (a - mod) / b;
  double floored = std::floor(div);
  if (div - floored > 0.5) floored += 1;
  return Value::real(div == 0 ? std::copysign(0.0, a / b) : floored);
}

// False when the result leaves int64 or the operation needs the general path.
bool arith_small(Arith op, int64_t a, int64_t b, Value* out) {
  int64_t r;
  switch (op) {
    case Arith::kAdd:
      if (__builtin_add_overflow(a, b, &r)) return false;
      break;
    case Arith::kSub:
      if (__builtin_sub_overflow(a, b, &r)) return false;
      break;
    case Arith::kMul:
      if (__builtin_mul_overflow(a, b, &r)) return false;
      break;
    case Arith::kFloorDiv:
    case Arith::kMod: {
      if (b == 0 || (a == INT64_MIN && b == -1)) return false;
      int64_t q = a / b, m = a % b;
      if (m != 0 && (m < 0) != (b < 0)) {
        m += b;
        --q;
      }
      r = op == Arith::kMod ? m : q;
      break;
    }
    default: return false;
  }
  *out = Value::integer(r);
  return true;
}

}  // namespace

Value arith(Heap& heap, Arith op, const Value& a, const Value& b) {
  if (a.tag == Tag::kFloat || b.tag == Tag::kFloat) return arith_float(op, to_double(a), to_double(b));
  if (op == Arith::kDiv) {
    const double y = to_double(b);
    if (y == 0) fail("ZeroDivisionError", "division by zero");
    return Value::real(to_double(a) / y);
  }
  if (op == Arith::kPow) return pow_int(heap, a, b);
  Value out;
  if (a.tag != Tag::kBig && b.tag != Tag::kBig &&
      arith_small(op, a.tag == Tag::kBool ? a.b : a.i, b.tag == Tag::kBool ? b.b : b.i, &out)) {
    return out;
  }
  return arith_big(heap, op, a, b);
}

Value uint64_value(Heap& heap, uint64_t v) {
  return from_big(heap, {false, {static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32)}});
}

Value negate(Heap& heap, const Value& v) {
  if (v.tag == Tag::kFloat) return Value::real(-v.f);
  return arith(heap, Arith::kSub, Value::integer(0), v);
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.tag == Tag::kFloat || b.tag == Tag::kFloat) {
    const double x = to_double(a), y = to_double(b);
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.tag != Tag::kBig && b.tag != Tag::kBig) {
    const int64_t x = a.tag == Tag::kBool ? a.b : a.i, y = b.tag == Tag::kBool ? b.b : b.i;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const Big x = to_big(a), y = to_big(b);
  if (x.negative != y.negative) return x.negative ? -1 : 1;
  return x.negative ? -compare_words(x.words, y.words) : compare_words(x.words, y.words);
}

double to_double(const Value& v) {
  switch (v.tag) {
    case Tag::kBool: return v.b ? 1 : 0;
    case Tag::kInt: return static_cast<double>(v.i);
    case Tag::kFloat: return v.f;
    default: break;
  }
  // Through the decimal text: correctly rounded.
  const std::string text = int_text(v);
  double d = 0;
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), d);
  if (ec == std::errc::result_out_of_range) fail("OverflowError", "int too large to convert to float");
  return d;
}

std::string int_text_base(const Value& v, int base) {
  Big b = to_big(v);
  if (b.words.empty()) return "0";
  std::string digits;
  while (!b.words.empty())
    digits.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[div_small(&b.words, static_cast<uint32_t>(base))]);
  if (b.negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string int_text(const Value& v) {
  if (v.tag == Tag::kInt) return std::to_string(v.i);
  return int_text_base(v, 10);
}

std::string float_repr(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto sci = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(sci.ptr - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  char fixed[400];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, v, std::chars_format::fixed).ptr;
  std::string out(fixed, static_cast<size_t>(end - fixed));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

std::string_view strip_space(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  const char c = static_cast<char>(text[1] | 0x20);
  return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

}  // namespace

bool parse_int(Heap& heap, std::string_view text, int base, Value* out) {
  text = strip_space(text);
  Big r;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    r.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  bool under = false;  // an underscore may follow a prefix
  if (const int prefixed = prefix_base(text); prefixed != 0 && (base == 0 || base == prefixed)) {
    base = prefixed;
    text.remove_prefix(2);
    under = true;
  }
  if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos) return false;
  }
  if (text.empty() || text.size() > kMaxBits) return false;
  for (const char c : text) {
    if (c == '_') {
      if (!under) return false;
      under = false;
      continue;
    }
    const int d = digit_of(c);
    if (d >= base) return false;
    uint64_t carry = static_cast<uint64_t>(d);
    for (uint32_t& w : r.words) {
      carry += static_cast<uint64_t>(w) * static_cast<uint64_t>(base);
      w = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) r.words.push_back(static_cast<uint32_t>(carry));
    under = true;
  }
  if (!under) return false;
  *out = from_big(heap, std::move(r));
  return true;
}

bool parse_float(std::string_view text, double* out) {
  text = strip_space(text);
  std::string clean;
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text.size() > 4096) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  if (lower == "inf" || lower == "infinity") {
    *out = negative ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  if (lower == "nan") {
    *out = std::nan("");
    return true;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      clean.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || digit_of(text[i - 1]) > 9 || digit_of(text[i + 1]) > 9) {
      return false;
    }
  }
  if (clean[0] != '.' && digit_of(clean[0]) > 9) return false;
  double v = 0;
  auto [end, ec] = std::from_chars(clean.data(), clean.data() + clean.size(), v);
  if (end != clean.data() + clean.size() || ec == std::errc::invalid_argument) return false;
  if (ec == std::errc::result_out_of_range) v = std::strtod(clean.c_str(), nullptr);  // 0 or infinity, as Python's
  *out = negative ? -v : v;
  return true;
}

Value float_to_int(Heap& heap, double v) {
  if (std::isnan(v)) fail("ValueError", "cannot convert float NaN to integer");
  if (std::isinf(v)) fail("OverflowError", "cannot convert float infinity to integer");
  v = std::trunc(v);
  if (v >= -9.2e18 && v <= 9.2e18) return Value::integer(static_cast<int64_t>(v));
  Big r{v < 0, {}};
  int exponent;
  const double m = std::frexp(std::fabs(v), &exponent);  // m in [0.5, 1)
  uint64_t bits = static_cast<uint64_t>(std::ldexp(m, 53));
  const int shift = exponent - 53;
  r.words.assign(static_cast<size_t>(shift / 32), 0);
  const unsigned __int128 wide = static_cast<unsigned __int128>(bits) << (shift % 32);
  for (int k = 0; k < 3; ++k) r.words.push_back(static_cast<uint32_t>(wide >> (32 * k)));
  return from_big(heap, std::move(r));
}

}  // namespace bora::text::jinja
