#include "text/template/interp.h"

#include <algorithm>

namespace bora::text::jinja {

namespace {
// Memory of one render, as a multiple of the largest value.
constexpr size_t kHeapFactor = 4;
// Evaluation nests about this much deeper than the template's own calls and blocks.
constexpr int32_t kDepthFactor = 10;
}  // namespace

Interp::Interp(const Program& program, const RenderOptions& options)
    : program_(program),
      options_(options),
      heap_(kHeapFactor * static_cast<size_t>(options.limits.output_bytes) + (1 << 20)),
      steps_(options.limits.steps),
      max_depth_(options.limits.depth * kDepthFactor),
      globals_(program.names.size()),
      main_(static_cast<size_t>(options.limits.output_bytes)) {
  root_ = {nullptr, heap_.array<Value>(program.root_slots)};
}

void Interp::out_of_steps() {
  fail_limit("the template takes more than " + std::to_string(options_.limits.steps) + " steps");
}
void Interp::too_deep() {
  fail("RecursionError", "the template nests too deeply (limit " + std::to_string(options_.limits.depth) + ")");
}

void Interp::adapted(std::string_view name) {
  if (std::find(adaptations_.begin(), adaptations_.end(), name) == adaptations_.end())
    adaptations_.emplace_back(name);
}

Value Interp::undefined(Undefined u) {
  Value v = Value::of(Tag::kUndefined);
  v.undefined = heap_.make<Undefined>(u);
  return v;
}

Value Interp::undefined_hint(std::string_view hint) {
  return undefined({.kind = Undefined::Kind::kHint, .object = {}, .element = {}, .name = hint});
}

void Interp::fail_undefined(const Value& v) {
  const Undefined& u = *v.undefined;
  const std::string name(u.name);
  switch (u.kind) {
    case Undefined::Kind::kName: fail("UndefinedError", "'" + name + "' is undefined");
    case Undefined::Kind::kAttribute:
      fail("UndefinedError", "'" + object_name(u.object) + "' has no attribute '" + name + "'");
    case Undefined::Kind::kElement: {
      StrBuilder text(4096);
      append_repr(*this, u.element, &text, 0);
      fail("UndefinedError", object_name(u.object) + " has no element " + std::string(text.view()));
    }
    case Undefined::Kind::kUnsafe:
      fail("SecurityError",
           "access to attribute '" + name + "' of '" + std::string(type_name(u.object)) + "' object is unsafe.");
    case Undefined::Kind::kParameter: fail("UndefinedError", "parameter '" + name + "' was not provided");
    case Undefined::Kind::kHint: break;
  }
  fail("UndefinedError", name);
}

Value Interp::tuple_of(std::initializer_list<Value> items) {
  List* l = heap_.make<List>();
  l->items = heap_.array<Value>(items.size());
  l->size = l->capacity = static_cast<uint32_t>(items.size());
  std::copy(items.begin(), items.end(), l->items);
  return Value::seq(Tag::kTuple, l);
}

Frame* Interp::new_frame(Frame* parent, uint32_t slots) {
  return heap_.make<Frame>(parent, heap_.array<Value>(slots));
}

// ---- Output

// Redirects output into a string while it lives.
class Interp::Capture {
 public:
  explicit Capture(Interp& in) : in_(in), outer_(in.out_), text_(in.text_limit()) { in.out_ = &text_; }
  ~Capture() { in_.out_ = outer_; }
  const Str* finish() const { return text_.finish(in_.heap_); }

