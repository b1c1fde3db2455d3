// Values, numbers, strings and lists.
#include "text/grammar/schema_emit.h"

#include <algorithm>

#include "text/grammar/trie_nodes.h"

namespace bora::text {

SchemaEmitter::SchemaEmitter(SchemaModel* model, ProgramBuilder* out) : model_(model), out_(out) {
  auto limit = std::chrono::duration<double>(model->limits().compile_seconds);
  deadline_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
}

Status SchemaEmitter::check_time() const {
  if (std::chrono::steady_clock::now() > deadline_) return resource_exhausted("schema: compiling takes too long");
  if (static_cast<int64_t>(out_->size() * sizeof(Node)) > model_->limits().memory_bytes) {
    return resource_exhausted("schema: the compiled form is larger than the memory limit");
  }
  return ok_status();
}

bool SchemaEmitter::never(const RefSet& refs) const {
  return std::any_of(refs.begin(), refs.end(),
                     [](const SchemaRef& r) { return r.node->is_bool() && r.node->as_bool() == r.negated; });
}

RuleId SchemaEmitter::value_rule(const RefSet& refs) {
  bool trivial = std::all_of(refs.begin(), refs.end(), [](const SchemaRef& r) {
    if (r.negated) return false;
    return r.node->is_bool() ? r.node->as_bool() : r.node->is_object() && r.node->size() == 0;
  });
  if (trivial) return any_value();
  auto [it, fresh] = rules_.emplace(refs, 0);
  if (fresh) {
    it->second = out_->new_rule();
    queue_.emplace_back(refs, it->second);
  }
  return it->second;
}

Result<RuleId> SchemaEmitter::document(const RefSet& refs) {
  RuleId root = out_->new_rule();
  out_->set_rule(root, out_->ws(out_->call(value_rule(refs), out_->ws(out_->ret()))));
  while (!queue_.empty()) {
    auto [set, rule] = std::move(queue_.back());
    queue_.pop_back();
    BORA_TRY(check_time());
    BORA_ASSIGN(Alternatives alts, model_->expand(set));
    BORA_ASSIGN(NodeId start, alternatives(alts));
    out_->set_rule(rule, start);
  }
  return root;
}

Result<NodeId> SchemaEmitter::alternatives(const Alternatives& alts) {
  std::vector<NodeId> options;
  for (const Alternative& a : alts) {
    BORA_ASSIGN(NodeId start, alternative(a, out_->ret()));
    options.push_back(start);
  }
  return out_->split(std::move(options));
}

Result<NodeId> SchemaEmitter::alternative(const Alternative& alt, NodeId next) {
  if (alt.values) return literal_values(alt, next);
  std::vector<NodeId> options;
  auto excluded = [&alt](const Json& v) {
    return std::any_of(alt.excluded.begin(), alt.excluded.end(), [&v](const Json* x) { return *x == v; });
  };
  if ((alt.types & kNull) != 0 && !excluded(Json())) options.push_back(out_->literal("null", false, next));
  if ((alt.types & kBool) != 0 && !excluded(Json(true))) options.push_back(out_->literal("true", false, next));
  if ((alt.types & kBool) != 0 && !excluded(Json(false))) options.push_back(out_->literal("false", false, next));
  if ((alt.types & kNumeric) != 0) {
    BORA_ASSIGN(NodeId start, numbers(alt, next));
    options.push_back(start);
  }
  if ((alt.types & kText) != 0) {
    BORA_ASSIGN(NodeId body, text_body(alt, {}, quote(next)));
    if (body != out_->dead()) options.push_back(quote(body));
  }
  for (const Json* v : alt.excluded) {
    bool is_list = v->is_array() && (alt.types & kList) != 0;
    bool is_object = v->is_object() && (alt.types & kObject) != 0;
    if (is_list || is_object) return model_->fail(v, "", "\"not\" of a list or an object value is not supported");
  }
  if ((alt.types & kList) != 0) {
    BORA_ASSIGN(NodeId start, list(alt, next));
    options.push_back(start);
  }
  if ((alt.types & kObject) != 0) {
    BORA_ASSIGN(NodeId start, object(alt, next));
    options.push_back(start);
  }
  return out_->split(std::move(options));
}

// Any JSON value, made once.
RuleId SchemaEmitter::any_value() {
  if (any_ != UINT32_MAX) return any_;
  any_ = out_->new_rule();
  NodeId ret = out_->ret();
  auto sequence = [this, ret](char open, char close, auto&& item) {
    NodeId end = out_->chr(static_cast<uint32_t>(close), false, ret);
    NodeId loop = out_->reserve();
    NodeId first = item(loop);
    out_->set_split(loop, {comma(first), end});
    return out_->chr(static_cast<uint32_t>(open), false, out_->ws(out_->split({first, end})));
  };
  auto element = [this](NodeId after) { return out_->call(any_, out_->ws(after)); };
  auto pair = [this, &element](NodeId after) {
    NodeId colon = out_->ws(out_->chr(':', false, out_->ws(element(after))));
    return quote(out_->string_body(0, kUnbounded, quote(colon)));
  };
  out_->set_rule(any_, out_->split({out_->literal("null", false, ret), out_->literal("true", false, ret),
                                    out_->literal("false", false, ret), plain_number(false, ret),
                                    quote(out_->string_body(0, kUnbounded, quote(ret))), sequence('[', ']', element),
                                    sequence('{', '}', pair)}));
  return any_;
}

// Numbers without limits are a small loop of bytes. Integers may be written 1.0 or 1e2; forms whose value only an
// exponent makes whole (1.5e1) are left out.
NodeId SchemaEmitter::plain_number(bool integer, NodeId next) {
  auto digits = [this](uint32_t lo, NodeId after) {
    NodeId loop = out_->reserve();
    NodeId digit = out_->span(lo, lo == '0' ? '9' : '0', false, loop);
    if (lo != '0') digit = out_->chr('0', false, loop);
    out_->set_split(loop, {digit, after});
    return digit;
  };
  // Two exponent digits keep a whole number inside the range of a double.
  NodeId last_digit = out_->span('0', '9', false, next);
  NodeId exponent_digits = integer ? out_->span('0', '9', false, out_->split({last_digit, next})) : digits('0', next);
  NodeId plus = out_->chr('+', false, exponent_digits);
  NodeId minus = integer ? out_->dead() : out_->chr('-', false, exponent_digits);
  NodeId exponent_tail = out_->split({exponent_digits, plus, minus});
  NodeId exponent = out_->split({out_->chr('e', false, exponent_tail), out_->chr('E', false, exponent_tail)});
  NodeId after_fraction = out_->split({exponent, next});
  NodeId fraction = out_->chr('.', false, digits(integer ? 1 : '0', after_fraction));
  NodeId tail = out_->split({fraction, exponent, next});
  NodeId more = out_->reserve();
  out_->set_split(more, {out_->span('0', '9', false, more), tail});
  NodeId whole = out_->split({out_->chr('0', false, tail), out_->span('1', '9', false, more)});
  return out_->split({whole, out_->chr('-', false, whole)});
}

Result<NodeId> SchemaEmitter::numbers(const Alternative& alt, NodeId next) {
  NumberRange range = alt.number;
  bool integer = (alt.types & kFraction) == 0;
  if ((alt.types & kInteger) == 0) {
    return unimplemented("schema: \"number but not integer\" is not supported");
  }
  if (integer) {
    // Whole multiples of multiple * 10^scale.
    uint64_t unit = 1;
    for (int32_t s = range.scale; s < 0; ++s) unit *= 10;
    if (range.multiple == 0) range.multiple = 1;
    uint64_t u = range.multiple;
    uint64_t v = unit;
    while (v != 0) {
      uint64_t t = u % v;
      u = v;
      v = t;
    }
    range.multiple = range.multiple / u;
    range.scale = 0;
  }
  std::vector<Decimal> holes;
  for (const Json* v : alt.excluded) {
    if (v->is_number()) holes.push_back(v->is_int() ? decimal_of(v->as_int()) : decimal_of(v->as_double()));
  }
  bool free = !range.min && !range.max && holes.empty();
  if (free && integer && range.multiple == 1) return plain_number(true, next);
  if (free && !integer && range.multiple == 0) return plain_number(false, next);
  std::sort(holes.begin(), holes.end(), [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
  std::vector<NodeId> options;
  for (const Decimal& hole : holes) {
    NumberRange below = range;
    if (!below.max || compare(hole, *below.max) <= 0) {
      below.max = hole;
      below.open_max = true;
    }
    options.push_back(out_->number(below, next));
    if (!range.min || compare(hole, *range.min) >= 0) {
      range.min = hole;
      range.open_min = true;
    }
  }
  options.push_back(out_->number(range, next));
  return out_->split(std::move(options));
}

Result<NodeId> SchemaEmitter::literal_values(const Alternative& alt, NodeId next) {
  std::vector<std::string> words;
  std::vector<NodeId> options;
  for (const Json* v : *alt.values) {
    BORA_ASSIGN(bool ok, model_->admits_shape(alt, *v));
    if (!ok) continue;
    if (v->is_string()) {
      words.push_back(v->as_string());
      continue;
    }
    BORA_ASSIGN(NodeId start, literal(*v, next));
    options.push_back(start);
  }
  if (!words.empty()) {
    BORA_ASSIGN(NodeId body, word_trie(std::move(words), true, quote(next), out_));
    options.push_back(quote(body));
  }
  return out_->split(std::move(options));
}

// One value in any spelling of its strings and numbers and with free white space; members in the order given.
Result<NodeId> SchemaEmitter::literal(const Json& value, NodeId next) {
  if (value.is_null()) return out_->literal("null", false, next);
  if (value.is_bool()) return out_->literal(value.as_bool() ? "true" : "false", false, next);
  if (value.is_number()) {
    NumberRange range;
    range.min = range.max = value.is_int() ? decimal_of(value.as_int()) : decimal_of(value.as_double());
    return out_->number(range, next);
  }
  if (value.is_string()) return quote(out_->literal(value.as_string(), true, quote(next)));
  bool is_list = value.is_array();
  NodeId at = out_->chr(is_list ? ']' : '}', false, next);
  for (size_t i = value.size(); i-- > 0;) {
    NodeId after = out_->ws(i + 1 < value.size() ? comma(at) : at);
    if (is_list) {
      BORA_ASSIGN(at, literal(value.items()[i], after));
      continue;
    }
    const auto& [name, member] = value.members()[i];
    BORA_ASSIGN(NodeId start, literal(member, after));
    NodeId colon = out_->ws(out_->chr(':', false, out_->ws(start)));
    at = quote(out_->literal(name, true, quote(colon)));
  }
  return out_->chr(is_list ? '[' : '{', false, out_->ws(at));
}

Result<NodeId> SchemaEmitter::text_body(const Alternative& alt, std::vector<std::string> taken, NodeId quote_node) {
  for (const Json* v : alt.excluded) {
    if (v->is_string()) taken.push_back(v->as_string());
  }
  if (alt.values) {
    std::vector<std::string> words;
    for (const Json* v : *alt.values) {
      if (!v->is_string() || std::find(taken.begin(), taken.end(), v->as_string()) != taken.end()) continue;
      BORA_ASSIGN(bool ok, model_->admits_shape(alt, *v));
      if (ok) words.push_back(v->as_string());
    }
    return word_trie(std::move(words), true, quote_node, out_);
  }
  bool lengths = alt.min_length > 0 || alt.max_length != kUnbounded;
  size_t shapes = alt.patterns.size() + alt.formats.size();
  if (shapes == 0 && taken.empty()) return out_->string_body(alt.min_length, alt.max_length, quote_node);
  if (shapes == 0 && !lengths) return other_words(std::move(taken), quote_node, out_);
  bool single = shapes == 1 && !lengths && taken.empty() && (alt.patterns.empty() || !alt.patterns[0].negated);
  if (!single) return text_dfa(alt, taken, quote_node);
  auto parsed =
      alt.patterns.empty() ? model_->format_expr(alt.formats[0]) : model_->pattern_expr(alt.patterns[0].text);
  if (!parsed.ok()) return std::move(parsed).take_status();
  Expr e = std::move(*parsed);
  if (has_assert(e)) return text_dfa(alt, taken, quote_node);
  return compile_expr(e, true, quote_node, out_);
}

// Several constraints on one string: their automata are intersected.
Result<NodeId> SchemaEmitter::text_dfa(const Alternative& alt, const std::vector<std::string>& taken,
                                       NodeId quote_node) {
  Dfa all = Dfa::any();
  auto add = [&all](Result<Dfa> dfa, bool negated) -> Status {
    if (!dfa.ok()) return std::move(dfa).take_status().with_context("schema: string constraints");
    Result<Dfa> both = all.intersect(negated ? dfa->complement() : *dfa);
    if (!both.ok()) return std::move(both).take_status().with_context("schema: string constraints");
    all = std::move(*both);
    return ok_status();
  };
  for (const PatternRef& p : alt.patterns) BORA_TRY(add(model_->pattern_dfa(p.text), p.negated));
  for (const std::string& f : alt.formats) {
    BORA_TRY(add(model_->format_dfa(f), false));
  }
  if (alt.min_length > 0 || alt.max_length != kUnbounded) {
    if (std::max(alt.min_length, alt.max_length == kUnbounded ? 0 : alt.max_length) > Dfa::kMaxStates) {
      return unimplemented("schema: a pattern together with lengths above " + std::to_string(Dfa::kMaxStates));
    }
    Expr length = Expr::repeat(Expr::cls(CharClass::any()), alt.min_length, alt.max_length);
    BORA_TRY(add(Dfa::from_expr(length, false), false));
  }
  if (!taken.empty()) {
    std::vector<Expr> words;
    for (const std::string& w : taken) {
      std::vector<Expr> chars;
      for (size_t pos = 0; pos < w.size();) {
        auto c = decode_utf8(w, &pos);
        if (!c) break;
        chars.push_back(Expr::cls(CharClass::single(*c)));
      }
      words.push_back(Expr::concat(std::move(chars)));
    }
    BORA_TRY(add(Dfa::from_expr(Expr::alt(std::move(words)), false), true));
  }
  if (all.empty()) return out_->dead();
  return all.compile(true, quote_node, out_);
}

Result<NodeId> SchemaEmitter::list(const Alternative& alt, NodeId next) {
  NodeId close = out_->chr(']', false, next);
  size_t prefix = 0;
  for (const Json* layer : alt.list_layers) {
    if (const Json* p = layer->find("prefixItems")) prefix = std::max(prefix, p->size());
  }
  prefix = std::min<size_t>(prefix, alt.max_items);
  RefSet rest = model_->element_refs(alt, prefix);
  bool open = alt.max_items > prefix && !never(rest);
  auto element = [this, &alt](size_t i, NodeId after) {
    return out_->call(value_rule(model_->element_refs(alt, i)), out_->ws(after));
  };
  auto left = [prefix](uint32_t n, uint32_t used) {
    uint32_t before = static_cast<uint32_t>(prefix) + used;
    return n == kUnbounded ? n : (n > before ? n - before : 0);
  };
  // After `used` elements of the open tail.
  auto tail = [&](uint32_t used) {
    uint32_t min = left(alt.min_items, used);
    uint32_t max = open ? left(alt.max_items, used) : 0;
    if (min > max) return out_->dead();
    if (max == 0) return close;
    if (min == 0 && max == kUnbounded) {
      NodeId loop = out_->reserve();
      out_->set_split(loop, {comma(element(prefix, loop)), close});
      return loop;
    }
    RuleId more = out_->new_rule();
    out_->set_rule(more, comma(element(prefix, out_->ret())));
    return out_->repeat(more, min, max, close);
  };
  if (prefix == 0) {
    NodeId first = open ? element(0, tail(1)) : out_->dead();
    return out_->chr('[', false, out_->ws(out_->split({first, alt.min_items == 0 ? close : out_->dead()})));
  }
  NodeId at = tail(0);
  for (size_t i = prefix; i-- > 0;) {
    RefSet refs = model_->element_refs(alt, i);
    NodeId item = never(refs) ? out_->dead() : element(i, at);
    if (i > 0) item = item == out_->dead() ? item : comma(item);
    at = out_->split({item, alt.min_items <= i ? close : out_->dead()});
  }
  return out_->chr('[', false, out_->ws(at));
}

}  // namespace bora::text
