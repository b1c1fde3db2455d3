// Operators, look-ups and iteration, with Python's rules and messages.
#include <algorithm>
#include <cmath>

#include "text/template/interp.h"

namespace bora::text::jinja {

std::string_view type_name(const Value& v) {
  switch (v.tag) {
    case Tag::kUndefined: return "Undefined";
    case Tag::kNone: return "NoneType";
    case Tag::kBool: return "bool";
    case Tag::kInt:
    case Tag::kBig: return "int";
    case Tag::kFloat: return "float";
    case Tag::kStr: return v.s->markup ? "Markup" : "str";
    case Tag::kList: return "list";
    case Tag::kTuple: return "tuple";
    case Tag::kDict: return "dict";
    case Tag::kRange: return "range";
    case Tag::kView:
      return v.dict_view->kind == View::Kind::kKeys     ? "dict_keys"
             : v.dict_view->kind == View::Kind::kValues ? "dict_values"
                                                        : "dict_items";
    case Tag::kIter: return "generator";
    case Tag::kNamespace: return "TemplateNamespace";
    case Tag::kMacro: return "Macro";
    case Tag::kLoop: return "LoopContext";
    case Tag::kCycler: return "Cycler";
    case Tag::kJoiner: return "Joiner";
    case Tag::kBuiltin: return "function";
    case Tag::kMethod: return "builtin_function_or_method";
    case Tag::kSelf: return "TemplateReference";
    case Tag::kMissing: break;
  }
  return "missing";
}

std::string object_name(const Value& v) {
  if (v.is_none()) return "None";
  return std::string(type_name(v)) + " object";
}

const Str* Interp::need_str(const Value& v, std::string_view what) {
  need_defined(v);
  if (!v.is_str()) fail("TypeError", std::string(what) + " must be str, not " + std::string(type_name(v)));
  return v.s;
}

int64_t Interp::need_int(const Value& v) {
  need_defined(v);
  if (v.tag == Tag::kInt) return v.i;
  if (v.tag == Tag::kBool) return v.b;
  if (v.tag == Tag::kBig) fail("OverflowError", "Python int too large to convert to C ssize_t");
  fail("TypeError", "'" + std::string(type_name(v)) + "' object cannot be interpreted as an integer");
}

bool Interp::truth(const Value& v) {
  switch (v.tag) {
    case Tag::kMissing:
    case Tag::kUndefined:
    case Tag::kNone: return false;
    case Tag::kBool: return v.b;
    case Tag::kInt: return v.i != 0;
    case Tag::kFloat: return v.f != 0;
    case Tag::kStr: return v.s->size > 0;
    case Tag::kList:
    case Tag::kTuple: return v.list->size > 0;
    case Tag::kDict: return v.dict->size > 0;
    case Tag::kRange: return v.range->size() > 0;
    case Tag::kView: return v.dict_view->dict->size > 0;
    case Tag::kLoop: return loop_length(v.loop) > 0;
    default: return true;
  }
}

bool Interp::same(const Value& a, const Value& b) {
  int64_t budget = steps_;
  const int64_t before = budget;
  const bool result = equal(a, b, &budget);
  tick(before - budget);
  return result;
}

namespace {

[[noreturn]] void not_ordered(std::string_view op, const Value& a, const Value& b) {
  fail("TypeError", "'" + std::string(op) + "' not supported between instances of '" + std::string(type_name(a)) +
                        "' and '" + std::string(type_name(b)) + "'");
}

// Three-way order of a and b: -1, 0, 1, or 2 when unordered (NaN).
int order(Interp& in, std::string_view op, const Value& a, const Value& b) {
  in.need_defined(a);
  in.need_defined(b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_str() && b.is_str()) {
    const int c = a.s->view().compare(b.s->view());
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  if (a.tag == b.tag && a.is_seq()) {
    const Interp::Deeper deeper(in);
    const uint32_t n = std::min(a.list->size, b.list->size);
    for (uint32_t i = 0; i < n; ++i) {
      in.tick();
      if (!in.same(a.list->items[i], b.list->items[i])) return order(in, op, a.list->items[i], b.list->items[i]);
    }
    return a.list->size < b.list->size ? -1 : a.list->size > b.list->size ? 1 : 0;
  }
  not_ordered(op, a, b);
}

}  // namespace

bool Interp::less(const Value& a, const Value& b) { return order(*this, "<", a, b) == -1; }

bool Interp::compare(Compare op, const Value& a, const Value& b) {
  switch (op) {
    case Compare::kEq: return same(a, b);
    case Compare::kNe: return !same(a, b);
    case Compare::kLt: return order(*this, "<", a, b) == -1;
    case Compare::kGt: return order(*this, ">", a, b) == 1;
    case Compare::kLe: {
      const int c = order(*this, "<=", a, b);
      return c == -1 || c == 0;
    }
    case Compare::kGe: {
      const int c = order(*this, ">=", a, b);
      return c == 1 || c == 0;
    }
    case Compare::kIn: return contains(a, b);
    case Compare::kNotIn: return !contains(a, b);
  }
  return false;
}

bool Interp::contains(const Value& item, const Value& in) {
  if (in.is_str()) {
    if (!item.is_str()) {
      fail("TypeError", "'in <string>' requires string as left operand, not " + std::string(type_name(item)));
    }
    tick(in.s->size / 64);
    return in.s->view().find(item.s->view()) != std::string_view::npos;
  }
  if (in.is_dict() || (in.tag == Tag::kView && in.dict_view->kind == View::Kind::kKeys)) {
    if (!hashable(item)) fail("TypeError", "unhashable type: '" + std::string(type_name(item)) + "'");
    return (in.is_dict() ? in.dict : in.dict_view->dict)->find(item) != nullptr;
  }
  if (!iterable(in)) {
    fail("TypeError", "argument of type '" + std::string(type_name(in)) + "' is not iterable");
  }
  Iter* items = iterate(in);
  Value v;
  while (items->next(*this, &v)) {
    tick();
    if (same(item, v)) return true;
  }
  return false;
}

int64_t Interp::length(const Value& v) {
  switch (v.tag) {
    case Tag::kUndefined: return 0;
    case Tag::kStr: tick(v.s->ascii ? 0 : v.s->size / 16); return static_cast<int64_t>(char_count(*v.s));
    case Tag::kList:
    case Tag::kTuple: return v.list->size;
    case Tag::kDict: return v.dict->size;
    case Tag::kRange: return v.range->size();
    case Tag::kView: return v.dict_view->dict->size;
    case Tag::kLoop: return loop_length(v.loop);
    default: break;
  }
  fail("TypeError", "object of type '" + std::string(type_name(v)) + "' has no len()");
}

// ---- Iteration

namespace {

class ListIter final : public Iter {
 public:
  explicit ListIter(const List* l) : list(l) {}
  bool next(Interp&, Value* out) override {
    if (at >= list->size) return false;
    *out = list->items[at++];
    return true;
  }
  int64_t size() const override { return list->size; }

