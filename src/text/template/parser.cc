#include "text/template/parser.h"

#include <algorithm>
#include <utility>

namespace bora::text::jinja {

void parse_program(std::string_view source, int32_t depth, Program* out) {
  out->source = normalize_source(source);
  Parser(lex(out->source, out->heap), depth, out).parse();
}

void Parser::parse() {
  open_scope();
  out_->body = list_of(subparse({}));
  out_->root_slots = close_scope();
  if (!unknown_.empty()) {
    const Node* n = unknown_.front().node;
    fail_syntax(n->line,
                "No " + std::string(unknown_.front().what) + " named '" + std::string(n->text->view()) + "'.");
  }
  resolve();
}

// ---- Tokens

namespace {

std::string describe(const Token& t) {
  switch (t.type) {
    case Tok::kBlockBegin: return "begin of statement block";
    case Tok::kBlockEnd: return "end of statement block";
    case Tok::kVarBegin: return "begin of print statement";
    case Tok::kVarEnd: return "end of print statement";
    case Tok::kData: return "template data / text";
    case Tok::kEof: return "end of template";
    case Tok::kString: return "string";
    case Tok::kInteger: return "integer";
    case Tok::kFloat: return "float";
    default: return std::string(t.text);
  }
}

}  // namespace

const Token& Parser::next() {
  const Token& t = tokens_[pos_];
  if (t.type != Tok::kEof) ++pos_;
  return t;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  ++pos_;
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  ++pos_;
  return true;
}

void Parser::fail_expected(std::string_view what) const {
  if (cur().type == Tok::kEof) fail_here("unexpected end of template, expected '" + std::string(what) + "'.");
  fail_here("expected token '" + std::string(what) + "', got '" + describe(cur()) + "'");
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_expected(op);
}

std::string_view Parser::expect_name() {
  if (cur().type != Tok::kName) fail_expected("name");
  return next().text;
}

void Parser::expect(Tok type) {
  if (cur().type != type) fail_expected(describe({type, 0, {}}));
  ++pos_;
}

void Parser::fail_tag(std::string_view name, Names looking) const {
  std::string message =
      name.empty() ? "Unexpected end of template." : "Encountered unknown tag '" + std::string(name) + "'.";
  if (looking.size() > 0) {
    const bool nested = std::any_of(ends_.begin(), ends_.end(),
                                    [&](const Names& n) { return std::find(n.begin(), n.end(), name) != n.end(); });
    message += !name.empty() && nested
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                   : " Jinja was looking for the following tags: ";
    bool first = true;
    for (const std::string_view n : looking) {
      if (!first) message += " or ";
      first = false;
      message += "'" + std::string(n) + "'";
    }
    message += ".";
  }
  if (!tags_.empty())
    message += " The innermost block that needs to be closed is '" + std::string(tags_.back()) + "'.";
  fail_here(std::move(message));
}

// ---- Nodes

Node* Parser::node(Kind kind, int32_t line) {
  Node* n = out_->heap.make<Node>();
  n->kind = kind;
  n->line = line;
  return n;
}

NodeList Parser::list_of(const std::vector<Node*>& nodes) {
  NodeList l;
  l.items = out_->heap.array<Node*>(nodes.size());
  l.size = static_cast<uint32_t>(nodes.size());
  std::copy(nodes.begin(), nodes.end(), l.items);
  return l;
}

Node* Parser::sealed(Node* n) {
  int height = 0;
  const auto see = [&](const Node* child) {
    if (child != nullptr) height = std::max<int>(height, child->depth);
  };
  see(n->a);
  see(n->b);
  see(n->c);
  for (const NodeList* l : {&n->list, &n->body, &n->other}) {
    for (const Node* child : *l) see(child);
  }
  n->depth = static_cast<uint16_t>(height + 1);
  if (height >= 2 * limit_) fail_syntax(n->line, "nested too deeply (limit " + std::to_string(limit_) + ")");
  return n;
}

uint32_t Parser::number_of(std::string_view name) {
  const auto [at, fresh] = out_->name_numbers.emplace(std::string(name), static_cast<uint32_t>(out_->names.size()));
  if (fresh) {
    out_->names.emplace_back(name);
    out_->read.push_back(false);
    out_->tested.push_back(false);
  }
  return at->second;
}

const Str* Parser::text_of(std::string_view text) { return borrow_str(out_->heap, text, true); }

const Str* const* Parser::keys_of(const std::vector<const Str*>& keys) {
  const Str** items = out_->heap.array<const Str*>(keys.size());
  std::copy(keys.begin(), keys.end(), items);
  return items;
}

uint32_t Parser::declare(std::string_view name) {
  const auto slot = static_cast<uint32_t>(scope_->slots.size());
  const uint32_t at = scope_->slots.emplace(number_of(name), slot).first->second;
  if (at > 0xFFFF) fail_here("too many variables in one scope");
  return at;
}

void Parser::open_scope(bool macro) {
  scopes_.push_back({scope_, {}, 0, macro});
  scope_ = &scopes_.back();
}

uint32_t Parser::close_scope() {
  const Scope* done = scope_;
  scope_ = scope_->parent;
  return static_cast<uint32_t>(done->slots.size());
}

void Parser::resolve() {
  std::vector<Slot> found;
  for (const Read& r : reads_) {
    found.clear();
    uint16_t hops = 0;
    for (const Scope* s = r.scope; s != nullptr; s = s->parent, ++hops) {
      const auto at = s->slots.find(r.node->name);
      if (at != s->slots.end()) found.push_back({hops, static_cast<uint16_t>(at->second)});
    }
    Slot* slots = out_->heap.array<Slot>(found.size());
    std::copy(found.begin(), found.end(), slots);
    r.node->slots = slots;
    r.node->slot_count = static_cast<uint32_t>(found.size());
  }
}

// ---- Statements

std::vector<Node*> Parser::subparse(Names ends) {
  const Deep deep(this);
  std::vector<Node*> body;
  if (ends.size() > 0) ends_.push_back(ends);
  while (cur().type != Tok::kEof) {
    const int32_t line = cur().line;
    if (cur().type == Tok::kData) {
      Node* n = node(Kind::kData, line);
      n->text = text_of(next().text);
      body.push_back(n);
    } else if (cur().type == Tok::kVarBegin) {
      ++pos_;
      Node* n = node(Kind::kOutput, line);
      n->list = list_of({tuple(true, {}, false)});
      body.push_back(sealed(n));
      expect(Tok::kVarEnd);
    } else {
      expect(Tok::kBlockBegin);
      if (cur().type == Tok::kName && std::find(ends.begin(), ends.end(), cur().text) != ends.end()) break;
      body.push_back(sealed(statement(ends)));
      expect(Tok::kBlockEnd);
    }
  }
  if (ends.size() > 0) ends_.pop_back();
  return body;
}

NodeList Parser::statements(Names ends, bool drop) {
  skip_op(":");
  expect(Tok::kBlockEnd);
  const NodeList body = list_of(subparse(ends));
  if (cur().type == Tok::kEof) fail_tag({}, ends);
  if (drop) ++pos_;
  return body;
}

Node* Parser::statement(Names outer) {
  if (cur().type != Tok::kName) fail_here("tag name expected");
  const std::string_view tag = cur().text;
  tags_.push_back(tag);
  Node* n = nullptr;
  if (tag == "set")
    n = parse_set();
  else if (tag == "for")
    n = parse_for();
  else if (tag == "if")
    n = parse_if();
  else if (tag == "with")
    n = parse_with();
  else if (tag == "block" || tag == "generation" || tag == "autoescape")
    n = parse_scoped(tag);
  else if (tag == "extends" || tag == "include" || tag == "import" || tag == "from")
    n = parse_loader(tag);
  else if (tag == "macro")
    n = parse_macro();
  else if (tag == "call")
    n = parse_call_block();
  else if (tag == "filter")
    n = parse_filter_block();
  else if (tag == "print")
    n = parse_print();
  else if (tag == "break")
    n = parse_flow(Kind::kBreak);
  else if (tag == "continue")
    n = parse_flow(Kind::kContinue);
  else {
    tags_.pop_back();
    fail_tag(tag, outer);
  }
  tags_.pop_back();
  return n;
}

Node* Parser::target_part(bool namespaces) {
  const int32_t line = cur().line;
  if (skip_op("(")) {
    const Deep deep(this);
    Node* n = target(namespaces, {});
    expect_op(")");
    return n;
  }
  if (cur().type != Tok::kName) fail_here("unexpected '" + describe(cur()) + "'");
  const std::string_view name = next().text;
  for (const std::string_view fixed : {"true", "false", "none", "True", "False", "None"}) {
    if (name == fixed) fail_syntax(line, "can't assign to 'const'");
  }
  if (namespaces && is_op(".")) {
    ++pos_;
    Node* n = node(Kind::kNsRef, line);
    n->a = name_node(name, line);
    n->text = text_of(expect_name());
    return n;
  }
  Node* n = node(Kind::kName, line);
  n->name = number_of(name);
  n->slot = declare(name);
  return n;
}

Node* Parser::target(bool namespaces, std::string_view stop) {
  const int32_t line = cur().line;
  std::vector<Node*> parts;
  bool is_tuple = false;
  while (true) {
    if (cur().type == Tok::kBlockEnd || is_op(")") || (!stop.empty() && is_name(stop))) break;
    parts.push_back(target_part(namespaces));
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (parts.empty()) fail_here("Expected an expression, got '" + describe(cur()) + "'");
  if (!is_tuple) return parts[0];
  Node* n = node(Kind::kTuple, line);
  n->list = list_of(parts);
  return sealed(n);
}

// a: target, b: value; or kSetBlock: body, c: a filter chain whose innermost value is the block
Node* Parser::parse_set() {
  const int32_t line = next().line;
  // The value is read before the target is stored, but slots are by name, so the order of parsing does not matter.
  Node* to = target(true, {});
  if (skip_op("=")) {
    Node* n = node(Kind::kSet, line);
    n->a = to;
    n->b = tuple(true, {}, false);
    return n;
  }
  Node* n = node(Kind::kSetBlock, line);
  n->a = to;
  if (is_op("|")) n->c = parse_filter(nullptr, false);
  const bool soft = std::exchange(soft_, false);
  open_scope();
  n->body = statements({"endset"}, true);
  n->slot_count = close_scope();
  soft_ = soft;
  return n;
}

// a: target, b: iterable, c: condition, body, other: else; slot: of `loop`; flag: recursive; value: slots of the else
// scope
Node* Parser::parse_for() {
  const int32_t line = next().line;
  Node* n = node(Kind::kFor, line);
  Scope* const outside = scope_;
  open_scope();
  Scope* const inside = scope_;
  n->slot = declare("loop");
  n->a = target(false, "in");
  if (!skip_name("in")) fail_expected("in");
  scope_ = outside;
  n->b = tuple(false, "recursive", false);
  scope_ = inside;
  const bool soft = std::exchange(soft_, false);
  if (skip_name("if")) n->c = expression();
  n->flag = skip_name("recursive");
  ++loops_;
  n->body = statements({"endfor", "else"}, false);
  --loops_;
  n->slot_count = close_scope();
  if (next().text == "else") {
    open_scope();
    n->other = statements({"endfor"}, true);
    n->value = Value::integer(close_scope());
  }
  soft_ = soft;
  return n;
}

// list: conditions, each with its branch in `body`; other: else
Node* Parser::parse_if() {
  const int32_t line = cur().line;
  Node* n = node(Kind::kIf, line);
  std::vector<Node*> branches;
  const bool soft = std::exchange(soft_, true);
  do {
    const int32_t branch_line = next().line;
    Node* branch = node(Kind::kIf, branch_line);
    branch->a = tuple(false, {}, false);
    branch->body = statements({"elif", "else", "endif"}, false);
    branches.push_back(sealed(branch));
  } while (is_name("elif"));
  if (next().text == "else") n->other = statements({"endif"}, true);
  n->list = list_of(branches);
  soft_ = soft;
  return n;
}

// list: targets, other: values, body
Node* Parser::parse_with() {
  Node* n = node(Kind::kWith, next().line);
  Scope* const outside = scope_;
  open_scope();
  Scope* const inside = scope_;
  std::vector<Node*> targets, values;
  while (cur().type != Tok::kBlockEnd) {
    if (!targets.empty()) expect_op(",");
    targets.push_back(target(false, {}));
    expect_op("=");
    scope_ = outside;
    values.push_back(expression());
    scope_ = inside;
  }
  n->list = list_of(targets);
  n->other = list_of(values);
  const bool soft = std::exchange(soft_, false);
  n->body = statements({"endwith"}, true);
  soft_ = soft;
  n->slot_count = close_scope();
  return n;
}

// body in a scope of its own; kAutoescape: a is the switch
Node* Parser::parse_scoped(std::string_view tag) {
  Node* n = node(tag == "autoescape" ? Kind::kAutoescape : Kind::kScoped, next().line);
  std::string_view name;
  if (tag == "block") {
    name = expect_name();
    skip_name("scoped");
    skip_name("required");
    if (is_op("-")) fail_here("Block names in Jinja have to be valid Python identifiers and may not contain hyphens");
  } else if (tag == "autoescape") {
    n->a = expression();
  }
  const bool soft = std::exchange(soft_, false);
  const int loops = std::exchange(loops_, tag == "autoescape" ? loops_ : 0);
  open_scope();
  if (tag == "block")
    n->body = statements({"endblock"}, true);
  else if (tag == "generation")
    n->body = statements({"endgeneration"}, true);
  else
    n->body = statements({"endautoescape"}, true);
  n->slot_count = close_scope();
  soft_ = soft;
  loops_ = loops;
  if (!name.empty()) skip_name(name);
  return n;
}

// Nothing can be loaded: parsed for its syntax, an error when reached.
Node* Parser::parse_loader(std::string_view tag) {
  Node* n = node(Kind::kLoader, next().line);
  n->a = expression();
  if (tag == "include" && skip_name("ignore")) {
    if (!skip_name("missing")) fail_expected("missing");
    n->flag = true;
  }
  if (tag == "import") {
    if (!skip_name("as")) fail_expected("as");
    declare(expect_name());
  }
  if (tag == "from") {
    if (!skip_name("import")) fail_expected("import");
    do {
      if (cur().type == Tok::kBlockEnd || is_name("with") || is_name("without")) break;
      const std::string_view name = expect_name();
      declare(skip_name("as") ? expect_name() : name);
    } while (skip_op(","));
  }
  if (tag != "extends" && (skip_name("with") || skip_name("without"))) {
    if (!skip_name("context")) fail_expected("context");
  }
  return n;
}

// list: parameters, other: defaults of the last ones
void Parser::signature(Node* n) {
  std::vector<Node*> params, defaults;
  expect_op("(");
  while (!is_op(")")) {
    if (!params.empty()) expect_op(",");
    Node* p = node(Kind::kName, cur().line);
    const std::string_view name = expect_name();
    p->name = number_of(name);
    p->slot = declare(name);
    p->text = text_of(name);
    if (name == "caller") n->catches |= kExplicitCaller;
    if (skip_op("=")) {
      defaults.push_back(expression());
    } else if (!defaults.empty()) {
      fail_here("non-default argument follows default argument");
    }
    params.push_back(p);
  }
  expect_op(")");
  n->list = list_of(params);
  n->other = list_of(defaults);
}

// text: name, slot: where the macro goes; list, other: signature; body. The first three slots are caller, kwargs,
// varargs.
Node* Parser::parse_macro() {
  Node* n = node(Kind::kMacro, next().line);
  const std::string_view name = expect_name();
  n->name = number_of(name);
  n->slot = declare(name);
  n->text = text_of(name);
  open_scope(true);
  for (const std::string_view special : {"caller", "kwargs", "varargs"}) declare(special);
  const bool soft = std::exchange(soft_, false);
  const int loops = std::exchange(loops_, 0);
  signature(n);
  scope_->catches = 0;
  n->body = statements({"endmacro"}, true);
  n->catches |= scope_->catches;
  n->slot_count = close_scope();
  soft_ = soft;
  loops_ = loops;
  return n;
}

// As a macro; a: the call
Node* Parser::parse_call_block() {
  Node* n = node(Kind::kCallBlock, next().line);
  Scope* const outside = scope_;
  open_scope(true);
  Scope* const inside = scope_;
  for (const std::string_view special : {"caller", "kwargs", "varargs"}) declare(special);
  if (is_op("(")) signature(n);
  scope_ = outside;
  n->a = expression();
  if (n->a->kind != Kind::kCall) fail_syntax(n->line, "expected call");
  scope_ = inside;
  scope_->catches = 0;
  const bool soft = std::exchange(soft_, false);
  const int loops = std::exchange(loops_, 0);
  n->body = statements({"endcall"}, true);
  n->catches |= scope_->catches;
  n->slot_count = close_scope();
  soft_ = soft;
  loops_ = loops;
  return n;
}

// c: filter chain on the body
Node* Parser::parse_filter_block() {
  Node* n = node(Kind::kFilterBlock, next().line);
  n->c = parse_filter(nullptr, true);
  const bool soft = std::exchange(soft_, false);
  open_scope();
  n->body = statements({"endfilter"}, true);
  n->slot_count = close_scope();
  soft_ = soft;
  return n;
}

Node* Parser::parse_print() {
  Node* n = node(Kind::kOutput, next().line);
  std::vector<Node*> parts;
  while (cur().type != Tok::kBlockEnd) {
    if (!parts.empty()) expect_op(",");
    parts.push_back(expression());
  }
  n->list = list_of(parts);
  return n;
}

Node* Parser::parse_flow(Kind kind) {
  Node* n = node(kind, next().line);
  if (loops_ == 0)
    fail_syntax(n->line, std::string("'") + (kind == Kind::kBreak ? "break" : "continue") + "' outside loop");
  return n;
}

}  // namespace bora::text::jinja
