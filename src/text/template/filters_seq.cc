// Filters on sequences. map, select and their kin are lazy, as Jinja2's generators are.
#include <algorithm>

#include "text/template/filters.h"

namespace bora::text::jinja {

// ---- Attributes by path

Value walk_attribute(Interp& in, const Value& item, const Value& path) {
  if (!path.is_str()) return path.missing() || path.is_none() ? item : in.item(item, path);
  Value v = item;
  std::string_view rest = path.s->view();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    Value key;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits || !parse_int(in.heap(), part, 10, &key)) key = Value::str(borrow_str(in.heap(), part, true));
    v = in.item(v, key);
    if (dot == std::string_view::npos) return v;
    rest.remove_prefix(dot + 1);
  }
}

namespace {

Value folded(Interp& in, const Value& v, bool fold) {
  return fold && v.is_str() ? Value::str(change_case(in, *v.s, CaseOp::kLower)) : v;
}

}  // namespace

void sort_values(Interp& in, std::vector<std::pair<Value, Value>>* keyed, bool reverse) {
  // Merge sort by insertion of Python's rule: only "less than" is asked, equal elements keep their order, also in
  // reverse.
  std::vector<std::pair<Value, Value>>& v = *keyed;
  if (reverse) std::reverse(v.begin(), v.end());
  std::vector<std::pair<Value, Value>> other(v.size());
  for (size_t width = 1; width < v.size(); width *= 2) {
    for (size_t lo = 0; lo < v.size(); lo += 2 * width) {
      const size_t mid = std::min(lo + width, v.size()), hi = std::min(lo + 2 * width, v.size());
      size_t a = lo, b = mid;
      for (size_t k = lo; k < hi; ++k) {
        in.tick();
        const bool right = a >= mid || (b < hi && in.less(v[b].first, v[a].first));
        other[k] = right ? v[b++] : v[a++];
      }
    }
    v.swap(other);
  }
  if (reverse) std::reverse(v.begin(), v.end());
}

namespace filters {

namespace {

// Arguments kept for later calls: the first place is the item's.
struct Kept {
  Value* pos;
  size_t count;
  const KeyValue* named;
  size_t named_count;
  Args all() const { return {{pos, count}, {named, named_count}}; }
  Args with(const Value& item) const {
    pos[0] = item;
    return all();
  }
};

Kept keep(Interp& in, const Args& args, size_t from) {
  Kept k{};
  const std::span<const Value> rest = args.pos.subspan(std::min(from, args.pos.size()));
  k.count = rest.size() + 1;
  k.pos = in.heap().array<Value>(k.count);
  std::copy(rest.begin(), rest.end(), k.pos + 1);
  KeyValue* named = in.heap().array<KeyValue>(args.named.size());
  std::copy(args.named.begin(), args.named.end(), named);
  k.named = named;
  k.named_count = args.named.size();
  return k;
}

// A filter whose work, and whose complaints, wait for the first item to be asked for.
class Later final : public Iter {
 public:
  using Work = Iter* (*)(Interp&, const Args&);
  Later(Work w, Kept k) : work(w), kept(k) {}
  bool next(Interp& in, Value* out) override {
    if (inner == nullptr) inner = work(in, kept.all());
    return inner->next(in, out);
  }

 private:
  Work work;
  Kept kept;
  Iter* inner = nullptr;
};

class MapAttribute final : public Iter {
 public:
  MapAttribute(Iter* s, Value p, Value d) : source(s), path(p), fallback(d) {}
  bool next(Interp& in, Value* out) override {
    Value item;
    if (!source->next(in, &item)) return false;
    in.tick();
    *out = walk_attribute(in, item, path);
    if (out->is_undefined() && !fallback.missing() && !fallback.is_none()) *out = fallback;
    return true;
  }

 private:
  Iter* source;
  Value path, fallback;
};

class MapFilter final : public Iter {
 public:
  MapFilter(Iter* s, const Str* n, Kept k) : source(s), name(n), kept(k) {}
  bool next(Interp& in, Value* out) override {
    Value item;
    if (!source->next(in, &item)) return false;
    const Interp::Deeper deeper(in);
    *out = in.call_filter(name->view(), kept.with(item));
    return true;
  }

