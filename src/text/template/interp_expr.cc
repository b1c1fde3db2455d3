// Evaluation of expressions and calls.
#include <algorithm>

#include "text/template/interp.h"

namespace bora::text::jinja {

Value Interp::eval(const Node* n, Frame* f) {
  if (n->kind == Kind::kConst) return n->value;
  if (n->kind == Kind::kName) return load(n, f);
  const Deeper deeper(*this);
  tick();
  switch (n->kind) {
    case Kind::kTuple:
    case Kind::kList: return eval_list(n, f);
    case Kind::kDict: return eval_dict(n, f);
    case Kind::kCond: return eval_cond(n, f);
    case Kind::kAnd:
    case Kind::kOr: return eval_logic(n, f);
    case Kind::kNot: return Value::boolean(!truth(eval(n->a, f)));
    case Kind::kCompare: return eval_compare(n, f);
    case Kind::kArith: return eval_arith(n, f);
    case Kind::kConcat: return eval_concat(n, f);
    case Kind::kNegate:
    case Kind::kPlus: return eval_sign(n, f);
    case Kind::kAttribute: return attribute(eval(n->a, f), n->text, n);
    case Kind::kItem: return eval_item(n, f);
    case Kind::kCall: return eval_call(n, f, nullptr);
    case Kind::kFilter: return eval_filter(n, f, nullptr);
    case Kind::kTest: return eval_test(n, f);
    case Kind::kSlice: fail("TypeError", "a slice stands alone");
    default: break;
  }
  fail("TemplateRuntimeError", "not an expression");
}

Value Interp::load(const Node* n, Frame* f) {
  Frame* at = f;
  uint16_t hops = 0;
  for (uint32_t i = 0; i < n->slot_count; ++i) {
    for (; hops < n->slots[i].hops; ++hops) at = at->parent;
    const Value& v = at->slots[n->slots[i].index];
    if (!v.missing()) return v;
  }
  return load_global(n);
}

Value Interp::load_global(const Node* n) {
  Value& known = globals_[n->name];
  if (!known.missing()) return known;
  const std::string& name = program_.names[n->name];
  if (const Builtin* b = find_builtin(name)) {
    known = Value::of(Tag::kBuiltin);
    known.builtin = b;
    return known;
  }
  if (name == "self") {
    known = Value::of(Tag::kSelf);
    return known;
  }
  return undefined({.kind = Undefined::Kind::kName, .object = {}, .element = {}, .name = name});
}

Value Interp::eval_list(const Node* n, Frame* f) {
  List* l = heap_.make<List>();
  l->items = heap_.array<Value>(n->list.size);
  l->capacity = n->list.size;
  for (const Node* item : n->list) l->items[l->size++] = eval(item, f);
  return Value::seq(n->kind == Kind::kList ? Tag::kList : Tag::kTuple, l);
}

Value Interp::eval_dict(const Node* n, Frame* f) {
  Dict* d = heap_.make<Dict>();
  for (uint32_t i = 0; i < n->list.size; ++i) {
    const Value key = eval(n->list[i], f);
    if (!hashable(key)) fail("TypeError", "unhashable type: '" + std::string(type_name(key)) + "'");
    d->set(heap_, key, eval(n->other[i], f));
  }
  return Value::dictionary(d);
}

Value Interp::eval_cond(const Node* n, Frame* f) {
  if (truth(eval(n->b, f))) return eval(n->a, f);
  if (n->c != nullptr) return eval(n->c, f);
  return undefined_hint("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interp::eval_logic(const Node* n, Frame* f) {
  const bool stop_at = n->kind == Kind::kOr;
  Value v;
  for (const Node* part : n->list) {
    v = eval(part, f);
    if (truth(v) == stop_at) return v;
  }
  return v;
}

Value Interp::eval_compare(const Node* n, Frame* f) {
  Value left = eval(n->list[0], f);
  for (uint32_t i = 1; i < n->list.size; ++i) {
    const Value right = eval(n->list[i], f);
    if (!compare(static_cast<Compare>(n->ops[i - 1]), left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interp::eval_arith(const Node* n, Frame* f) {
  Value left = eval(n->list[0], f);
  for (uint32_t i = 1; i < n->list.size; ++i)
    left = binary(static_cast<Arith>(n->ops[i - 1]), left, eval(n->list[i], f));
  return left;
}

Value Interp::eval_concat(const Node* n, Frame* f) {
  std::vector<const Str*> parts;
  parts.reserve(n->list.size);
  for (const Node* part : n->list) parts.push_back(to_str(eval(part, f)));
  const Str* all = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    tick((all->size + parts[i]->size) / 256);
    if (size_t{all->size} + parts[i]->size > text_limit()) fail_limit("a text grows beyond the limit");
    all = concat(heap_, *all, *parts[i]);
  }
  return Value::str(all);
}

Value Interp::eval_sign(const Node* n, Frame* f) {
  const Value v = eval(n->a, f);
  need_defined(v);
  const bool minus = n->kind == Kind::kNegate;
  if (!v.is_number()) {
    fail("TypeError",
         std::string("bad operand type for unary ") + (minus ? "-" : "+") + ": '" + std::string(type_name(v)) + "'");
  }
  if (minus) return negate(heap_, v);
  return v.tag == Tag::kBool ? Value::integer(v.b) : v;
}

Value Interp::eval_item(const Node* n, Frame* f) {
  const Value base = eval(n->a, f);
  if (n->b->kind != Kind::kSlice) return item(base, eval(n->b, f));
  const auto part = [&](const Node* p) { return p == nullptr ? Value::none() : eval(p, f); };
  const Value from = part(n->b->a), to = part(n->b->b), step = part(n->b->c);
  return slice_of(base, from, to, step);
}

// ---- Calls

struct Interp::Arguments {
  std::vector<Value> pos;
  std::vector<KeyValue> named;
  Args args() const { return {pos, named}; }
};

void Interp::collect(const Node* n, Frame* f, Arguments* out) {
  out->pos.reserve(n->list.size + 1);
  for (const Node* a : n->list) out->pos.push_back(eval(a, f));
  for (uint32_t i = 0; i < n->other.size; ++i) out->named.push_back({n->keys[i], eval(n->other[i], f)});
  // A filter's b and c are free for this too.
  if (n->b != nullptr) {
    Iter* more = iterate(eval(n->b, f));
    Value v;
    while (more->next(*this, &v)) {
      tick();
      out->pos.push_back(v);
    }
  }
  if (n->c != nullptr) {
    const Value more = eval(n->c, f);
    if (!more.is_dict())
      fail("TypeError", "argument after ** must be a mapping, not " + std::string(type_name(more)));
    for (const Dict::Entry& e : *more.dict) {
      if (!e.key.is_str()) fail("TypeError", "keywords must be strings");
      out->named.push_back({e.key.s, e.value});
    }
  }
}

Value Interp::eval_call(const Node* n, Frame* f, const Value* caller) {
  const Value callee = eval(n->a, f);
  Arguments arguments;
  collect(n, f, &arguments);
  if (caller != nullptr) arguments.named.push_back({str("caller"), *caller});
  return call(callee, arguments.args());
}

Value Interp::eval_filter(const Node* n, Frame* f, const Value* block) {
  Arguments arguments;
  if (n->a != nullptr) {
    // The innermost filter of a block's chain has no input of its own.
    arguments.pos.push_back(block != nullptr && n->a->kind == Kind::kFilter ? eval_filter(n->a, f, block)
                                                                            : eval(n->a, f));
  } else {
    arguments.pos.push_back(*block);
  }
  if (n->filter == nullptr)
    fail("TemplateRuntimeError", "No filter named '" + std::string(n->text->view()) + "' found.");
  collect(n, f, &arguments);
  return n->filter->call(*this, arguments.args());
}

Value Interp::eval_test(const Node* n, Frame* f) {
  Arguments arguments;
  arguments.pos.push_back(eval(n->a, f));
  if (n->test == nullptr) fail("TemplateRuntimeError", "No test named '" + std::string(n->text->view()) + "' found.");
  if (n->list.size + n->other.size > 0 || n->b != nullptr || n->c != nullptr) collect(n, f, &arguments);
  return Value::boolean(n->test->call(*this, arguments.args()) != n->flag);
}

Value Interp::call_filter(std::string_view name, const Args& args) {
  const Filter* filter = find_filter(name);
  if (filter == nullptr) fail("TemplateRuntimeError", "No filter named '" + std::string(name) + "'.");
  tick();
  return filter->call(*this, args);
}

bool Interp::call_test(std::string_view name, const Args& args) {
  const Test* test = find_test(name);
  if (test == nullptr) fail("TemplateRuntimeError", "No test named '" + std::string(name) + "'.");
  tick();
  return test->call(*this, args);
}

Value Interp::call(const Value& callee, const Args& args) {
  const Deeper deeper(*this);
  switch (callee.tag) {
    case Tag::kUndefined: fail_undefined(callee);
    case Tag::kBuiltin: return callee.builtin->call(*this, args);
    case Tag::kMethod: return callee.method->method->call(*this, callee.method->self, args);
    case Tag::kMacro: return call_macro(*callee.macro, args);
    case Tag::kLoop: return call_loop(callee.loop, args);
    case Tag::kJoiner:
      if (callee.joiner->used) return callee.joiner->separator;
      callee.joiner->used = true;
      return text("");
    default: break;
  }
  fail("TypeError", "'" + std::string(type_name(callee)) + "' object is not callable");
}

Value Interp::call_loop(Loop* loop, const Args& args) {
  if (!loop->node->flag) {
    fail("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
  }
  if (args.pos.size() != 1 || !args.named.empty()) fail("TypeError", "loop() takes one argument");
  return run_loop(loop->node, loop->frame, args.pos[0], loop->depth0 + 1);
}

Value Interp::call_macro(const Macro& m, const Args& args) {
  if (++calls_ > options_.limits.depth) too_deep();
  Frame* f = new_frame(m.frame, m.node->slot_count);
  bind_macro(m, args, f);
  const Str* text = captured(m.node->body, f);
  --calls_;
  return Value::str(text);
}

// As Macro.__call__ of Jinja2: positional, then by name, then what the body asks for by naming it.
void Interp::bind_macro(const Macro& m, const Args& args, Frame* f) {
  const NodeList& params = m.node->list;
  const std::string name = m.name == nullptr ? "None" : "'" + std::string(m.name->view()) + "'";
  std::vector<bool> used(args.named.size());
  const auto take = [&](std::string_view key) -> const Value* {
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (!used[i] && args.named[i].key->view() == key) {
        used[i] = true;
        return &args.named[i].value;
      }
    }
    return nullptr;
  };
  const size_t first_default = params.size - m.node->other.size;
  for (size_t i = 0; i < params.size; ++i) {
    Value& slot = f->slots[params[i]->slot];
    if (i < args.pos.size()) {
      slot = args.pos[i];
    } else if (const Value* v = take(params[i]->text->view())) {
      slot = *v;
    } else if (i < first_default) {
      slot = undefined(
          {.kind = Undefined::Kind::kParameter, .object = {}, .element = {}, .name = params[i]->text->view()});
    }
  }
  for (size_t i = first_default; i < params.size; ++i) {
    Value& slot = f->slots[params[i]->slot];
    if (slot.missing()) slot = eval(m.node->other[i - first_default], f);
  }
  const uint8_t catches = m.node->catches;
  if ((catches & kCatchCaller) != 0 && (catches & kExplicitCaller) == 0) {
    const Value* caller = take("caller");
    f->slots[0] = caller != nullptr ? *caller : undefined_hint("No caller defined");
  }
  if ((catches & kCatchKwargs) != 0) {
    Dict* rest = heap_.make<Dict>();
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) rest->set(heap_, Value::str(args.named[i].key), args.named[i].value);
    }
    f->slots[1] = Value::dictionary(rest);
  } else if (const auto left = std::find(used.begin(), used.end(), false); left != used.end()) {
    fail("TypeError", "macro " + name + " takes no keyword argument '" +
                          std::string(args.named[static_cast<size_t>(left - used.begin())].key->view()) + "'");
  }
  if ((catches & kCatchVarargs) != 0) {
    List* rest = heap_.make<List>();
    for (size_t i = params.size; i < args.pos.size(); ++i) rest->push(heap_, args.pos[i]);
    f->slots[2] = Value::seq(Tag::kTuple, rest);
  } else if (args.pos.size() > params.size) {
    fail("TypeError", "macro " + name + " takes not more than " + std::to_string(params.size) + " argument(s)");
  }
}

void Interp::bind(const Args& args, std::string_view function, std::span<const std::string_view> names,
                  size_t required, Value* out) {
  const std::string name(function);
  if (args.pos.size() > names.size()) {
    fail("TypeError", name + "() takes at most " + std::to_string(names.size()) + " arguments (" +
                          std::to_string(args.pos.size()) + " given)");
  }
  std::copy(args.pos.begin(), args.pos.end(), out);
  for (const KeyValue& kv : args.named) {
    const auto at = std::find(names.begin(), names.end(), kv.key->view());
    if (at == names.end())
      fail("TypeError", name + "() got an unexpected keyword argument '" + std::string(kv.key->view()) + "'");
    Value& slot = out[at - names.begin()];
    if (!slot.missing()) fail("TypeError", name + "() got multiple values for argument '" + std::string(*at) + "'");
    slot = kv.value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (out[i].missing()) fail("TypeError", name + "() missing a required argument: '" + std::string(names[i]) + "'");
  }
}

}  // namespace bora::text::jinja
