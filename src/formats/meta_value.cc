#include <cstring>
#include <limits>

#include "formats/checkpoint.h"

namespace bora::formats {
namespace {

// Element i of an array of numbers or bools.
template <typename T>
T element(const MetaValue& v, size_t i) {
  T out;
  std::memcpy(&out, v.raw.data() + i * sizeof(T), sizeof(T));
  return out;
}

int64_t signed_element(const MetaValue& v, size_t i) {
  switch (v.element_bytes) {
    case 1:
      return element<int8_t>(v, i);
    case 2:
      return element<int16_t>(v, i);
    case 4:
      return element<int32_t>(v, i);
    default:
      return element<int64_t>(v, i);
  }
}

uint64_t unsigned_element(const MetaValue& v, size_t i) {
  switch (v.element_bytes) {
    case 1:
      return element<uint8_t>(v, i);
    case 2:
      return element<uint16_t>(v, i);
    case 4:
      return element<uint32_t>(v, i);
    default:
      return element<uint64_t>(v, i);
  }
}

}  // namespace

std::optional<int64_t> MetaValue::as_int() const {
  if (type == Type::kInt) return integer;
  if (type == Type::kUint && unsigned_integer <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return static_cast<int64_t>(unsigned_integer);
  }
  return std::nullopt;
}

std::optional<double> MetaValue::as_double() const {
  if (type == Type::kFloat) return number;
  if (type == Type::kInt) return static_cast<double>(integer);
  if (type == Type::kUint) return static_cast<double>(unsigned_integer);
  return std::nullopt;
}

std::optional<std::string_view> MetaValue::as_string() const {
  if (type == Type::kString) return string;
  return std::nullopt;
}

std::optional<bool> MetaValue::as_bool() const {
  if (type == Type::kBool) return boolean;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> MetaValue::as_ints() const {
  if (type != Type::kArray || (element != Type::kInt && element != Type::kUint && element != Type::kBool))
    return std::nullopt;
  std::vector<int64_t> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (element == Type::kInt) {
      out.push_back(signed_element(*this, i));
      continue;
    }
    const uint64_t u = unsigned_element(*this, i);
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    out.push_back(static_cast<int64_t>(u));
  }
  return out;
}

std::optional<std::vector<double>> MetaValue::as_doubles() const {
  if (type != Type::kArray) return std::nullopt;
  if (element == Type::kFloat) {
    std::vector<double> out;
    out.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      out.push_back(element_bytes == 4 ? static_cast<double>(formats::element<float>(*this, i))
                                       : formats::element<double>(*this, i));
    }
    return out;
  }
  auto ints = as_ints();
  if (!ints) return std::nullopt;
  return std::vector<double>(ints->begin(), ints->end());
}

}  // namespace bora::formats