 private:
  Iter* source;
  const Str* name;
  Kept kept;
};

class Selection final : public Iter {
 public:
  Selection(Iter* s, Value p, const Str* t, Kept k, bool w) : source(s), path(p), test(t), kept(k), want(w) {}
  bool next(Interp& in, Value* out) override {
    while (source->next(in, out)) {
      in.tick();
      const Value v = walk_attribute(in, *out, path);
      const bool holds = test != nullptr ? in.call_test(test->view(), kept.with(v)) : in.truth(v);
      if (holds == want) return true;
    }
    return false;
  }

 private:
  Iter* source;
  Value path;
  const Str* test;
  Kept kept;
  bool want;
};

Iter* nothing(Interp& in) { return in.iterate(in.undefined_hint("")); }

const Value& input(const Args& args) {
  if (args.pos.empty()) fail("TypeError", "a filter is missing its input");
  return args.pos[0];
}

Value later(Interp& in, const Args& args, Later::Work work) {
  Kept kept = keep(in, args, 1);
  kept.pos[0] = input(args);
  return iter_value(in.heap().make<Later>(work, kept));
}

Iter* selecting(Interp& in, const Args& args, bool want, bool by_attribute) {
  if (!in.truth(input(args))) return nothing(in);
  size_t at = 1;
  Value path;
  if (by_attribute) {
    if (args.pos.size() < 2) fail("FilterArgumentError", "Missing parameter for attribute name");
    path = args.pos[at++];
  }
  const Str* test = args.pos.size() > at ? in.need_str(args.pos[at], "test name") : nullptr;
  const Kept kept = keep(in, args, at + 1);
  return in.heap().make<Selection>(in.iterate(args.pos[0]), path, test, kept, want);
}

}  // namespace

namespace {

Iter* mapping(Interp& in, const Args& args) {
  if (!in.truth(input(args))) return nothing(in);
  if (args.pos.size() == 1) {
    Value path, fallback;
    for (const KeyValue& kv : args.named) {
      if (kv.key->view() == "attribute")
        path = kv.value;
      else if (kv.key->view() == "default")
        fallback = kv.value;
      else
        fail("FilterArgumentError", "Unexpected keyword argument '" + std::string(kv.key->view()) + "'");
    }
    if (path.missing()) fail("FilterArgumentError", "map requires a filter argument");
    return in.heap().make<MapAttribute>(in.iterate(args.pos[0]), path, fallback);
  }
  const Str* name = in.need_str(args.pos[1], "filter name");
  return in.heap().make<MapFilter>(in.iterate(args.pos[0]), name, keep(in, args, 2));
}

Iter* batching(Interp& in, const Args& args) {
  const auto a = in.bound(args, "batch", Names3{"value", "linecount", "fill_with"}, 2);
  const int64_t width = in.need_int(a[1]);
  List* all = in.listed(a[0]);
  List* out = in.heap().make<List>();
  List* row = in.heap().make<List>();
  for (const Value& v : *all) {
    if (row->size == width) {
      out->push(in.heap(), in.list_value(row));
      row = in.heap().make<List>();
    }
    row->push(in.heap(), v);
  }
  if (row->size > 0) {
    while (!a[2].missing() && !a[2].is_none() && row->size < width) {
      in.tick();
      row->push(in.heap(), a[2]);
    }
    out->push(in.heap(), in.list_value(row));
  }
  return iterate_list(in.heap(), out);
}

Iter* slicing(Interp& in, const Args& args) {
  const auto a = in.bound(args, "slice", Names3{"value", "slices", "fill_with"}, 2);
  const int64_t n = in.need_int(a[1]);
  const List* all = in.listed(a[0]);
  if (n == 0) fail("ZeroDivisionError", "integer division or modulo by zero");
  List* out = in.heap().make<List>();
  const int64_t each = n > 0 ? all->size / n : 0, extra = n > 0 ? all->size % n : 0;
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    in.tick();
    List* row = in.heap().make<List>();
    for (int64_t k = each + (i < extra ? 1 : 0); k > 0; --k) row->push(in.heap(), all->items[at++]);
    if (i >= extra && !a[2].missing() && !a[2].is_none()) row->push(in.heap(), a[2]);
    out->push(in.heap(), in.list_value(row));
  }
  return iterate_list(in.heap(), out);
}

Iter* uniquing(Interp& in, const Args& args) {
  const auto a = in.bound(args, "unique", Names3{"value", "case_sensitive", "attribute"}, 1);
  const bool fold = a[1].missing() || !in.truth(a[1]);
  Dict* seen = in.heap().make<Dict>();
  List* out = in.heap().make<List>();
  for (const Value& v : *in.listed(a[0])) {
    const Value key = folded(in, walk_attribute(in, v, a[2]), fold);
    if (!hashable(key)) fail("TypeError", "unhashable type: '" + std::string(type_name(key)) + "'");
    if (seen->find(key) != nullptr) continue;
    seen->set(in.heap(), key, Value::none());
    out->push(in.heap(), v);
  }
  return iterate_list(in.heap(), out);
}

Iter* itemizing(Interp& in, const Args& args) {
  const Value v = input(args);
  if (v.is_undefined()) return nothing(in);
  if (!v.is_dict()) fail("TypeError", "Can only get item pairs from a mapping.");
  Value view = Value::of(Tag::kView);
  view.dict_view = in.heap().make<View>(v.dict, View::Kind::kItems);
  return in.iterate(view);
}

}  // namespace

