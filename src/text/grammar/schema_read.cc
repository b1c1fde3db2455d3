// Reading keywords of one schema object, and values against constraints.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/grammar/schema_model.h"

namespace bora::text {
namespace {

constexpr std::string_view kKnown[] = {
    "type", "enum", "const", "nullable", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern", "format", "items", "prefixItems", "minItems", "maxItems", "properties",
    "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties",
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref",
    // Annotations.
    "title", "description", "default", "examples", "example", "$schema", "$id", "id", "$comment", "deprecated",
    "readOnly", "writeOnly", "$defs", "definitions", "$anchor", "contentMediaType", "contentEncoding", "strict",
    "discriminator"};

struct TypeName {
  std::string_view name;
  uint8_t bits;
};
constexpr TypeName kTypes[] = {{"null", kNull},   {"boolean", kBool}, {"integer", kInteger}, {"number", kNumeric},
                               {"string", kText}, {"array", kList},   {"object", kObject}};

uint8_t type_of(const Json& v) {
  if (v.is_null()) return kNull;
  if (v.is_bool()) return kBool;
  if (v.is_int()) return kInteger;
  if (v.is_double()) return std::floor(v.as_double()) == v.as_double() ? kInteger : kFraction;
  if (v.is_string()) return kText;
  return v.is_array() ? kList : kObject;
}

bool finite(const Json& v) { return v.is_int() || (v.is_double() && std::isfinite(v.as_double())); }

Decimal decimal_value(const Json& v) { return v.is_int() ? decimal_of(v.as_int()) : decimal_of(v.as_double()); }

size_t code_points(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool contains(const std::vector<const Json*>& list, const Json& v) {
  return std::any_of(list.begin(), list.end(), [&v](const Json* x) { return *x == v; });
}

template <typename T>
void append_new(std::vector<T>* to, const std::vector<T>& from) {
  for (const T& x : from) {
    if (std::find(to->begin(), to->end(), x) == to->end()) to->push_back(x);
  }
}

// The smallest number that both divide.
Status merge_multiples(NumberRange* a, const NumberRange& b) {
  if (b.multiple == 0) return ok_status();
  if (a->multiple == 0) {
    a->multiple = b.multiple;
    a->scale = b.scale;
    return ok_status();
  }
  __extension__ using Wide = unsigned __int128;
  Wide x = a->multiple;
  Wide y = b.multiple;
  int32_t scale = std::min(a->scale, b.scale);
  for (int32_t s = scale; s < a->scale; ++s) x *= 10;
  for (int32_t s = scale; s < b.scale; ++s) y *= 10;
  Wide u = x;
  Wide v = y;
  while (v != 0) {
    Wide t = u % v;
    u = v;
    v = t;
  }
  Wide lcm = x / u * y;
  while (scale < 0 && lcm % 10 == 0) {
    lcm /= 10;
    ++scale;
  }
  if (lcm > 1000000000000000000u) return invalid_argument("the common multiple of multipleOf is too large");
  a->multiple = static_cast<uint64_t>(lcm);
  a->scale = scale;
  return ok_status();
}

void tighten(NumberRange* a, const NumberRange& b) {
  if (b.min) {
    int c = a->min ? compare(*b.min, *a->min) : 1;
    if (c > 0) a->open_min = b.open_min;
    if (c == 0) a->open_min = a->open_min || b.open_min;
    if (c > 0) a->min = b.min;
  }
  if (b.max) {
    int c = a->max ? compare(*b.max, *a->max) : -1;
    if (c < 0) a->open_max = b.open_max;
    if (c == 0) a->open_max = a->open_max || b.open_max;
    if (c < 0) a->max = b.max;
  }
}

}  // namespace

Result<std::optional<Alternative>> merge(const Alternative& a, const Alternative& b) {
  Alternative out = a;
  out.types = a.types & b.types;
  if (out.types == 0) return std::optional<Alternative>();
  tighten(&out.number, b.number);
  BORA_TRY(merge_multiples(&out.number, b.number));
  out.min_length = std::max(a.min_length, b.min_length);
  out.max_length = std::min(a.max_length, b.max_length);
  append_new(&out.patterns, b.patterns);
  append_new(&out.formats, b.formats);
  append_new(&out.list_layers, b.list_layers);
  out.min_items = std::max(a.min_items, b.min_items);
  out.max_items = std::min(a.max_items, b.max_items);
  append_new(&out.object_layers, b.object_layers);
  append_new(&out.required, b.required);
  append_new(&out.members, b.members);
  append_new(&out.names, b.names);
  out.min_members = std::max(a.min_members, b.min_members);
  out.max_members = std::min(a.max_members, b.max_members);
  append_new(&out.excluded, b.excluded);
  if (a.values && b.values) {
    if (a.values->size() * b.values->size() > 4000000) return invalid_argument("two large enums cannot be combined");
    std::erase_if(*out.values, [&b](const Json* v) { return !contains(*b.values, *v); });
  } else if (b.values) {
    out.values = b.values;
  }
  if (out.values && out.values->empty()) return std::optional<Alternative>();
  return std::optional<Alternative>(std::move(out));
}

Status SchemaModel::check_keywords(const Json& s) const {
  for (const auto& [key, value] : s.members()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown)) continue;
    if (key.starts_with("x-")) continue;
    if (key == "uniqueItems" && value.is_bool() && !value.as_bool()) continue;
    return fail(&s, key, "this keyword is not supported");
  }
  return ok_status();
}

