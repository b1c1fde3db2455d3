// Fields of the JSON objects in a tokenizer.json, with errors that name the field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace bora::text {

inline Status wrong_field(std::string_view key, std::string_view want) {
  return invalid_argument("field \"" + std::string(key) + "\" must be " + std::string(want));
}

inline Result<std::string> string_field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  if (!v || !v->is_string()) return wrong_field(key, "a string");
  return v->as_string();
}

// Null and absent give `fallback`; without a fallback the field is needed.
inline Result<bool> bool_field(const Json& object, std::string_view key, std::optional<bool> fallback) {
  const Json* v = object.find(key);
  if (!v || v->is_null()) {
    if (!fallback) return wrong_field(key, "true or false");
    return *fallback;
  }
  if (!v->is_bool()) return wrong_field(key, "true or false");
  return v->as_bool();
}

inline Result<std::optional<std::string>> optional_string_field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  if (!v || v->is_null()) return std::optional<std::string>();
  if (!v->is_string()) return wrong_field(key, "a string or null");
  return std::optional<std::string>(v->as_string());
}

inline Result<int64_t> int_field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  if (!v || !v->is_int()) return wrong_field(key, "an integer");
  return v->as_int();
}

inline Result<const Json*> array_field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  if (!v || !v->is_array()) return wrong_field(key, "an array");
  return v;
}

// {"String": text} or {"Regex": text}
struct PatternSpec {
  std::string text;
  bool is_regex = false;
};
inline Result<PatternSpec> pattern_field(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  if (v && v->is_object() && v->size() == 1) {
    const auto& [kind, text] = v->members()[0];
    if (text.is_string() && (kind == "String" || kind == "Regex"))
      return PatternSpec{text.as_string(), kind == "Regex"};
  }
  return wrong_field(key, "{\"String\": text} or {\"Regex\": text}");
}

}  // namespace bora::text