 private:
  const List* list;
  uint32_t at = 0;
};

class CharIter final : public Iter {
 public:
  explicit CharIter(const Str* s) : text(s) {}
  bool next(Interp& in, Value* out) override {
    if (at >= text->size) return false;
    const size_t n = char_size(text->view(), at);
    *out = Value::str(in.to_str(Value::str(slice(in.heap(), *text, at, at + n))));  // plain text, also of Markup
    at += n;
    return true;
  }
  int64_t size() const override { return static_cast<int64_t>(char_count(*text)); }

 private:
  const Str* text;
  size_t at = 0;
};

class DictIter final : public Iter {
 public:
  DictIter(const Dict* d, View::Kind k) : dict(d), kind(k) {}
  bool next(Interp& in, Value* out) override {
    if (at >= dict->size) return false;
    const Dict::Entry& e = dict->entries[at++];
    *out = kind == View::Kind::kKeys ? e.key : kind == View::Kind::kValues ? e.value : in.tuple_of({e.key, e.value});
    return true;
  }
  int64_t size() const override { return dict->size; }

 private:
  const Dict* dict;
  View::Kind kind;
  uint32_t at = 0;
};

class RangeIter final : public Iter {
 public:
  explicit RangeIter(const Range* r) : range(r), count(r->size()) {}
  bool next(Interp&, Value* out) override {
    if (at >= count) return false;
    *out = Value::integer(range->start + range->step * at++);
    return true;
  }
  int64_t size() const override { return count; }

