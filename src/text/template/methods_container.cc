// Methods of lists, tuples, dicts, loops and cyclers. Those that change their object are named and refused in the
// strict mode (the immutable sandbox); the lenient mode lets a list grow, because some published templates build
// lists that way.
#include <algorithm>

#include "text/template/interp.h"

namespace bora::text::jinja {

namespace {

using Names1 = std::array<std::string_view, 1>;
using Names2 = std::array<std::string_view, 2>;
using Names3 = std::array<std::string_view, 3>;

Value list_index(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "index", Names3{"value", "start", "stop"}, 1);
  const int64_t n = self.list->size;
  const auto place = [&](const Value& v, int64_t absent) {
    if (v.missing()) return absent;
    const int64_t i = in.need_int(v);
    return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n);
  };
  const int64_t end = place(a[2], n);
  for (int64_t i = place(a[1], 0); i < end; ++i) {
    in.tick();
    if (in.same(self.list->items[i], a[0])) return Value::integer(i);
  }
  fail("ValueError", "value is not in list");
}

Value list_count(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "count", Names1{"value"}, 1);
  int64_t n = 0;
  for (const Value& v : *self.list) {
    in.tick();
    n += in.same(v, a[0]) ? 1 : 0;
  }
  return Value::integer(n);
}

Value range_as_list(Interp& in, const Value& self, const Args& args, MethodFunction method) {
  return method(in, in.list_value(in.listed(self)), args);
}
Value range_index(Interp& in, const Value& self, const Args& args) {
  return range_as_list(in, self, args, list_index);
}
Value range_count(Interp& in, const Value& self, const Args& args) {
  return range_as_list(in, self, args, list_count);
}

Value list_copy(Interp& in, const Value& self, const Args&) { return in.list_value(in.listed(self)); }

Value dict_get(Interp& in, const Value& self, const Args& args) {
  if (!args.named.empty()) fail("TypeError", "dict.get() takes no keyword arguments");
  const auto a = in.bound(args, "get", Names2{"key", "default"}, 1);
  if (!hashable(a[0])) fail("TypeError", "unhashable type: '" + std::string(type_name(a[0])) + "'");
  const Value* v = self.dict->find(a[0]);
  return v != nullptr ? *v : a[1].missing() ? Value::none() : a[1];
}

template <View::Kind kind>
Value dict_view(Interp& in, const Value& self, const Args& args) {
  if (!args.pos.empty() || !args.named.empty()) fail("TypeError", "dict method takes no arguments");
  Value v = Value::of(Tag::kView);
  v.dict_view = in.heap().make<View>(self.dict, kind);
  return v;
}

Value dict_copy(Interp& in, const Value& self, const Args&) {
  Dict* d = in.heap().make<Dict>();
  for (const Dict::Entry& e : *self.dict) {
    in.tick();
    d->set(in.heap(), e.key, e.value);
  }
  return Value::dictionary(d);
}

// ---- Methods that change their object; the lenient mode only.

Value list_append(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  self.list->push(in.heap(), in.bound(args, "append", Names1{"object"}, 1)[0]);
  return Value::none();
}

Value list_extend(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const List* more = in.listed(in.bound(args, "extend", Names1{"iterable"}, 1)[0]);
  for (uint32_t i = 0; i < more->size; ++i) self.list->push(in.heap(), more->items[i]);
  return Value::none();
}

Value list_insert(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const auto a = in.bound(args, "insert", Names2{"index", "object"}, 2);
  const int64_t n = self.list->size, wish = in.need_int(a[0]);
  const int64_t at = std::clamp<int64_t>(wish < 0 ? wish + n : wish, 0, n);
  in.tick(n / 8);
  self.list->push(in.heap(), a[1]);
  std::rotate(self.list->items + at, self.list->items + n, self.list->items + n + 1);
  return Value::none();
}

Value list_pop(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const auto a = in.bound(args, "pop", Names1{"index"}, 0);
  const int64_t n = self.list->size;
  int64_t at = a[0].missing() ? -1 : in.need_int(a[0]);
  if (at < 0) at += n;
  if (at < 0 || at >= n) fail("IndexError", n == 0 ? "pop from empty list" : "pop index out of range");
  in.tick(n / 8);
  const Value v = self.list->items[at];
  std::copy(self.list->items + at + 1, self.list->items + n, self.list->items + at);
  --self.list->size;
  return v;
}

