// Exact decimal comparisons in 128-bit integers; see number.h for the idea.
#include "text/grammar/number.h"

#include <algorithm>
#include <charconv>

namespace bora::text {
namespace {

__extension__ using Int128 = __int128;
constexpr int kMaxDigits = 18;
constexpr int kExpLimit = 999;

// Readers turn numbers into doubles; beyond their range a whole number would no longer count as one.
int max_exp_digits(const NumberRange& range) { return range.multiple == 0 ? 3 : 2; }

int digit_count(uint64_t v) {
  int n = 0;
  for (; v != 0; v /= 10) ++n;
  return n;
}

Int128 pow10(int n) {
  Int128 p = 1;
  for (int i = 0; i < n; ++i) p *= 10;
  return p;
}

// Position of the leading digit: 10^(magnitude-1) <= |v| < 10^magnitude. REQUIRES: v is not 0
int magnitude(uint64_t digits, int exponent) { return digit_count(digits) + exponent; }

int compare_abs(uint64_t a, int ea, uint64_t b, int eb) {
  if (a == 0 || b == 0) return a == b ? 0 : (a == 0 ? -1 : 1);
  int ma = magnitude(a, ea);
  int mb = magnitude(b, eb);
  if (ma != mb) return ma < mb ? -1 : 1;
  // Equal magnitude: the exponents differ by fewer than 20.
  Int128 x = a;
  Int128 y = b;
  if (ea > eb) x *= pow10(ea - eb);
  if (eb > ea) y *= pow10(eb - ea);
  return x == y ? 0 : (x < y ? -1 : 1);
}

bool divisible(uint64_t digits, int exponent, const NumberRange& range) {
  if (range.multiple == 0 || digits == 0) return true;
  int e = exponent - range.scale;
  for (; e < 0; ++e) {
    if (digits % 10 != 0) return false;
    digits /= 10;
  }
  Int128 rest = digits % range.multiple;
  // Every factor 2 and 5 of the divisor is used up after 64 tens.
  for (int i = 0; i < std::min(e, 64) && rest != 0; ++i) rest = rest * 10 % range.multiple;
  return rest == 0;
}

// The absolute values of one sign that the range allows.
struct Interval {
  Decimal lo;  // never negative
  bool lo_open = false;
  std::optional<Decimal> hi;
  bool hi_open = false;
  bool empty = false;
};

Interval interval_of(const NumberRange& range, bool negative) {
  std::optional<Decimal> lo = negative ? range.max : range.min;
  std::optional<Decimal> hi = negative ? range.min : range.max;
  Interval out;
  out.lo_open = negative ? range.open_max : range.open_min;
  out.hi_open = negative ? range.open_min : range.open_max;
  auto flip = [negative](Decimal d) {
    if (negative && d.digits != 0) d.negative = !d.negative;
    return d;
  };
  if (hi) {
    Decimal h = flip(*hi);
    out.hi = h;
    if (h.negative) out.empty = true;
  }
  if (lo && !flip(*lo).negative) {
    out.lo = flip(*lo);
  } else {
    out.lo_open = false;
  }
  if (out.hi) {
    int c = compare(out.lo, *out.hi);
    if (c > 0 || (c == 0 && (out.lo_open || out.hi_open))) out.empty = true;
  }
  return out;
}

// The integers (in units of 10^scale) of an interval; REQUIRES: bounds below 10^36 in those units.
bool integer_bounds(const Interval& in, int scale, Int128* lo, Int128* hi) {
  auto floor_units = [scale](const Decimal& d, bool* exact) {
    int e = d.exponent - scale;
    if (e >= 0) {
      *exact = true;
      return static_cast<Int128>(d.digits) * pow10(std::min(e, 19));
    }
    if (-e > 19) {
      *exact = d.digits == 0;
      return static_cast<Int128>(0);
    }
    Int128 p = pow10(-e);
    *exact = d.digits % p == 0;
    return d.digits / p;
  };
  bool exact = false;
  *lo = floor_units(in.lo, &exact);
  if (!exact || in.lo_open) *lo += 1;
  if (!in.hi) return false;
  *hi = floor_units(*in.hi, &exact);
  if (exact && in.hi_open) *hi -= 1;
  return true;
}

bool has_multiple(Int128 lo, Int128 hi, uint64_t m) { return lo <= hi && (lo + m - 1) / m * m <= hi; }

// A multiple inside [lo, hi] whose leading digits are `prefix` (`count` digits, more digits or none may follow).
bool multiple_with_prefix(Int128 lo, Int128 hi, uint64_t m, uint64_t prefix) {
  int count = digit_count(prefix);
  for (uint64_t p = prefix; p % 10 == 0;) {
    p /= 10;
    if (has_multiple(std::max<Int128>(lo, p), std::min<Int128>(hi, p), m)) return true;
  }
  Int128 scale = 1;
  for (int n = count; n <= 37; ++n, scale *= 10) {
    Int128 first = prefix * scale;
    if (first > hi) break;
    if (has_multiple(std::max(lo, first), std::min(hi, first + scale - 1), m)) return true;
    if (n + 1 - count > 18) break;
  }
  return false;
}

bool real_with_prefix(const Interval& in, uint64_t prefix) {
  if (!in.hi) return true;
  if (in.hi->digits == 0) return false;
  if (in.lo.digits == 0) return true;
  int lo_mag = magnitude(in.lo.digits, in.lo.exponent);
  int hi_mag = magnitude(in.hi->digits, in.hi->exponent);
  int count = digit_count(prefix);
  if (hi_mag - lo_mag >= 2) return true;
  for (int j = lo_mag - count; j <= hi_mag - count; ++j) {
    int below = compare_abs(prefix, j, in.hi->digits, in.hi->exponent);
    bool starts = below < 0 || (below == 0 && !in.hi_open);
    if (starts && compare_abs(prefix + 1, j, in.lo.digits, in.lo.exponent) > 0) return true;
  }
  return false;
}

bool nonempty(const Interval& in, const NumberRange& range) {
  if (in.empty) return false;
  if (range.multiple == 0) return true;
  Int128 lo = 0;
  Int128 hi = 0;
  if (!integer_bounds(in, range.scale, &lo, &hi)) return true;
  return has_multiple(lo, hi, range.multiple);
}

}  // namespace

Decimal decimal_of(double value) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  Decimal d;
  const char* p = text;
  if (*p == '-') {
    d.negative = true;
    ++p;
  }
  int fraction = 0;
  bool point = false;
  for (; p != end && *p != 'e'; ++p) {
    if (*p == '.') {
      point = true;
      continue;
    }
    d.digits = d.digits * 10 + static_cast<uint64_t>(*p - '0');
    fraction += point ? 1 : 0;
  }
  if (p != end) ++p;
  if (p != end && *p == '+') ++p;
  int exponent = 0;
  std::from_chars(p, end, exponent);
  d.exponent = exponent - fraction;
  while (d.digits != 0 && d.digits % 10 == 0) {
    d.digits /= 10;
    ++d.exponent;
  }
  if (d.digits == 0) d = Decimal{};
  return d;
}