 private:
  const Range* range;
  int64_t count, at = 0;
};

class EmptyIter final : public Iter {
 public:
  bool next(Interp&, Value*) override { return false; }
  int64_t size() const override { return 0; }
};

// `for x in loop`: what is left of the loop, as pairs of item and loop.
class LoopIter final : public Iter {
 public:
  explicit LoopIter(Loop* l) : loop(l) {}
  bool next(Interp& in, Value* out) override {
    if (!in.advance(loop)) return false;
    Value self = Value::of(Tag::kLoop);
    self.loop = loop;
    *out = in.tuple_of({loop->current, self});
    return true;
  }

 private:
  Loop* loop;
};

}  // namespace

Iter* iterate_list(Heap& heap, List* list) { return heap.make<ListIter>(list); }

Value iter_value(Iter* iter) {
  Value v = Value::of(Tag::kIter);
  v.iter = iter;
  return v;
}

bool Interp::iterable(const Value& v) const {
  switch (v.tag) {
    case Tag::kUndefined:
    case Tag::kStr:
    case Tag::kList:
    case Tag::kTuple:
    case Tag::kDict:
    case Tag::kRange:
    case Tag::kView:
    case Tag::kIter:
    case Tag::kLoop: return true;
    default: return false;
  }
}

Iter* Interp::iterate(const Value& v) {
  switch (v.tag) {
    case Tag::kUndefined: return heap_.make<EmptyIter>();
    case Tag::kStr: return heap_.make<CharIter>(v.s);
    case Tag::kList:
    case Tag::kTuple: return heap_.make<ListIter>(v.list);
    case Tag::kDict: return heap_.make<DictIter>(v.dict, View::Kind::kKeys);
    case Tag::kRange: return heap_.make<RangeIter>(v.range);
    case Tag::kView: return heap_.make<DictIter>(v.dict_view->dict, v.dict_view->kind);
    case Tag::kIter: return v.iter;
    case Tag::kLoop: return heap_.make<LoopIter>(v.loop);
    default: break;
  }
  fail("TypeError", "'" + std::string(type_name(v)) + "' object is not iterable");
}

List* Interp::listed(const Value& v) {
  Iter* items = iterate(v);
  List* l = heap_.make<List>();
  Value item;
  while (items->next(*this, &item)) {
    tick();
    l->push(heap_, item);
  }
  return l;
}

// ---- Attributes and items

Value Interp::method_value(const Method* m, const Value& self) {
  if (m->call == nullptr || (m->changes && !lenient())) {
    return undefined({.kind = Undefined::Kind::kUnsafe, .object = self, .element = {}, .name = m->name});
  }
  Value v = Value::of(Tag::kMethod);
  v.method = heap_.make<BoundMethod>(m, self);
  return v;
}

const Method* Interp::method_of(const Value& base, const Str* name, const Node* known) const {
  if (known == nullptr) return find_method(base.tag, name->view());
  switch (base.tag) {
    case Tag::kStr: return known->str_method;
    case Tag::kDict: return known->dict_method;
    case Tag::kList: return known->list_method;
    case Tag::kTuple: return find_method(Tag::kTuple, name->view());
    default: return nullptr;
  }
}

// Attributes of everything that is neither text nor a container; missing when there is none.
Value Interp::special_attribute(const Value& base, std::string_view name) {
  switch (base.tag) {
    case Tag::kNamespace: {
      const Value* v = base.ns->attrs->find(name);
      return v == nullptr ? Value() : *v;
    }
    case Tag::kLoop: return loop_attribute(base.loop, name);
    case Tag::kMacro: {
      const Macro& m = *base.macro;
      if (name == "name") return m.name == nullptr ? Value::none() : Value::str(m.name);
      if (name == "catch_kwargs") return Value::boolean((m.node->catches & kCatchKwargs) != 0);
      if (name == "catch_varargs") return Value::boolean((m.node->catches & kCatchVarargs) != 0);
      if (name == "caller") return Value::boolean((m.node->catches & kCatchCaller) != 0);
      if (name != "arguments") return {};
      List* l = heap_.make<List>();
      for (const Node* p : m.node->list) l->push(heap_, Value::str(p->text));
      return Value::seq(Tag::kTuple, l);
    }
    case Tag::kCycler:
      if (name == "current") return base.cycler->items->items[base.cycler->at];
      if (name == "pos") return Value::integer(base.cycler->at);
      if (name == "items") return Value::seq(Tag::kTuple, base.cycler->items);
      return {};
    case Tag::kTuple:
      if (base.list->group && name == "grouper") return base.list->items[0];
      if (base.list->group && name == "list") return base.list->items[1];
      return {};
    case Tag::kInt:
    case Tag::kBool:
      if (name == "real" || name == "numerator") return base;
      if (name == "imag") return Value::integer(0);
      if (name == "denominator") return Value::integer(1);
      return {};
    default: return {};
  }
}

Value Interp::loop_attribute(Loop* loop, std::string_view name) {
  if (name == "index") return Value::integer(loop->index0 + 1);
  if (name == "index0") return Value::integer(loop->index0);
  if (name == "first") return Value::boolean(loop->index0 == 0);
  if (name == "last") return Value::boolean(!peek(loop));
  if (name == "length") return Value::integer(loop_length(loop));
  if (name == "revindex") return Value::integer(loop_length(loop) - loop->index0);
  if (name == "revindex0") return Value::integer(loop_length(loop) - loop->index0 - 1);
  if (name == "depth") return Value::integer(loop->depth0 + 1);
  if (name == "depth0") return Value::integer(loop->depth0);
  if (name == "previtem") return loop->index0 == 0 ? undefined_hint("there is no previous item") : loop->before;
  if (name == "nextitem") return peek(loop) ? loop->after : undefined_hint("there is no next item");
  return {};
}

Value Interp::attribute(const Value& base, const Str* name, const Node* known) {
  if (base.is_undefined()) fail_undefined(base);
  if (const Method* m = method_of(base, name, known)) return method_value(m, base);
  if (base.is_dict()) {
    if (const Value* v = base.dict->find(name->view())) return *v;
  } else {
    if (const Method* m = find_method(base.tag, name->view())) return method_value(m, base);
    const Value v = special_attribute(base, name->view());
    if (!v.missing()) return v;
  }
  return undefined({.kind = Undefined::Kind::kAttribute, .object = base, .element = {}, .name = name->view()});
}

Value Interp::item(const Value& base, const Value& key) {
  switch (base.tag) {
    case Tag::kUndefined: fail_undefined(base);
    case Tag::kDict:
      if (hashable(key)) {
        if (const Value* v = base.dict->find(key)) return *v;
      }
      break;
    case Tag::kStr:
    case Tag::kList:
    case Tag::kTuple:
    case Tag::kRange: {
      if (!key.is_integral()) break;
      int64_t at = key.tag == Tag::kBool ? key.b : key.i;
      const int64_t n = base.is_str() && base.s->ascii ? base.s->size : length(base);
      if (at < 0) at += n;
      if (at < 0 || at >= n) break;
      if (base.is_seq()) return base.list->items[at];
      if (base.tag == Tag::kRange) return Value::integer(base.range->start + base.range->step * at);
      const size_t byte = byte_of_char(*base.s, static_cast<size_t>(at));
      return Value::str(slice(heap_, *base.s, byte, byte + char_size(base.s->view(), byte)));
    }
    default: break;
  }
  if (!key.is_str())
    return undefined({.kind = Undefined::Kind::kElement, .object = base, .element = key, .name = {}});
  return attribute_fallback(base, key.s);
}

// x['name'] falls back to x.name.
Value Interp::attribute_fallback(const Value& base, const Str* name) {
  if (const Method* m = find_method(base.tag, name->view())) return method_value(m, base);
  const Value v = special_attribute(base, name->view());
  if (!v.missing()) return v;
  return undefined({.kind = Undefined::Kind::kAttribute, .object = base, .element = {}, .name = name->view()});
}

namespace {

struct Bounds {
  int64_t from, to, step, count;
};

// Python's slice.indices.
Bounds slice_bounds(Interp& in, int64_t n, const Value& from, const Value& to, const Value& step) {
  Bounds b{0, 0, 1, 0};
  const auto part = [&](const Value& v) {
    if (v.tag == Tag::kBig) return v.big->negative ? INT64_MIN / 2 : INT64_MAX / 2;
    if (!v.is_integral()) {
      in.need_defined(v);
      fail("TypeError", "slice indices must be integers or None or have an __index__ method");
    }
    return std::clamp<int64_t>(v.tag == Tag::kBool ? v.b : v.i, INT64_MIN / 2, INT64_MAX / 2);
  };
  if (!step.is_none()) b.step = part(step);
  if (b.step == 0) fail("ValueError", "slice step cannot be zero");
  const int64_t low = b.step > 0 ? 0 : -1, high = b.step > 0 ? n : n - 1;
  const auto place = [&](const Value& v, int64_t absent) {
    if (v.is_none()) return absent;
    int64_t i = part(v);
    if (i < 0) i += n;
    return std::clamp(i, low, high);
  };
  b.from = place(from, b.step > 0 ? low : high);
  b.to = place(to, b.step > 0 ? high : low);
  b.count = Range{b.from, b.to, b.step}.size();
  return b;
}

}  // namespace

Value Interp::slice_of(const Value& base, const Value& from, const Value& to, const Value& step) {
  if (base.is_undefined()) fail_undefined(base);
  if (base.is_seq()) {
    const Bounds b = slice_bounds(*this, base.list->size, from, to, step);
    List* l = heap_.make<List>();
    l->items = heap_.array<Value>(static_cast<size_t>(b.count));
    l->capacity = l->size = static_cast<uint32_t>(b.count);
    for (int64_t i = 0; i < b.count; ++i) l->items[i] = base.list->items[b.from + i * b.step];
    tick(b.count / 8);
    return Value::seq(base.tag, l);
  }
  if (base.is_str()) {
    const Str& s = *base.s;
    const Bounds b = slice_bounds(*this, length(base), from, to, step);
    tick(b.count / 16);
    if (b.step == 1) {
      const size_t begin = byte_of_char(s, static_cast<size_t>(b.from));
      const size_t end =
          s.ascii ? begin + static_cast<size_t>(b.count) : byte_of_char(s, static_cast<size_t>(b.from + b.count));
      return Value::str(slice(heap_, s, begin, end));
    }
    std::vector<size_t> starts;
    for (size_t i = 0; i < s.size; i += char_size(s.view(), i)) starts.push_back(i);
    starts.push_back(s.size);
    StrBuilder out(text_limit());
    for (int64_t i = 0; i < b.count; ++i) {
      const auto at = static_cast<size_t>(b.from + i * b.step);
      out.append_slice(s, starts[at], starts[at + 1]);
    }
    return Value::str(out.finish(heap_));
  }
  if (base.tag == Tag::kRange) {
    const Bounds b = slice_bounds(*this, base.range->size(), from, to, step);
    const Range& r = *base.range;
    Value v = Value::of(Tag::kRange);
    v.range = heap_.make<Range>(r.start + b.from * r.step, r.start + b.to * r.step, b.step * r.step);
    return v;
  }
  if (base.is_dict()) fail("TypeError", "unhashable type: 'slice'");
  fail("TypeError", "'" + std::string(type_name(base)) + "' object is not subscriptable");
}

// ---- Arithmetic on anything

namespace {

std::string_view symbol(Arith op) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<size_t>(op)];
}

}  // namespace