 private:
  Interp& in_;
  StrBuilder* outer_;
  StrBuilder text_;
};

const Str* Interp::captured(const NodeList& body, Frame* f) {
  Capture capture(*this);
  exec_all(body, f);
  return capture.finish();
}

void Interp::emit(const Value& v) {
  if (autoescape_ && !(v.is_str() && v.s->markup)) {
    out_->append(*escape_html(*this, v));
  } else if (v.is_str()) {
    tick(v.s->size / 64);
    out_->append(*v.s);
  } else {
    append_str(*this, v, out_);
  }
}

// ---- Statements

Interp::Flow Interp::exec_all(const NodeList& body, Frame* f) {
  for (const Node* n : body) {
    const Flow flow = exec(n, f);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interp::Flow Interp::exec(const Node* n, Frame* f) {
  const Deeper deeper(*this);
  tick();
  switch (n->kind) {
    case Kind::kData: out_->append(n->text->view(), true); return Flow::kNext;
    case Kind::kOutput:
      for (const Node* part : n->list) emit(eval(part, f));
      return Flow::kNext;
    case Kind::kIf: return exec_if(n, f);
    case Kind::kFor: {
      Flow flow = Flow::kNext;
      run_loop_into(n, f, eval(n->b, f), 0, &flow);
      return flow;
    }
    case Kind::kSet: assign(n->a, eval(n->b, f), f); return Flow::kNext;
    case Kind::kSetBlock: exec_set_block(n, f); return Flow::kNext;
    case Kind::kMacro: {
      Value v = Value::of(Tag::kMacro);
      v.macro = heap_.make<Macro>(n, f, n->text);
      f->slots[n->slot] = v;
      return Flow::kNext;
    }
    case Kind::kCallBlock: exec_call_block(n, f); return Flow::kNext;
    case Kind::kFilterBlock: exec_filter_block(n, f); return Flow::kNext;
    case Kind::kWith: return exec_with(n, f);
    case Kind::kScoped: return exec_all(n->body, new_frame(f, n->slot_count));
    case Kind::kAutoescape: return exec_autoescape(n, f);
    case Kind::kBreak: return Flow::kBreak;
    case Kind::kContinue: return Flow::kContinue;
    case Kind::kLoader: fail("TypeError", "no loader for this environment specified");
    default: break;
  }
  fail("TemplateRuntimeError", "not a statement");
}

Interp::Flow Interp::exec_if(const Node* n, Frame* f) {
  for (const Node* branch : n->list) {
    if (truth(eval(branch->a, f))) return exec_all(branch->body, f);
  }
  return exec_all(n->other, f);
}

Interp::Flow Interp::exec_with(const Node* n, Frame* f) {
  Frame* inner = new_frame(f, n->slot_count);
  std::vector<Value> values;
  for (const Node* v : n->other) values.push_back(eval(v, f));
  for (size_t i = 0; i < values.size(); ++i) assign(n->list[i], values[i], inner);
  return exec_all(n->body, inner);
}

Interp::Flow Interp::exec_autoescape(const Node* n, Frame* f) {
  const bool outer = autoescape_;
  autoescape_ = truth(eval(n->a, f));
  const Flow flow = exec_all(n->body, new_frame(f, n->slot_count));
  autoescape_ = outer;
  return flow;
}

void Interp::exec_set_block(const Node* n, Frame* f) {
  Value v = Value::str(captured(n->body, new_frame(f, n->slot_count)));
  if (n->c != nullptr) v = eval_filter(n->c, f, &v);
  assign(n->a, v, f);
}

void Interp::exec_call_block(const Node* n, Frame* f) {
  Value caller = Value::of(Tag::kMacro);
  caller.macro = heap_.make<Macro>(n, f, nullptr);
  emit(eval_call(n->a, f, &caller));
}

void Interp::exec_filter_block(const Node* n, Frame* f) {
  const Value v = Value::str(captured(n->body, new_frame(f, n->slot_count)));
  emit(eval_filter(n->c, f, &v));
}

void Interp::assign(const Node* target, const Value& v, Frame* f) {
  switch (target->kind) {
    case Kind::kName: f->slots[target->slot] = v; return;
    case Kind::kNsRef: {
      const Value ns = load(target->a, f);
      if (ns.tag != Tag::kNamespace) fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      if (target->text->view().starts_with('_')) {
        fail("SecurityError", "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
                                  std::string(target->text->view()) + "'. Please rename the attribute.");
      }
      ns.ns->attrs->set(heap_, Value::str(target->text), v);
      return;
    }
    default: break;
  }
  if (!iterable(v)) fail("TypeError", "cannot unpack non-iterable " + std::string(type_name(v)) + " object");
  Iter* items = iterate(v);
  const size_t want = target->list.size;
  std::vector<Value> parts;
  Value item;
  while (parts.size() < want && items->next(*this, &item)) parts.push_back(item);
  if (parts.size() < want) {
    fail("ValueError", "not enough values to unpack (expected " + std::to_string(want) + ", got " +
                           std::to_string(parts.size()) + ")");
  }
  if (items->next(*this, &item))
    fail("ValueError", "too many values to unpack (expected " + std::to_string(want) + ")");
  for (size_t i = 0; i < want; ++i) assign(target->list[i], parts[i], f);
}

// ---- Loops

namespace {

// The items of a loop that pass its condition, tried one by one in a frame of their own.
class ConditionIter final : public Iter {
 public:
  ConditionIter(const Node* n, Frame* f, Iter* s) : node(n), frame(f), source(s) {}
  bool next(Interp& in, Value* out) override {
    while (source->next(in, out)) {
      in.tick();
      in.assign(node->a, *out, frame);
      if (in.truth(in.eval(node->c, frame))) return true;
    }
    return false;
  }

 private:
  const Node* node;
  Frame* frame;
  Iter* source;
};

}  // namespace

bool Interp::peek(Loop* loop) {
  if (loop->peeked) return true;
  if (loop->at_end) return false;
  loop->peeked = loop->source->next(*this, &loop->after);
  loop->at_end = !loop->peeked;
  return loop->peeked;
}

bool Interp::advance(Loop* loop) {
  if (!peek(loop)) return false;
  loop->peeked = false;
  ++loop->index0;
  loop->before = loop->current;
  loop->current = loop->after;
  return true;
}

int64_t Interp::loop_length(Loop* loop) {
  if (loop->length >= 0) return loop->length;
  loop->length = loop->source->size();
  if (loop->length >= 0) return loop->length;
  List* rest = heap_.make<List>();
  Value v;
  while (loop->source->next(*this, &v)) {
    tick();
    rest->push(heap_, v);
  }
  loop->source = iterate_list(heap_, rest);
  loop->length = rest->size + loop->index0 + 1 + (loop->peeked ? 1 : 0);
  return loop->length;
}

void Interp::run_loop_into(const Node* n, Frame* f, const Value& items, int32_t depth0, Flow* flow) {
  Iter* source = iterate(items);
  if (n->c != nullptr) source = heap_.make<ConditionIter>(n, new_frame(f, n->slot_count), source);
  Loop* loop = heap_.make<Loop>(n, f, source);
  loop->depth0 = depth0;
  Frame* inner = new_frame(f, n->slot_count);
  Value self = Value::of(Tag::kLoop);
  self.loop = loop;
  bool any = false;
  while (advance(loop)) {
    tick();
    any = true;
    if (loop->index0 > 0) std::fill(inner->slots, inner->slots + n->slot_count, Value());
    inner->slots[n->slot] = self;
    assign(n->a, loop->current, inner);
    if (exec_all(n->body, inner) == Flow::kBreak) break;
  }
  if (!any && n->other.size > 0) *flow = exec_all(n->other, new_frame(f, static_cast<uint32_t>(n->value.i)));
}

Value Interp::run_loop(const Node* n, Frame* f, const Value& items, int32_t depth0) {
  Capture capture(*this);
  Flow flow = Flow::kNext;
  run_loop_into(n, f, items, depth0, &flow);
  return Value::str(capture.finish());
}

}  // namespace bora::text::jinja