Result<const Json*> SchemaModel::resolve(const Json& s) const {
  const Json* ref = s.find("$ref");
  if (!ref->is_string()) return fail(&s, "$ref", "needs a string");
  std::string_view text = ref->as_string();
  if (text.empty() || text[0] != '#') return fail(&s, "$ref", "only references inside the document are supported");
  text.remove_prefix(1);
  if (!text.empty() && text[0] != '/') return fail(&s, "$ref", "anchors are not supported");
  const Json* at = &root_;
  while (!text.empty()) {
    text.remove_prefix(1);
    size_t end = std::min(text.find('/'), text.size());
    std::string key;
    for (size_t i = 0; i < end; ++i) {
      if (text[i] == '~' && i + 1 < end) {
        key += text[++i] == '1' ? '/' : '~';
      } else if (text[i] == '%' && i + 2 < end) {
        key += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
        i += 2;
      } else {
        key += text[i];
      }
    }
    text.remove_prefix(end);
    const Json* next = at->find(key);
    if (at->is_array() && !key.empty() && key.size() < 9 &&
        key.find_first_not_of("0123456789") == std::string::npos) {
      auto index = static_cast<size_t>(std::stoul(key));
      if (index < at->size()) next = &at->items()[index];
    }
    if (!next) return fail(&s, "$ref", "points at nothing");
    at = next;
  }
  if (std::find(open_refs_.begin(), open_refs_.end(), at) != open_refs_.end()) {
    return fail(&s, "$ref", "refers to itself without a base case");
  }
  return at;
}

Result<std::optional<uint32_t>> SchemaModel::count(const Json& s, std::string_view key) const {
  const Json* v = s.find(key);
  if (!v) return std::optional<uint32_t>();
  bool whole = v->is_int() || (v->is_double() && std::floor(v->as_double()) == v->as_double());
  if (!whole || v->as_double() < 0) return fail(&s, key, "needs an integer that is not negative");
  return std::optional<uint32_t>(static_cast<uint32_t>(std::min(v->as_double(), double{kMaxCount} + 1)));
}

Result<std::optional<Decimal>> SchemaModel::bound(const Json& s, std::string_view key) const {
  const Json* v = s.find(key);
  if (!v) return std::optional<Decimal>();
  if (!v->is_number() || !finite(*v)) return fail(&s, key, "needs a number");
  Decimal d = decimal_value(*v);
  if (d.digits >= 10000000000000000000u || std::abs(v->as_double()) > 1e15) {
    if (std::abs(v->as_double()) > 1e18) return fail(&s, key, "bounds beyond 10^18 are not supported");
  }
  return std::optional<Decimal>(d);
}

Status SchemaModel::read_types(const Json& s, Alternative* out) {
  const Json* type = s.find("type");
  if (!type) return ok_status();
  std::vector<const Json*> names;
  if (type->is_array()) {
    for (const Json& t : type->items()) names.push_back(&t);
  } else {
    names.push_back(type);
  }
  uint8_t bits = 0;
  for (const Json* name : names) {
    auto it = std::find_if(std::begin(kTypes), std::end(kTypes),
                           [name](const TypeName& t) { return name->is_string() && t.name == name->as_string(); });
    if (it == std::end(kTypes)) return fail(&s, "type", "unknown type");
    bits |= it->bits;
  }
  if (bits == 0) return fail(&s, "type", "needs at least one type");
  const Json* nullable_key = s.find("nullable");
  if (nullable_key && nullable_key->is_bool() && nullable_key->as_bool()) bits |= kNull;
  out->types = bits;
  return ok_status();
}

