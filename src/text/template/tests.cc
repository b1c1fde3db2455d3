// The tests of Jinja2 ("x is defined"), one record each.
#include <algorithm>

#include "text/template/interp.h"
#include "text/template/unicode.h"

namespace bora::text::jinja {

namespace {

const Value& arg(const Args& args, size_t i) {
  if (i >= args.pos.size()) fail("TypeError", "a test is missing an argument");
  return args.pos[i];
}

template <Compare op>
bool compares(Interp& in, const Args& args) {
  return in.compare(op, arg(args, 0), arg(args, 1));
}

template <int64_t want>
bool parity(Interp& in, const Args& args) {
  return in.same(in.binary(Arith::kMod, arg(args, 0), Value::integer(2)), Value::integer(want));
}

bool divisible(Interp& in, const Args& args) {
  const auto a = in.bound(args, "test_divisibleby", std::array<std::string_view, 2>{"value", "num"}, 2);
  return in.same(in.binary(Arith::kMod, a[0], a[1]), Value::integer(0));
}

// A name to look up; what cannot be a key is an error, as in a Python dict.
std::string_view name_arg(const Args& args) {
  const Value& v = arg(args, 0);
  if (!hashable(v)) fail("TypeError", "unhashable type: '" + std::string(type_name(v)) + "'");
  return v.is_str() ? v.s->view() : std::string_view();
}

template <Tag tag>
bool has_tag(Interp&, const Args& args) {
  return arg(args, 0).tag == tag;
}

template <bool want>
bool is_bool(Interp&, const Args& args) {
  return arg(args, 0).tag == Tag::kBool && args.pos[0].b == want;
}

bool sequence(Interp&, const Args& args) {
  switch (arg(args, 0).tag) {
    case Tag::kStr:
    case Tag::kList:
    case Tag::kTuple:
    case Tag::kDict:
    case Tag::kRange:
    case Tag::kUndefined: return true;
    default: return false;
  }
}

bool callable(Interp&, const Args& args) {
  switch (arg(args, 0).tag) {
    case Tag::kBuiltin:
    case Tag::kMethod:
    case Tag::kMacro:
    case Tag::kLoop:
    case Tag::kJoiner:
    case Tag::kUndefined: return true;
    default: return false;
  }
}

bool same_as(Interp& in, const Args& args) {
  const Value &a = arg(args, 0), &b = arg(args, 1);
  if (a.tag != b.tag) return false;
  switch (a.tag) {
    case Tag::kNone: return true;
    case Tag::kBool: return a.b == b.b;
    case Tag::kInt: return a.i == b.i && a.i >= -5 && a.i <= 256;  // what Python shares
    case Tag::kStr: return a.s == b.s || (a.s->size <= 1 && in.same(a, b));
    default: return a.i == b.i;
  }
}

template <bool (*wanted)(uint32_t), bool (*refused)(uint32_t)>
bool cased(Interp& in, const Args& args) {
  const Str* s = in.to_str(arg(args, 0));
  bool any = false;
  for (size_t i = 0; i < s->size;) {
    size_t n;
    const uint32_t c = decode(s->view(), i, &n);
    if (refused(c) || is_title(c)) return false;
    any = any || wanted(c);
    i += n;
  }
  return any;
}

constexpr Test kTests[] = {
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible},
    {"defined", [](Interp&, const Args& a) { return !arg(a, 0).is_undefined(); }},
    {"undefined", has_tag<Tag::kUndefined>},
    {"filter", [](Interp&, const Args& a) { return find_filter(name_arg(a)) != nullptr; }},
    {"test", [](Interp&, const Args& a) { return find_test(name_arg(a)) != nullptr; }},
    {"none", has_tag<Tag::kNone>},
    {"boolean", has_tag<Tag::kBool>},
    {"false", is_bool<false>},
    {"true", is_bool<true>},
    {"integer", [](Interp&, const Args& a) { return arg(a, 0).tag == Tag::kInt || a.pos[0].tag == Tag::kBig; }},
    {"float", has_tag<Tag::kFloat>},
    {"lower", cased<is_lower, is_upper>},
    {"upper", cased<is_upper, is_lower>},
    {"string", has_tag<Tag::kStr>},
    {"mapping", has_tag<Tag::kDict>},
    {"number", [](Interp&, const Args& a) { return arg(a, 0).is_number(); }},
    {"sequence", sequence},
    {"iterable", [](Interp& in, const Args& a) { return in.iterable(arg(a, 0)); }},
    {"callable", callable},
    {"sameas", same_as},
    {"escaped", [](Interp&, const Args& a) { return arg(a, 0).is_str() && a.pos[0].s->markup; }},
    {"in", [](Interp& in, const Args& a) { return in.contains(arg(a, 0), arg(a, 1)); }},
    {"==", compares<Compare::kEq>},
    {"eq", compares<Compare::kEq>},
    {"equalto", compares<Compare::kEq>},
    {"!=", compares<Compare::kNe>},
    {"ne", compares<Compare::kNe>},
    {">", compares<Compare::kGt>},
    {"gt", compares<Compare::kGt>},
    {"greaterthan", compares<Compare::kGt>},
    {"ge", compares<Compare::kGe>},
    {">=", compares<Compare::kGe>},
    {"<", compares<Compare::kLt>},
    {"lt", compares<Compare::kLt>},
    {"lessthan", compares<Compare::kLt>},
    {"<=", compares<Compare::kLe>},
    {"le", compares<Compare::kLe>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* at = std::find_if(std::begin(kTests), std::end(kTests), [&](const Test& t) { return t.name == name; });
  return at == std::end(kTests) ? nullptr : at;
}

}  // namespace bora::text::jinja