Decimal decimal_of(int64_t value) {
  Decimal d;
  d.negative = value < 0;
  d.digits = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  while (d.digits != 0 && d.digits % 10 == 0) {
    d.digits /= 10;
    ++d.exponent;
  }
  return d;
}

int compare(const Decimal& a, const Decimal& b) {
  bool na = a.negative && a.digits != 0;
  bool nb = b.negative && b.digits != 0;
  if (na != nb) return na ? -1 : 1;
  int c = compare_abs(a.digits, a.exponent, b.digits, b.exponent);
  return na ? -c : c;
}

bool NumberRange::operator==(const NumberRange& o) const {
  auto same = [](const std::optional<Decimal>& a, const std::optional<Decimal>& b) {
    return a.has_value() == b.has_value() && (!a || compare(*a, *b) == 0);
  };
  return same(min, o.min) && same(max, o.max) && open_min == o.open_min && open_max == o.open_max &&
         multiple == o.multiple && scale == o.scale;
}

bool holds(const NumberRange& range, const Decimal& value) {
  if (range.min) {
    int c = compare(value, *range.min);
    if (c < 0 || (c == 0 && range.open_min)) return false;
  }
  if (range.max) {
    int c = compare(value, *range.max);
    if (c > 0 || (c == 0 && range.open_max)) return false;
  }
  return divisible(value.digits, value.exponent, range);
}

bool satisfiable(const NumberRange& range) {
  return nonempty(interval_of(range, false), range) || nonempty(interval_of(range, true), range);
}