Value Interp::binary(Arith op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return arith(heap_, op, a, b);
  // Text formats undefined values like any other.
  if (op == Arith::kMod && a.is_str()) return Value::str(percent_format(*this, *a.s, b));
  need_defined(a);
  need_defined(b);
  if (op == Arith::kAdd) return add(a, b);
  if (op == Arith::kMul) return multiply(a, b);
  fail("TypeError", "unsupported operand type(s) for " + std::string(symbol(op)) + ": '" + std::string(type_name(a)) +
                        "' and '" + std::string(type_name(b)) + "'");
}

Value Interp::add(const Value& a, const Value& b) {
  if (a.is_str() && b.is_str()) {
    const Str* x = a.s;
    const Str* y = b.s;
    if (x->markup != y->markup) (x->markup ? y : x) = escape_html(*this, x->markup ? b : a);
    tick((x->size + y->size) / 256);
    if (size_t{x->size} + y->size > text_limit()) fail_limit("a text grows beyond the limit");
    return Value::str(concat(heap_, *x, *y));
  }
  if (a.is_seq() && a.tag == b.tag) {
    List* l = heap_.make<List>();
    const size_t n = size_t{a.list->size} + b.list->size;
    l->items = heap_.array<Value>(n);
    l->size = l->capacity = static_cast<uint32_t>(n);
    std::copy(b.list->begin(), b.list->end(), std::copy(a.list->begin(), a.list->end(), l->items));
    tick(static_cast<int64_t>(n / 8));
    return Value::seq(a.tag, l);
  }
  const std::string other(type_name(b));
  if (a.is_str()) fail("TypeError", "can only concatenate str (not \"" + other + "\") to str");
  if (a.is_seq()) {
    const std::string own(type_name(a));
    fail("TypeError", "can only concatenate " + own + " (not \"" + other + "\") to " + own);
  }
  fail("TypeError", "unsupported operand type(s) for +: '" + std::string(type_name(a)) + "' and '" + other + "'");
}

