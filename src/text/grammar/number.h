// JSON numbers under limits, decided exactly while they are read.
//
// A number is sign, digits D and a decimal exponent E: D * 10^E. The reader keeps D without leading zeros; whether a
// finished text satisfies the range is exact decimal arithmetic, and whether an unfinished one can still be completed
// is answered by the interval of values that its digits allow. Exponents make every magnitude reachable, so a prefix
// is judged by its leading digits only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bora::text {

// Exact decimal: digits * 10^exponent, digits < 10^19.
struct Decimal {
  bool negative = false;
  uint64_t digits = 0;  // no trailing zeros, except 0 itself
  int32_t exponent = 0;
};
// Shortest decimal that reads back as `value`. REQUIRES: finite
Decimal decimal_of(double value);
Decimal decimal_of(int64_t value);
int compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  std::optional<Decimal> min, max;
  bool open_min = false, open_max = false;  // exclusive
  // The value is a multiple of multiple * 10^scale (scale <= 0); 0 = no such limit. An integer: {1, 0}.
  uint64_t multiple = 0;
  int32_t scale = 0;
  bool operator==(const NumberRange&) const;
};

class NumberReader {
 public:
  // Takes one byte; false (state unspecified) if no number of the range starts with the text so far.
  bool step(char c, const NumberRange& range);
  bool complete(const NumberRange& range) const;
  bool operator==(const NumberReader&) const = default;
  size_t hash() const;

 private:
  enum class Phase : uint8_t { kStart, kMinus, kZero, kInt, kPoint, kFraction, kExp, kExpSign, kExpDigits };
  bool viable(const NumberRange& range) const;
  bool value_viable(const NumberRange& range) const;
  bool exponent_viable(const NumberRange& range) const;

  Phase phase_ = Phase::kStart;
  bool negative_ = false;
  bool exp_negative_ = false;
  uint8_t count_ = 0;  // significant digits kept
  uint8_t exp_count_ = 0;
  int16_t exponent_ = 0;  // of the last kept digit
  int16_t exp_value_ = 0;
  uint64_t digits_ = 0;
};

// Whether any number is in the range.
bool satisfiable(const NumberRange& range);
bool holds(const NumberRange& range, const Decimal& value);

}  // namespace bora::text