bool NumberReader::step(char c, const NumberRange& range) {
  bool digit = c >= '0' && c <= '9';
  auto value = static_cast<uint32_t>(c - '0');
  bool integer = phase_ == Phase::kStart || phase_ == Phase::kMinus || phase_ == Phase::kInt;
  bool fraction = phase_ == Phase::kPoint || phase_ == Phase::kFraction;
  bool exponent = phase_ == Phase::kExp || phase_ == Phase::kExpSign || phase_ == Phase::kExpDigits;
  bool ended = phase_ == Phase::kZero || phase_ == Phase::kInt || phase_ == Phase::kFraction;
  if (digit && (integer || fraction)) {
    if (integer && digits_ == 0 && value == 0) {
      phase_ = Phase::kZero;
    } else {
      phase_ = integer ? Phase::kInt : Phase::kFraction;
      if (count_ < kMaxDigits) {
        digits_ = digits_ * 10 + value;
        if (digits_ != 0) ++count_;
        if (fraction) --exponent_;
      } else if (value != 0) {
        return false;
      } else if (integer) {
        ++exponent_;
      }
      if (exponent_ < -400 || exponent_ > 400) return false;
    }
  } else if (digit && exponent) {
    if (exp_count_ == max_exp_digits(range)) return false;
    phase_ = Phase::kExpDigits;
    exp_value_ = static_cast<int16_t>(exp_value_ * 10 + static_cast<int>(value));
    ++exp_count_;
  } else if (c == '-' && phase_ == Phase::kStart) {
    negative_ = true;
    phase_ = Phase::kMinus;
  } else if (c == '.' && (phase_ == Phase::kZero || phase_ == Phase::kInt)) {
    phase_ = Phase::kPoint;
  } else if ((c == 'e' || c == 'E') && ended) {
    phase_ = Phase::kExp;
  } else if ((c == '+' || c == '-') && phase_ == Phase::kExp) {
    exp_negative_ = c == '-';
    phase_ = Phase::kExpSign;
  } else {
    return false;
  }
  return viable(range);
}

bool NumberReader::complete(const NumberRange& range) const {
  bool ended =
      phase_ == Phase::kZero || phase_ == Phase::kInt || phase_ == Phase::kFraction || phase_ == Phase::kExpDigits;
  if (!ended) return false;
  return holds(range, {negative_, digits_, exponent_ + (exp_negative_ ? -exp_value_ : exp_value_)});
}

bool NumberReader::viable(const NumberRange& range) const {
  return phase_ >= Phase::kExp ? exponent_viable(range) : value_viable(range);
}

bool NumberReader::value_viable(const NumberRange& range) const {
  Interval in = interval_of(range, negative_);
  if (!nonempty(in, range)) return false;
  if (digits_ == 0) return true;
  if (range.multiple == 0) return real_with_prefix(in, digits_);
  Int128 lo = 0;
  Int128 hi = 0;
  if (!integer_bounds(in, range.scale, &lo, &hi)) return true;
  return multiple_with_prefix(lo, hi, range.multiple, digits_);
}

bool NumberReader::exponent_viable(const NumberRange& range) const {
  if (digits_ == 0) return holds(range, Decimal{});
  Interval in = interval_of(range, negative_);
  if (in.empty) return false;
  // The exponents that satisfy the range form one interval [first, last].
  int first = -2 * kExpLimit;
  int last = 2 * kExpLimit;
  int count = digit_count(digits_);
  if (in.lo.digits != 0) {
    first = magnitude(in.lo.digits, in.lo.exponent) - count;
    int c = compare_abs(digits_, first, in.lo.digits, in.lo.exponent);
    if (c < 0 || (c == 0 && in.lo_open)) ++first;
  }
  if (in.hi) {
    if (in.hi->digits == 0) return false;
    last = magnitude(in.hi->digits, in.hi->exponent) - count;
    int c = compare_abs(digits_, last, in.hi->digits, in.hi->exponent);
    if (c > 0 || (c == 0 && in.hi_open)) --last;
  }
  if (range.multiple != 0) {
    int j = range.scale - kMaxDigits - 1;
    while (j <= range.scale + 64 && !divisible(digits_, j, range)) ++j;
    if (j > range.scale + 64) return false;
    first = std::max(first, j);
  }
  first -= exponent_;
  last -= exponent_;
  if (first > last) return false;
  auto reach = [&](int lo, int hi, bool negative) {
    return negative ? std::max(first, -hi) <= std::min(last, -lo) : std::max(first, lo) <= std::min(last, hi);
  };
  int exp_digits = max_exp_digits(range);
  int exp_limit = exp_digits == 3 ? kExpLimit : 99;
  if (phase_ == Phase::kExp) return reach(0, exp_limit, false) || reach(0, exp_limit, true);
  int width = 1;
  for (int more = 0; more + exp_count_ <= exp_digits; ++more, width *= 10) {
    if (more + exp_count_ == 0) continue;
    if (reach(exp_value_ * width, exp_value_ * width + width - 1, exp_negative_)) return true;
  }
  return false;
}

size_t NumberReader::hash() const {
  size_t h = digits_ * 0x9E3779B97F4A7C15u;
  h ^= static_cast<size_t>(phase_) << 1 ^ static_cast<size_t>(negative_) << 5 ^
       static_cast<size_t>(exp_negative_) << 6;
  h ^= static_cast<size_t>(static_cast<uint16_t>(exponent_)) << 16 ^ static_cast<size_t>(exp_value_) << 32;
  return h ^ static_cast<size_t>(exp_count_) << 48 ^ static_cast<size_t>(count_) << 52;
}

}  // namespace bora::text