Value map(Interp& in, const Args& args) { return later(in, args, mapping); }
Value select(Interp& in, const Args& args) {
  return later(in, args, [](Interp& i, const Args& a) { return selecting(i, a, true, false); });
}
Value reject(Interp& in, const Args& args) {
  return later(in, args, [](Interp& i, const Args& a) { return selecting(i, a, false, false); });
}
Value selectattr(Interp& in, const Args& args) {
  return later(in, args, [](Interp& i, const Args& a) { return selecting(i, a, true, true); });
}
Value rejectattr(Interp& in, const Args& args) {
  return later(in, args, [](Interp& i, const Args& a) { return selecting(i, a, false, true); });
}
Value batch(Interp& in, const Args& args) { return later(in, args, batching); }
Value slices(Interp& in, const Args& args) { return later(in, args, slicing); }
Value unique(Interp& in, const Args& args) { return later(in, args, uniquing); }
Value items(Interp& in, const Args& args) { return later(in, args, itemizing); }

Value dictsort(Interp& in, const Args& args) {
  const auto a = in.bound(args, "dictsort", Names4{"value", "case_sensitive", "by", "reverse"}, 1);
  const bool fold = a[1].missing() || !in.truth(a[1]);
  const std::string_view by = a[2].missing() ? "key" : in.need_str(a[2], "by")->view();
  if (by != "key" && by != "value") fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  in.need_defined(a[0]);
  if (!a[0].is_dict())
    fail("AttributeError", "'" + std::string(type_name(a[0])) + "' object has no attribute 'items'");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Dict::Entry& e : *a[0].dict) {
    keyed.emplace_back(folded(in, by == "key" ? e.key : e.value, fold), in.tuple_of({e.key, e.value}));
  }
  sort_values(in, &keyed, !a[3].missing() && in.truth(a[3]));
  List* out = in.heap().make<List>();
  for (const auto& [key, pair] : keyed) out->push(in.heap(), pair);
  return in.list_value(out);
}