Value need_key(const Value& key) {
  if (!hashable(key)) fail("TypeError", "unhashable type: '" + std::string(type_name(key)) + "'");
  return key;
}

Value dict_update(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const Value more = in.call_filter("items", {args.pos, {}});
  for (const Value& pair : *in.listed(more)) self.dict->set(in.heap(), pair.list->items[0], pair.list->items[1]);
  for (const KeyValue& kv : args.named) self.dict->set(in.heap(), Value::str(kv.key), kv.value);
  return Value::none();
}

Value dict_setdefault(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const auto a = in.bound(args, "setdefault", Names2{"key", "default"}, 1);
  if (const Value* v = self.dict->find(need_key(a[0]))) return *v;
  const Value v = a[1].missing() ? Value::none() : a[1];
  self.dict->set(in.heap(), a[0], v);
  return v;
}

Value dict_pop(Interp& in, const Value& self, const Args& args) {
  in.adapted("mutable-values");
  const auto a = in.bound(args, "pop", Names2{"key", "default"}, 1);
  in.tick(self.dict->size / 8);
  if (const Value* v = self.dict->find(need_key(a[0]))) {
    const Value found = *v;
    self.dict->erase(a[0]);
    return found;
  }
  if (a[1].missing()) fail("KeyError", "pop: no such key");
  return a[1];
}

Value loop_cycle(Interp&, const Value& self, const Args& args) {
  if (args.pos.empty()) fail("TypeError", "no items for cycling given");
  return args.pos[static_cast<size_t>(self.loop->index0) % args.pos.size()];
}

Value loop_changed(Interp& in, const Value& self, const Args& args) {
  List* l = in.heap().make<List>();
  for (const Value& v : args.pos) l->push(in.heap(), v);
  const Value now = Value::seq(Tag::kTuple, l);
  if (!self.loop->changed.missing() && in.same(self.loop->changed, now)) return Value::boolean(false);
  self.loop->changed = now;
  return Value::boolean(true);
}

Value cycler_next(Interp&, const Value& self, const Args&) {
  Cycler& c = *self.cycler;
  const Value v = c.items->items[c.at];
  c.at = (c.at + 1) % c.items->size;
  return v;
}

Value cycler_reset(Interp&, const Value& self, const Args&) {
  self.cycler->at = 0;
  return Value::none();
}

constexpr Method kTupleMethods[] = {{"index", list_index}, {"count", list_count}};
constexpr Method kListMethods[] = {
    {"index", list_index}, {"count", list_count},         {"copy", list_copy},  {"append", list_append, true},
    {"clear", nullptr},    {"pop", list_pop, true},       {"reverse", nullptr}, {"insert", list_insert, true},
    {"sort", nullptr},     {"extend", list_extend, true}, {"remove", nullptr},
};
constexpr Method kDictMethods[] = {
    {"get", dict_get},
    {"keys", dict_view<View::Kind::kKeys>},
    {"values", dict_view<View::Kind::kValues>},
    {"items", dict_view<View::Kind::kItems>},
    {"copy", dict_copy},
    {"clear", nullptr},
    {"pop", dict_pop, true},
    {"popitem", nullptr},
    {"setdefault", dict_setdefault, true},
    {"update", dict_update, true},
};
constexpr Method kRangeMethods[] = {{"index", range_index}, {"count", range_count}};
constexpr Method kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr Method kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

template <size_t N>
const Method* find_in(const Method (&methods)[N], std::string_view name) {
  for (const Method& m : methods) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

}  // namespace

const Method* find_container_method(Tag type, std::string_view name) {
  switch (type) {
    case Tag::kList: return find_in(kListMethods, name);
    case Tag::kTuple: return find_in(kTupleMethods, name);
    case Tag::kDict: return find_in(kDictMethods, name);
    case Tag::kRange: return find_in(kRangeMethods, name);
    case Tag::kLoop: return find_in(kLoopMethods, name);
    case Tag::kCycler: return find_in(kCyclerMethods, name);
    default: return nullptr;
  }
}

}  // namespace bora::text::jinja
