// Expressions to nodes.
#include "text/grammar/expr.h"

#include <algorithm>

namespace bora::text {

Expr Expr::cls(CharClass set) {
  Expr e;
  e.kind = ExprKind::kClass;
  e.set = std::move(set);
  return e;
}

Expr Expr::repeat(Expr body, uint32_t min, uint32_t max) {
  Expr e;
  e.kind = ExprKind::kRepeat;
  e.min = min;
  e.max = max;
  e.parts.push_back(std::move(body));
  return e;
}

Expr Expr::concat(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Expr e;
  if (parts.empty()) return e;
  e.kind = ExprKind::kConcat;
  e.parts = std::move(parts);
  return e;
}

Expr Expr::alt(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Expr e;
  e.kind = ExprKind::kAlt;
  e.parts = std::move(parts);
  return e;
}

Expr Expr::assert_at(AssertKind kind) {
  Expr e;
  e.kind = ExprKind::kAssert;
  e.assertion = kind;
  return e;
}

bool has_assert(const Expr& e) {
  if (e.kind == ExprKind::kAssert) return true;
  return std::any_of(e.parts.begin(), e.parts.end(), has_assert);
}

bool nullable(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kClass:
    case ExprKind::kRule:
      return false;
    case ExprKind::kConcat:
      return std::all_of(e.parts.begin(), e.parts.end(), nullable);
    case ExprKind::kAlt:
      return std::any_of(e.parts.begin(), e.parts.end(), nullable);
    case ExprKind::kRepeat:
      return e.min == 0 || nullable(e.parts[0]);
    default:
      return true;
  }
}

namespace {

// (x?){m,n}, (x*){m,n} and the like: the same language with a body that consumes, or unchanged.
Expr simplify_repeat(Expr e) {
  while (nullable(e.parts[0])) {
    Expr& body = e.parts[0];
    e.min = 0;
    if (body.kind == ExprKind::kEmpty) return Expr{};
    if (body.kind == ExprKind::kRepeat && body.min == 0 && !nullable(body.parts[0])) {
      if (body.max == kUnbounded) e.max = kUnbounded;
      if (body.max != 1 && body.max != kUnbounded) break;
      Expr inner = std::move(body.parts[0]);
      e.parts[0] = std::move(inner);
      continue;
    }
    if (body.kind == ExprKind::kAlt) {
      size_t before = body.parts.size();
      std::erase_if(body.parts, [](const Expr& p) { return p.kind == ExprKind::kEmpty; });
      if (body.parts.size() == 1) {
        Expr inner = std::move(body.parts[0]);
        e.parts[0] = std::move(inner);
        continue;
      }
      if (body.parts.size() != before) continue;
    }
    break;
  }
  return e;
}

Result<NodeId> compile_repeat(const Expr& original, bool json, NodeId next, ProgramBuilder* out) {
  Expr e = simplify_repeat(original);
  if (e.kind == ExprKind::kEmpty || e.max == 0) return next;
  const Expr& body = e.parts[0];
  if (e.min == 0 && e.max == 1) {
    BORA_ASSIGN(NodeId start, compile_expr(body, json, next, out));
    return out->split({start, next});
  }
  if (e.min <= 1 && e.max == kUnbounded) {
    NodeId loop = out->reserve();
    BORA_ASSIGN(NodeId start, compile_expr(body, json, loop, out));
    out->set_split(loop, {start, next});
    return e.min == 0 ? loop : start;
  }
  if (nullable(body) && e.max != kUnbounded && e.max > 256) {
    return invalid_argument("a repetition above 256 of something that may be empty is not supported");
  }
  RuleId rule = out->new_rule();
  BORA_ASSIGN(NodeId start, compile_expr(body, json, out->ret(), out));
  out->set_rule(rule, start);
  return out->repeat(rule, e.min, e.max, next);
}

bool is_any(const Expr& e) { return e.kind == ExprKind::kClass && e.set == CharClass::any(); }

// Whether e starts (ends) with the assertion in every branch without other assertions.
bool strip(Expr* e, AssertKind kind, bool front) {
  if (e->kind == ExprKind::kAssert && e->assertion == kind) {
    *e = Expr{};
    return true;
  }
  if (e->kind != ExprKind::kConcat || e->parts.empty()) return false;
  return strip(front ? &e->parts.front() : &e->parts.back(), kind, front);
}

}  // namespace

Result<NodeId> compile_expr(const Expr& e, bool json, NodeId next, ProgramBuilder* out) {
  switch (e.kind) {
    case ExprKind::kEmpty:
      return next;
    case ExprKind::kClass:
      return out->cls(e.set, json, next);
    case ExprKind::kConcat:
      for (size_t i = e.parts.size(); i-- > 0;) {
        BORA_ASSIGN(next, compile_expr(e.parts[i], json, next, out));
      }
      return next;
    case ExprKind::kAlt: {
      std::vector<NodeId> options;
      for (const Expr& p : e.parts) {
        BORA_ASSIGN(NodeId start, compile_expr(p, json, next, out));
        options.push_back(start);
      }
      return out->split(std::move(options));
    }
    case ExprKind::kRepeat:
      // A free tail of a JSON string has masks of its own; its only exit is the closing quote.
      if (json && is_any(e.parts[0]) && out->is_quote(next)) return out->string_body(e.min, e.max, next);
      return compile_repeat(e, json, next, out);
    case ExprKind::kRule:
      return out->call(e.rule, next);
    case ExprKind::kAssert:
      break;
  }
  return internal_error("assertion in a compiled expression");
}

Expr search_expr(Expr e) {
  if (e.kind == ExprKind::kAlt && has_assert(e)) {
    // Each branch has its own anchors.
    std::vector<Expr> parts;
    for (Expr& p : e.parts) parts.push_back(search_expr(std::move(p)));
    return Expr::alt(std::move(parts));
  }
  Expr stripped = e;
  bool start = strip(&stripped, AssertKind::kStart, true);
  bool end = strip(&stripped, AssertKind::kEnd, false);
  auto any = [] { return Expr::repeat(Expr::cls(CharClass::any()), 0, kUnbounded); };
  std::vector<Expr> parts;
  if (has_assert(stripped)) {
    parts.push_back(any());
    parts.push_back(std::move(e));
    parts.push_back(any());
    return Expr::concat(std::move(parts));
  }
  if (!start) parts.push_back(any());
  parts.push_back(std::move(stripped));
  // The reference validator's "$" also matches before a last line feed; a text it accepts is accepted here.
  parts.push_back(end ? Expr::repeat(Expr::cls(CharClass::single('\n')), 0, 1) : any());
  return Expr::concat(std::move(parts));
}

Expr whole_expr(Expr e) {
  Expr stripped = e;
  strip(&stripped, AssertKind::kStart, true);
  strip(&stripped, AssertKind::kEnd, false);
  return has_assert(stripped) ? e : stripped;
}

}  // namespace bora::text