Status SchemaModel::read_numbers(const Json& s, Alternative* out) {
  struct Keyword {
    std::string_view name;
    bool upper;
    bool open;
  };
  static constexpr Keyword kBounds[] = {{"minimum", false, false},
                                        {"exclusiveMinimum", false, true},
                                        {"maximum", true, false},
                                        {"exclusiveMaximum", true, true}};
  for (const Keyword& k : kBounds) {
    BORA_ASSIGN(std::optional<Decimal> d, bound(s, k.name));
    if (!d) continue;
    NumberRange r;
    (k.upper ? r.max : r.min) = d;
    (k.upper ? r.open_max : r.open_min) = k.open;
    tighten(&out->number, r);
  }
  const Json* m = s.find("multipleOf");
  if (!m) return ok_status();
  if (!m->is_number() || !finite(*m) || m->as_double() <= 0) return fail(&s, "multipleOf", "needs a number above 0");
  NumberRange r;
  if (m->as_double() > 1e15) return fail(&s, "multipleOf", "above 10^15 is not supported");
  Decimal d = decimal_value(*m);
  r.multiple = d.digits;
  for (; d.exponent > 0; --d.exponent) r.multiple *= 10;
  r.scale = d.exponent;
  // Binary floating point divides exactly by powers of two only; elsewhere validators disagree with arithmetic.
  double scaled = m->as_double() * 1048576.0;
  if (r.scale < 0 && (r.scale < -15 || scaled != std::floor(scaled))) {
    return fail(&s, "multipleOf", "fractions that are not a multiple of a power of 1/2 are not supported");
  }
  Status merged = merge_multiples(&out->number, r);
  return merged.ok() ? ok_status() : fail(&s, "multipleOf", merged.message());
}

Status SchemaModel::read_counts(const Json& s, Alternative* out) {
  struct Keyword {
    std::string_view name;
    uint32_t Alternative::*min;
    uint32_t Alternative::*max;
  };
  static constexpr Keyword kCounts[] = {
      {"minLength", &Alternative::min_length, nullptr},      {"maxLength", nullptr, &Alternative::max_length},
      {"minItems", &Alternative::min_items, nullptr},        {"maxItems", nullptr, &Alternative::max_items},
      {"minProperties", &Alternative::min_members, nullptr}, {"maxProperties", nullptr, &Alternative::max_members}};
  for (const Keyword& k : kCounts) {
    BORA_ASSIGN(std::optional<uint32_t> v, count(s, k.name));
    if (!v) continue;
    if (k.min && *v > kMaxCount) return fail(&s, k.name, "is too large");
    if (k.min) out->*k.min = *v;
    if (k.max) out->*k.max = *v > kMaxCount ? kUnbounded : *v;
  }
  return ok_status();
}

Status SchemaModel::read_structure(const Json& s, Alternative* out) {
  auto need_object = [&](std::string_view key) -> Status {
    const Json* v = s.find(key);
    return !v || v->is_object() ? ok_status() : fail(&s, key, "needs an object");
  };
  BORA_TRY(need_object("properties"));
  BORA_TRY(need_object("patternProperties"));
  const Json* prefix = s.find("prefixItems");
  if (prefix && !prefix->is_array()) return fail(&s, "prefixItems", "needs a list");
  const Json* items = s.find("items");
  if (items && items->is_array()) return fail(&s, "items", "a list is not supported: use prefixItems");
  if (items || prefix) out->list_layers.push_back(&s);
  if (s.find("properties") || s.find("patternProperties") || s.find("additionalProperties")) {
    out->object_layers.push_back(&s);
  }
  if (const Json* required = s.find("required")) {
    if (!required->is_array()) return fail(&s, "required", "needs a list of names");
    for (const Json& name : required->items()) {
      if (!name.is_string()) return fail(&s, "required", "needs a list of names");
      append_new(&out->required, {name.as_string()});
    }
  }
  if (const Json* names = s.find("propertyNames")) out->names.push_back({names, false});
  return ok_status();
}

