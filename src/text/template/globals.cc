// Functions that every template can call.
#include <algorithm>

#include "text/template/interp.h"

namespace bora::text::jinja {

namespace {

constexpr int64_t kMaxRange = 100000;  // Jinja2's sandbox

Value make_range(Interp& in, const Args& args) {
  if (args.pos.empty() || args.pos.size() > 3 || !args.named.empty())
    fail("TypeError", "range expected 1 to 3 arguments");
  Range r{0, 0, 1};
  if (args.pos.size() == 1) {
    r.stop = in.need_int(args.pos[0]);
  } else {
    r.start = in.need_int(args.pos[0]);
    r.stop = in.need_int(args.pos[1]);
    if (args.pos.size() == 3) r.step = in.need_int(args.pos[2]);
  }
  if (r.step == 0) fail("ValueError", "range() arg 3 must not be zero");
  if (r.size() > kMaxRange) {
    fail("OverflowError",
         "Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(kMaxRange) + ").");
  }
  Value v = Value::of(Tag::kRange);
  v.range = in.heap().make<Range>(r);
  return v;
}

Dict* dict_from(Interp& in, const Args& args) {
  if (args.pos.size() > 1)
    fail("TypeError", "dict expected at most 1 argument, got " + std::to_string(args.pos.size()));
  Dict* d = in.heap().make<Dict>();
  if (!args.pos.empty() && args.pos[0].is_dict()) {
    for (const Dict::Entry& e : *args.pos[0].dict) {
      in.tick();
      d->set(in.heap(), e.key, e.value);
    }
  } else if (!args.pos.empty()) {
    Iter* pairs = in.iterate(args.pos[0]);
    Value pair;
    while (pairs->next(in, &pair)) {
      in.tick();
      const List* l = in.listed(pair);
      if (l->size != 2)
        fail("ValueError",
             "dictionary update sequence element has length " + std::to_string(l->size) + "; 2 is required");
      if (!hashable(l->items[0])) fail("TypeError", "unhashable type: '" + std::string(type_name(l->items[0])) + "'");
      d->set(in.heap(), l->items[0], l->items[1]);
    }
  }
  for (const KeyValue& kv : args.named) d->set(in.heap(), Value::str(kv.key), kv.value);
  return d;
}

Value make_dict(Interp& in, const Args& args) { return Value::dictionary(dict_from(in, args)); }

Value make_namespace(Interp& in, const Args& args) {
  Dict* d = dict_from(in, args);
  for (const Dict::Entry& e : *d) {
    if (e.key.is_str() && e.key.s->view().starts_with('_')) {
      fail("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
                                std::string(e.key.s->view()) + "'. Please rename the attribute.");
    }
  }
  Value v = Value::of(Tag::kNamespace);
  v.ns = in.heap().make<Namespace>(d);
  return v;
}

Value make_cycler(Interp& in, const Args& args) {
  if (args.pos.empty()) fail("RuntimeError", "at least one item has to be provided");
  List* l = in.heap().make<List>();
  for (const Value& v : args.pos) l->push(in.heap(), v);
  Value v = Value::of(Tag::kCycler);
  v.cycler = in.heap().make<Cycler>(l);
  return v;
}

Value make_joiner(Interp& in, const Args& args) {
  const auto a = in.bound(args, "joiner", std::array<std::string_view, 1>{"sep"}, 0);
  Value v = Value::of(Tag::kJoiner);
  v.joiner = in.heap().make<Joiner>(a[0].missing() ? in.text(", ") : a[0]);
  return v;
}

Value raise_exception(Interp& in, const Args& args) {
  const auto a = in.bound(args, "raise_exception", std::array<std::string_view, 1>{"message"}, 1);
  throw Failure{"TemplateError", std::string(in.to_str(a[0])->view()), true};
}

Value strftime_now(Interp& in, const Args& args) {
  const auto a = in.bound(args, "strftime_now", std::array<std::string_view, 1>{"format"}, 1);
  const Str* format = in.need_str(a[0], "strftime() argument 1");
  in.tick(format->size);
  return in.text(format_time(in.options().now, format->view()), origin_at(*format, 0));
}

Value lipsum(Interp&, const Args&) { fail("TypeError", "the function 'lipsum' is not supported"); }

constexpr Builtin kBuiltins[] = {
    {"range", make_range},          {"dict", make_dict},     {"namespace", make_namespace},
    {"cycler", make_cycler},        {"joiner", make_joiner}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now}, {"lipsum", lipsum},
};

}  // namespace

const Builtin* find_builtin(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kBuiltins), std::end(kBuiltins), [&](const Builtin& b) { return b.name == name; });
  return at == std::end(kBuiltins) ? nullptr : at;
}

}  // namespace bora::text::jinja