Value Interp::multiply(const Value& a, const Value& b) {
  const bool left = a.is_str() || a.is_seq();
  const Value& seq = left ? a : b;
  const Value& by = left ? b : a;
  if (!(seq.is_str() || seq.is_seq())) {
    fail("TypeError", "unsupported operand type(s) for *: '" + std::string(type_name(a)) + "' and '" +
                          std::string(type_name(b)) + "'");
  }
  if (!by.is_integral() && by.tag != Tag::kBig) {
    fail("TypeError", "can't multiply sequence by non-int of type '" + std::string(type_name(by)) + "'");
  }
  const int64_t n = std::max<int64_t>(0, need_int(by));
  const size_t size = seq.is_str() ? seq.s->size : seq.list->size;
  if (size > 0 && static_cast<uint64_t>(n) > text_limit() / size)
    fail_limit("a repeated value grows beyond the limit");
  tick(static_cast<int64_t>(size) * n / 64);
  if (seq.is_str()) {
    StrBuilder out(text_limit());
    for (int64_t i = 0; i < n && size > 0; ++i) out.append(*seq.s);
    return Value::str(out.finish(heap_));
  }
  List* l = heap_.make<List>();
  l->items = heap_.array<Value>(size * static_cast<size_t>(n));
  l->capacity = static_cast<uint32_t>(size * static_cast<size_t>(n));
  for (int64_t i = 0; i < n && size > 0; ++i) {
    for (const Value& v : *seq.list) l->items[l->size++] = v;
  }
  return Value::seq(seq.tag, l);
}

}  // namespace bora::text::jinja
