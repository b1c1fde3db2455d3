// Expressions that regex and EBNF share, and their two compiled forms: nodes of a Program (repetitions stay
// counters), or a DFA over code points (for assertions and for intersection, union and complement of patterns).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/program.h"

namespace bora::text {

enum class ExprKind : uint8_t { kEmpty, kClass, kConcat, kAlt, kRepeat, kRule, kAssert };
enum class AssertKind : uint8_t { kStart, kEnd, kWord, kNotWord };

struct Expr {
  ExprKind kind = ExprKind::kEmpty;
  AssertKind assertion = AssertKind::kStart;
  CharClass set;            // kClass
  uint32_t min = 0;         // kRepeat
  uint32_t max = 0;         // kRepeat, kUnbounded = no limit
  uint32_t rule = 0;        // kRule
  std::vector<Expr> parts;  // kConcat, kAlt; kRepeat has one

  static Expr cls(CharClass set);
  static Expr repeat(Expr body, uint32_t min, uint32_t max);
  static Expr concat(std::vector<Expr> parts);
  static Expr alt(std::vector<Expr> parts);
  static Expr assert_at(AssertKind kind);
};

bool has_assert(const Expr& e);
bool nullable(const Expr& e);  // rules count as not nullable

// The start node of `e` followed by `next`. REQUIRES: !has_assert(e). Recursion is as deep as the expression, which
// its parser limits. Errors: a bounded repetition of something that may be empty cannot be simplified.
Result<NodeId> compile_expr(const Expr& e, bool json, NodeId next, ProgramBuilder* out);

struct RegexOptions {
  bool unicode_classes = true;  // \d \w and \b over Unicode (else ASCII, as ECMAScript)
  bool ecma_dot = false;        // "." also excludes \r, U+2028, U+2029
  int32_t depth = 60;
};
// ECMAScript syntax, the regular part. Errors name the position. Lookaround and back references are refused.
Result<Expr> parse_regex(std::string_view pattern, const RegexOptions& options);

// A search pattern as JSON Schema means it: matches anywhere. When its assertions are only outer anchors the result
// has none left; otherwise it keeps them and needs a DFA.
Expr search_expr(Expr e);
// The same for a pattern that has to match the whole text.
Expr whole_expr(Expr e);

}  // namespace bora::text
