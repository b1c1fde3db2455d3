// Json: a small value tree for configs, templates, requests and reports.
//
// Parsing is simdjson's (strict RFC 8259, UTF-8 checked); this class only holds the result, so that headers stay
// light and no vendor type crosses a module border. Objects keep their members in the order of the text; a repeated
// key keeps its first place and its last value, as Python's json does. Objects above 16 members are indexed, so
// look-ups never cost a scan that a hostile body could multiply. Integers that fit int64 are kInt, those that fit
// only uint64 or nothing are kDouble. A value is used by one thread at a time; a const value may be shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace bora {

class Json {
 public:
  enum class Type : uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Json() = default;                                     // null
  Json(bool v) : value_(v) {}                           // NOLINT: implicit values read naturally
  Json(int v) : value_(int64_t{v}) {}                   // NOLINT
  Json(int64_t v) : value_(v) {}                        // NOLINT
  Json(double v) : value_(v) {}                         // NOLINT
  Json(std::string v) : value_(std::move(v)) {}         // NOLINT
  Json(std::string_view v) : value_(std::string(v)) {}  // NOLINT
  Json(const char* v) : value_(std::string(v)) {}       // NOLINT
  static Json array(std::vector<Json> items = {});
  static Json object();
  static Json from_uint64(uint64_t v);
  ~Json();
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;

  Type type() const { return is_uint64() ? Type::kDouble : static_cast<Type>(value_.index()); }
  bool is_null() const { return type() == Type::kNull; }
  bool is_bool() const { return type() == Type::kBool; }
  bool is_int() const { return type() == Type::kInt; }
  bool is_double() const { return type() == Type::kDouble; }
  bool is_number() const { return is_int() || is_double(); }
  // An integer above INT64_MAX; also is_double().
  bool is_uint64() const { return std::holds_alternative<uint64_t>(value_); }
  bool is_string() const { return type() == Type::kString; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_object() const { return type() == Type::kObject; }

  // REQUIRES: the type of that name (as_double takes integers too).
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;
  uint64_t as_uint64() const;  // REQUIRES: is_uint64()
  const std::string& as_string() const;
  const std::vector<Json>& items() const;
  std::vector<Json>& items();
  const std::vector<Member>& members() const;

  // Arrays and objects: number of children; 0 for everything else.
  size_t size() const;

  // Member of an object, or null when absent or when this is no object. Valid until the object changes.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  // Replaces or appends. REQUIRES: is_object()
  void set(std::string_view key, Json value);
  // REQUIRES: is_array()
  void push_back(Json value);

  // Deep equality; 1 and 1.0 are equal, as in JSON Schema; member order does not matter.
  bool operator==(const Json& other) const;

  // Compact text, or with `indent` spaces a level. Invalid UTF-8 in strings becomes U+FFFD; doubles print the
  // shortest form that reads back equal ("1.0" keeps its point); NaN and infinities print null.
  std::string dump(int indent = -1) const;
  void dump_to(std::string* out, int indent = -1) const;

  // `text` needs no padding. Depth is limited to 512. The error says what is wrong.
  static Result<Json> parse(std::string_view text);

 private:
  struct Object;
  std::variant<std::monostate, bool, int64_t, double, std::string, std::shared_ptr<std::vector<Json>>,
               std::shared_ptr<Object>,
               uint64_t>
      value_;  // in the order of Type, then the one that shares kDouble
};

// Appends `text` as a JSON string with quotes.
void json_quote(std::string_view text, std::string* out);

}  // namespace bora