Value sort(Interp& in, const Args& args) {
  const auto a = in.bound(args, "sort", Names4{"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool fold = a[2].missing() || !in.truth(a[2]);
  std::vector<Value> paths;
  if (a[3].is_str()) {
    for (std::string_view rest = a[3].s->view();;) {
      const size_t comma = rest.find(',');
      paths.push_back(Value::str(borrow_str(in.heap(), rest.substr(0, comma), true)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.push_back(a[3]);
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& v : *in.listed(a[0])) {
    List* key = in.heap().make<List>();
    for (const Value& path : paths) key->push(in.heap(), folded(in, walk_attribute(in, v, path), fold));
    keyed.emplace_back(in.list_value(key), v);
  }
  sort_values(in, &keyed, !a[1].missing() && in.truth(a[1]));
  List* out = in.heap().make<List>();
  for (const auto& [key, v] : keyed) out->push(in.heap(), v);
  return in.list_value(out);
}

Value groupby(Interp& in, const Args& args) {
  const auto a = in.bound(args, "groupby", Names4{"value", "attribute", "default", "case_sensitive"}, 2);
  const bool fold = a[3].missing() || !in.truth(a[3]);
  const auto key_of = [&](const Value& v) {
    const Value key = walk_attribute(in, v, a[1]);
    return key.is_undefined() && !a[2].missing() && !a[2].is_none() ? a[2] : key;
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& v : *in.listed(a[0])) keyed.emplace_back(folded(in, key_of(v), fold), v);
  sort_values(in, &keyed, false);
  List* out = in.heap().make<List>();
  for (size_t i = 0; i < keyed.size();) {
    List* group = in.heap().make<List>();
    const size_t begin = i;
    for (; i < keyed.size() && in.same(keyed[i].first, keyed[begin].first); ++i)
      group->push(in.heap(), keyed[i].second);
    const Value pair = in.tuple_of({fold ? key_of(keyed[begin].second) : keyed[begin].first, in.list_value(group)});
    pair.list->group = true;
    out->push(in.heap(), pair);
  }
  return in.list_value(out);
}

Value join_items(Interp& in, const Args& args) {
  const auto a = in.bound(args, "join", Names3{"value", "d", "attribute"}, 1);
  const Str* by = a[1].missing() ? in.str("") : in.to_str(a[1]);
  Value from = a[0];
  if (!a[2].missing() && !a[2].is_none())
    from = iter_value(in.heap().make<MapAttribute>(in.iterate(a[0]), a[2], Value()));
  return Value::str(join(in, *by, from, true));
}

Value first(Interp& in, const Args& args) {
  Value v;
  if (in.iterate(input(args))->next(in, &v)) return v;
  return in.undefined_hint("No first item, sequence was empty.");
}

Value last(Interp& in, const Args& args) {
  const Value v = input(args);
  if (v.tag == Tag::kIter || v.tag == Tag::kLoop)
    fail("TypeError", "'" + std::string(type_name(v)) + "' object is not reversible");
  const List* l = v.is_seq() ? v.list : in.listed(v);
  if (l->size > 0) return l->items[l->size - 1];
  return in.undefined_hint("No last item, sequence was empty.");
}

Value length(Interp& in, const Args& args) { return Value::integer(in.length(input(args))); }
Value list(Interp& in, const Args& args) { return in.list_value(in.listed(input(args))); }

namespace {

Value extreme(Interp& in, const Args& args, bool want_max) {
  const auto a = in.bound(args, "min", Names3{"value", "case_sensitive", "attribute"}, 1);
  const bool fold = a[1].missing() || !in.truth(a[1]);
  Iter* items = in.iterate(a[0]);
  Value v, best, best_key;
  while (items->next(in, &v)) {
    in.tick();
    const Value key = folded(in, walk_attribute(in, v, a[2]), fold);
    if (best.missing() || (want_max ? in.less(best_key, key) : in.less(key, best_key))) {
      best = v;
      best_key = key;
    }
  }
  return best.missing() ? in.undefined_hint("No aggregated item, sequence was empty.") : best;
}

}  // namespace

Value max(Interp& in, const Args& args) { return extreme(in, args, true); }
Value min(Interp& in, const Args& args) { return extreme(in, args, false); }

// Renders are reproducible: the first item is as random as any.
Value random(Interp& in, const Args& args) {
  const Value v = input(args);
  if (in.length(v) == 0) return in.undefined_hint("No random item, sequence was empty.");
  return in.item(v, Value::integer(0));
}

Value reverse(Interp& in, const Args& args) {
  const Value v = input(args);
  if (v.is_str()) return Value::str(reversed(in, *v.s));
  if (!in.iterable(v)) fail("FilterArgumentError", "argument must be iterable");
  List* l = in.listed(v);
  std::reverse(l->items, l->items + l->size);
  return v.tag == Tag::kIter ? in.list_value(l) : iter_value(iterate_list(in.heap(), l));
}

Value sum(Interp& in, const Args& args) {
  const auto a = in.bound(args, "sum", Names3{"iterable", "attribute", "start"}, 1);
  Value total = a[2].missing() ? Value::integer(0) : a[2];
  if (total.is_str()) fail("TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
  Iter* items = in.iterate(a[0]);
  Value v;
  while (items->next(in, &v)) {
    in.tick();
    total = in.binary(Arith::kAdd, total, walk_attribute(in, v, a[1]));
  }
  return total;
}

}  // namespace filters

}  // namespace bora::text::jinja
