// JSON Schema as alternatives of plain constraints.
//
// A schema (or the conjunction of several, or a negation) becomes a list of Alternatives: each is a conjunction of
// constraints without logic. allOf, $ref and siblings multiply lists, anyOf joins them, `not` is pushed inwards,
// if/then/ else is (if and then) or (not if and else). Sub-schemas stay references: they are expanded when the value
// they describe is compiled, so recursion in a schema is never recursion here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/grammar/dfa.h"
#include "text/grammar/grammar.h"
#include "text/grammar/number.h"

namespace bora::text {

struct SchemaRef {
  const Json* node;
  bool negated = false;
  auto operator<=>(const SchemaRef&) const = default;
};
using RefSet = std::vector<SchemaRef>;  // a conjunction; sorted, unique

enum TypeBits : uint8_t { kNull = 1, kBool = 2, kInteger = 4, kFraction = 8, kText = 16, kList = 32, kObject = 64 };
inline constexpr uint8_t kNumeric = kInteger | kFraction;
inline constexpr uint8_t kAllTypes = 127;

struct PatternRef {
  std::string text;
  bool negated = false;
  bool operator==(const PatternRef&) const = default;
};

struct Alternative {
  uint8_t types = kAllTypes;
  NumberRange number;
  uint32_t min_length = 0, max_length = kUnbounded;  // code points
  std::vector<PatternRef> patterns;
  std::vector<std::string> formats;
  std::vector<const Json*> list_layers;  // schemas with items, prefixItems
  uint32_t min_items = 0, max_items = kUnbounded;
  std::vector<const Json*> object_layers;  // schemas with properties, patternProperties, additionalProperties
  std::vector<std::string> required;
  std::vector<std::pair<std::string, SchemaRef>> members;  // constraints on single members, beyond the layers
  RefSet names;                                            // propertyNames
  uint32_t min_members = 0, max_members = kUnbounded;
  std::optional<std::vector<const Json*>> values;  // enum, const
  std::vector<const Json*> excluded;
};
using Alternatives = std::vector<Alternative>;

// Regular expression of a known format, or empty.
std::string_view format_pattern(std::string_view name);

class SchemaModel {
 public:
  SchemaModel(const Json& root, const GrammarLimits& limits);

  // Errors carry the JSON pointer of the keyword they are about.
  Result<Alternatives> expand(const RefSet& refs);
  // Whether a value satisfies the alternative (the validator's view, for enum values and member names).
  Result<bool> admits(const Alternative& alt, const Json& value);
  // The same without the list of values (for a value of that list).
  Result<bool> admits_shape(const Alternative& alt, const Json& value);
  Result<bool> admits(const RefSet& refs, const Json& value);

  // The schemas of element `index` and of member `name`.
  RefSet element_refs(const Alternative& alt, size_t index) const;
  Result<RefSet> member_refs(const Alternative& alt, const std::string& name);
  Result<bool> pattern_matches(const std::string& pattern, const std::string& text);
  Result<Dfa> pattern_dfa(const std::string& pattern);
  // The whole text, unlike pattern_expr, which searches.
  Result<Expr> format_expr(const std::string& name) const;
  Result<Dfa> format_dfa(const std::string& name);
  Result<Expr> pattern_expr(const std::string& pattern) const;

  SchemaRef never() const { return {&false_, false}; }
  Status fail(const Json* node, std::string_view keyword, std::string_view what) const;
  const GrammarLimits& limits() const { return limits_; }

 private:
  using Refs = std::vector<const Json*>;
  Result<Alternatives> expand_one(SchemaRef ref, int depth);
  Result<Alternatives> expand_plain(const Json& s, int depth);
  Result<Alternatives> expand_negated(const Json& s, int depth);
  Status check_keywords(const Json& s) const;
  Status read_simple(const Json& s, Alternative* out);
  Status read_types(const Json& s, Alternative* out);
  Status read_numbers(const Json& s, Alternative* out);
  Status read_counts(const Json& s, Alternative* out);
  Status read_structure(const Json& s, Alternative* out);
  Result<std::optional<uint32_t>> count(const Json& s, std::string_view key) const;
  Result<std::optional<Decimal>> bound(const Json& s, std::string_view key) const;
  Result<const Json*> resolve(const Json& s) const;
  Result<Alternatives> expand_list(const Json& s, std::string_view key, bool negated, int depth);
  Result<Alternatives> expand_one_of(const Json& s, int depth);
  Result<Alternatives> expand_if(const Json& s, bool negated, int depth);
  Status negate_simple(const Json& s, Alternatives* out);
  Status multiply(Alternatives* into, const Alternatives& with, const Json* node) const;
  Result<bool> impossible(const Alternative& alt, int depth);
  Result<bool> admits_object(const Alternative& alt, const Json& value);
  Result<bool> admits_text(const Alternative& alt, const std::string& value);

  const Json& root_;
  GrammarLimits limits_;
  Json true_{true};
  Json false_{false};
  Refs open_refs_;  // $ref targets being expanded in place
  std::vector<std::pair<std::string, Dfa>> pattern_cache_;
};

// The conjunction of two alternatives; nothing if their types, values or bounds exclude each other.
Result<std::optional<Alternative>> merge(const Alternative& a, const Alternative& b);

}  // namespace bora::text
