// Numbers of the template language: Python's int without bound (within reason) and float.
//
// Small integers are int64_t; whatever leaves that range becomes a BigInt of at most kMaxBits bits, enough for what a
// template can mean and too small to be a weapon.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace bora::text::jinja {

inline constexpr size_t kMaxBits = 4096;

// Sign and magnitude, little-endian words without leading zeros; words live in the heap.
struct BigInt {
  bool negative = false;
  uint32_t size = 0;
  const uint32_t* words = nullptr;
};

enum class Arith : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };

// Both operands are numbers. Errors as Python's.
Value arith(Heap& heap, Arith op, const Value& a, const Value& b);
Value uint64_value(Heap& heap, uint64_t v);
Value negate(Heap& heap, const Value& v);

// -1, 0, 1; 2 when not comparable (NaN).
int compare_numbers(const Value& a, const Value& b);
double to_double(const Value& v);

std::string int_text(const Value& v);                 // kInt, kBool (as 0 or 1) or kBig
std::string int_text_base(const Value& v, int base);  // lower-case digits, no prefix
std::string float_repr(double v);                     // Python's repr
// Decimal or prefixed text with base 0, or digits of `base`; false when malformed. Underscores as Python allows.
bool parse_int(Heap& heap, std::string_view text, int base, Value* out);
bool parse_float(std::string_view text, double* out);
// A float's integral value, truncated; error for NaN and infinities.
Value float_to_int(Heap& heap, double v);

}  // namespace bora::text::jinja