Status SchemaModel::read_simple(const Json& s, Alternative* out) {
  BORA_TRY(read_types(s, out));
  BORA_TRY(read_numbers(s, out));
  BORA_TRY(read_counts(s, out));
  BORA_TRY(read_structure(s, out));
  if (const Json* p = s.find("pattern")) {
    if (!p->is_string()) return fail(&s, "pattern", "needs a string");
    auto e = pattern_expr(p->as_string());
    if (!e.ok()) return fail(&s, "pattern", e.status().message());
    out->patterns.push_back({p->as_string(), false});
  }
  if (const Json* f = s.find("format")) {
    if (!f->is_string()) return fail(&s, "format", "needs a string");
    if (format_pattern(f->as_string()).empty()) return fail(&s, "format", "this format is not supported");
    out->formats.push_back(f->as_string());
  }
  if (const Json* c = s.find("const")) out->values = std::vector<const Json*>{c};
  if (const Json* e = s.find("enum")) {
    if (!e->is_array() || e->size() == 0) return fail(&s, "enum", "needs a list of values");
    std::vector<const Json*> values;
    for (const Json& v : e->items()) {
      if (!out->values || contains(*out->values, v)) values.push_back(&v);
    }
    if (values.empty()) out->types = 0;
    out->values = std::move(values);
  }
  return ok_status();
}

Result<Expr> SchemaModel::format_expr(const std::string& name) const {
  RegexOptions options;
  options.unicode_classes = false;
  return parse_regex(format_pattern(name), options);
}

Result<Dfa> SchemaModel::format_dfa(const std::string& name) {
  BORA_ASSIGN(Expr e, format_expr(name));
  return Dfa::from_expr(e, false);
}

Result<Expr> SchemaModel::pattern_expr(const std::string& pattern) const {
  RegexOptions options;
  options.unicode_classes = false;
  options.ecma_dot = true;
  options.depth = limits_.depth;
  BORA_ASSIGN(Expr e, parse_regex(pattern, options));
  return search_expr(std::move(e));
}

Result<Dfa> SchemaModel::pattern_dfa(const std::string& pattern) {
  for (const auto& [text, dfa] : pattern_cache_) {
    if (text == pattern) return dfa;
  }
  BORA_ASSIGN(Expr e, pattern_expr(pattern));
  BORA_ASSIGN(Dfa dfa, Dfa::from_expr(e, false));
  pattern_cache_.emplace_back(pattern, dfa);
  return dfa;
}

Result<bool> SchemaModel::pattern_matches(const std::string& pattern, const std::string& text) {
  BORA_ASSIGN(Dfa dfa, pattern_dfa(pattern));
  return dfa.matches(text);
}

Result<bool> SchemaModel::admits_text(const Alternative& alt, const std::string& value) {
  size_t length = code_points(value);
  if (length < alt.min_length || length > alt.max_length) return false;
  for (const PatternRef& p : alt.patterns) {
    BORA_ASSIGN(bool match, pattern_matches(p.text, value));
    if (match == p.negated) return false;
  }
  for (const std::string& f : alt.formats) {
    BORA_ASSIGN(Dfa dfa, format_dfa(f));
    if (!dfa.matches(value)) return false;
  }
  return true;
}

Result<bool> SchemaModel::admits_object(const Alternative& alt, const Json& value) {
  if (value.size() < alt.min_members || value.size() > alt.max_members) return false;
  for (const std::string& name : alt.required) {
    if (!value.find(name)) return false;
  }
  for (const auto& [name, member] : value.members()) {
    BORA_ASSIGN(RefSet refs, member_refs(alt, name));
    BORA_ASSIGN(bool ok, admits(refs, member));
    if (!ok) return false;
  }
  return true;
}

Result<bool> SchemaModel::admits(const Alternative& alt, const Json& value) {
  if (alt.values && !contains(*alt.values, value)) return false;
  return admits_shape(alt, value);
}

Result<bool> SchemaModel::admits_shape(const Alternative& alt, const Json& value) {
  uint8_t type = type_of(value);
  if ((alt.types & type) == 0 || contains(alt.excluded, value)) return false;
  if (value.is_number()) return finite(value) && holds(alt.number, decimal_value(value));
  if (value.is_string()) return admits_text(alt, value.as_string());
  if (value.is_object()) return admits_object(alt, value);
  if (!value.is_array()) return true;
  if (value.size() < alt.min_items || value.size() > alt.max_items) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    BORA_ASSIGN(bool ok, admits(element_refs(alt, i), value.items()[i]));
    if (!ok) return false;
  }
  return true;
}

Result<bool> SchemaModel::admits(const RefSet& refs, const Json& value) {
  if (refs.empty()) return true;
  BORA_ASSIGN(Alternatives alts, expand(refs));
  for (const Alternative& a : alts) {
    BORA_ASSIGN(bool ok, admits(a, value));
    if (ok) return true;
  }
  return false;
}

}  // namespace bora::text
