// The expression half of the parser; precedence as in Jinja2, lowest first.
#include <algorithm>
#include <utility>

#include "text/template/parser.h"

namespace bora::text::jinja {

Node* Parser::name_node(std::string_view name, int32_t line) {
  Node* n = node(Kind::kName, line);
  n->name = number_of(name);
  out_->read[n->name] = true;
  reads_.push_back({n, scope_});
  const uint8_t bit = name == "caller"    ? kCatchCaller
                      : name == "kwargs"  ? kCatchKwargs
                      : name == "varargs" ? kCatchVarargs
                                          : 0;
  if (bit != 0) {
    for (Scope* s = scope_; s != nullptr; s = s->parent) {
      if (s->macro) s->catches |= bit;
    }
  }
  return n;
}

// list: operands; ops[i] stands between operands i and i + 1
Node* Parser::chain(Kind kind, Node* first, std::vector<Node*>& rest, const std::vector<uint8_t>& ops, int32_t line) {
  if (rest.empty()) return first;
  Node* n = node(kind, line);
  rest.insert(rest.begin(), first);
  n->list = list_of(rest);
  uint8_t* codes = out_->heap.array<uint8_t>(ops.size());
  std::copy(ops.begin(), ops.end(), codes);
  n->ops = codes;
  return sealed(n);
}

Node* Parser::tuple(bool condition, std::string_view stop, bool parentheses) {
  const int32_t line = cur().line;
  std::vector<Node*> items;
  bool is_tuple = false;
  while (true) {
    const bool end = cur().type == Tok::kVarEnd || cur().type == Tok::kBlockEnd || is_op(")");
    if (end || (!stop.empty() && is_name(stop))) break;
    items.push_back(expression(condition));
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return items[0];
  if (!is_tuple && !parentheses) {
    const Token& t = cur();
    const std::string what = t.type == Tok::kBlockEnd ? "end of statement block"
                             : t.type == Tok::kVarEnd ? "end of print statement"
                                                      : std::string(t.text);
    fail_here("Expected an expression, got '" + what + "'");
  }
  Node* n = node(Kind::kTuple, line);
  n->list = list_of(items);
  return sealed(n);
}

// kCond: a if b else c. Unknown filters inside wait for their evaluation, also in the part already read.
Node* Parser::expression(bool condition) {
  const Deep deep(this);
  if (!condition) return parse_or();
  const size_t known = unknown_.size();
  Node* n = parse_or();
  const bool soft = soft_;
  while (skip_name("if")) {
    unknown_.resize(known);
    Node* cond = node(Kind::kCond, cur().line);
    soft_ = true;
    cond->a = n;
    cond->b = parse_or();
    if (skip_name("else")) cond->c = expression();
    soft_ = soft;
    n = sealed(cond);
  }
  return n;
}

Node* Parser::parse_or() {
  const int32_t line = cur().line;
  Node* first = parse_and();
  std::vector<Node*> rest;
  while (skip_name("or")) rest.push_back(parse_and());
  return chain(Kind::kOr, first, rest, {}, line);
}

Node* Parser::parse_and() {
  const int32_t line = cur().line;
  Node* first = parse_not();
  std::vector<Node*> rest;
  while (skip_name("and")) rest.push_back(parse_not());
  return chain(Kind::kAnd, first, rest, {}, line);
}

Node* Parser::parse_not() {
  const int32_t line = cur().line;
  size_t count = 0;
  while (skip_name("not")) ++count;
  Node* n = parse_compare();
  // not not x is the truth of x: at most two remain.
  for (size_t i = count > 2 ? 2 - count % 2 : count; i > 0; --i) {
    Node* inverse = node(Kind::kNot, line);
    inverse->a = n;
    n = sealed(inverse);
  }
  return n;
}

Node* Parser::parse_compare() {
  const int32_t line = cur().line;
  Node* first = parse_sum();
  std::vector<Node*> rest;
  std::vector<uint8_t> ops;
  static constexpr std::string_view kOps[] = {"==", "!=", "<", "<=", ">", ">="};
  while (true) {
    uint8_t op = 255;
    if (cur().type == Tok::kOp) {
      const auto* at = std::find(std::begin(kOps), std::end(kOps), cur().text);
      if (at != std::end(kOps)) op = static_cast<uint8_t>(at - kOps);
    } else if (is_name("in")) {
      op = static_cast<uint8_t>(Compare::kIn);
    } else if (is_name("not") && peek().type == Tok::kName && peek().text == "in") {
      ++pos_;
      op = static_cast<uint8_t>(Compare::kNotIn);
    }
    if (op == 255) break;
    ++pos_;
    ops.push_back(op);
    rest.push_back(parse_sum());
  }
  return chain(Kind::kCompare, first, rest, ops, line);
}

Node* Parser::parse_sum() {
  const int32_t line = cur().line;
  Node* first = parse_concat();
  std::vector<Node*> rest;
  std::vector<uint8_t> ops;
  while (is_op("+") || is_op("-")) {
    ops.push_back(static_cast<uint8_t>(next().text == "+" ? Arith::kAdd : Arith::kSub));
    rest.push_back(parse_concat());
  }
  return chain(Kind::kArith, first, rest, ops, line);
}

Node* Parser::parse_concat() {
  const int32_t line = cur().line;
  Node* first = parse_product();
  std::vector<Node*> rest;
  while (skip_op("~")) rest.push_back(parse_product());
  return chain(Kind::kConcat, first, rest, {}, line);
}

Node* Parser::parse_product() {
  const int32_t line = cur().line;
  Node* first = parse_power();
  std::vector<Node*> rest;
  std::vector<uint8_t> ops;
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string_view op = next().text;
    ops.push_back(static_cast<uint8_t>(op == "*"    ? Arith::kMul
                                       : op == "/"  ? Arith::kDiv
                                       : op == "//" ? Arith::kFloorDiv
                                                    : Arith::kMod));
    rest.push_back(parse_power());
  }
  return chain(Kind::kArith, first, rest, ops, line);
}

Node* Parser::parse_power() {
  const int32_t line = cur().line;
  Node* first = parse_unary();
  std::vector<Node*> rest;
  std::vector<uint8_t> ops;
  while (skip_op("**")) {
    ops.push_back(static_cast<uint8_t>(Arith::kPow));
    rest.push_back(parse_unary());
  }
  return chain(Kind::kArith, first, rest, ops, line);
}

Node* Parser::parse_unary(bool filters) {
  Node* n;
  if (is_op("-") || is_op("+")) {
    const Deep deep(this);
    const bool minus = is_op("-");
    const int32_t line = next().line;
    n = node(minus ? Kind::kNegate : Kind::kPlus, line);
    n->a = parse_unary(false);
    n = sealed(n);
  } else {
    n = parse_primary();
  }
  n = postfix(n);
  return filters ? filter_suffix(n) : n;
}

Node* Parser::parse_string() {
  const int32_t line = cur().line;
  std::string_view text = next().text;
  if (cur().type == Tok::kString) {
    std::string joined(text);
    while (cur().type == Tok::kString) joined += next().text;
    char* data = static_cast<char*>(out_->heap.allocate(joined.size() + 1));
    std::copy(joined.begin(), joined.end(), data);
    text = {data, joined.size()};
  }
  Node* n = node(Kind::kConst, line);
  n->value = Value::str(text_of(text));
  return n;
}

Node* Parser::parse_primary() {
  const Token t = cur();
  Node* n = node(Kind::kConst, t.line);
  switch (t.type) {
    case Tok::kName:
      ++pos_;
      if (t.text == "true" || t.text == "True" || t.text == "false" || t.text == "False") {
        n->value = Value::boolean(t.text == "true" || t.text == "True");
        return n;
      }
      if (t.text == "none" || t.text == "None") {
        n->value = Value::none();
        return n;
      }
      return name_node(t.text, t.line);
    case Tok::kString: return parse_string();
    case Tok::kInteger:
      ++pos_;
      if (!parse_int(out_->heap, t.text, 0, &n->value))
        fail_syntax(t.line, "bad integer '" + std::string(t.text.substr(0, 40)) + "'");
      return n;
    case Tok::kFloat: {
      ++pos_;
      double v = 0;
      parse_float(t.text, &v);
      n->value = Value::real(v);
      return n;
    }
    case Tok::kOp:
      if (t.text == "(") {
        ++pos_;
        n = tuple(true, {}, true);
        expect_op(")");
        return n;
      }
      if (t.text == "[") return parse_literal_list();
      if (t.text == "{") return parse_literal_dict();
      break;
    default: break;
  }
  const char* what = t.type == Tok::kVarEnd     ? "end of print statement"
                     : t.type == Tok::kBlockEnd ? "end of statement block"
                     : t.type == Tok::kEof      ? "end of template"
                                                : nullptr;
  fail_syntax(t.line, "unexpected '" + (what != nullptr ? std::string(what) : std::string(t.text)) + "'");
}

Node* Parser::parse_literal_list() {
  Node* n = node(Kind::kList, next().line);
  std::vector<Node*> items;
  while (!is_op("]")) {
    if (!items.empty()) expect_op(",");
    if (is_op("]")) break;
    items.push_back(expression());
  }
  expect_op("]");
  n->list = list_of(items);
  return sealed(n);
}

// list: keys, other: values
Node* Parser::parse_literal_dict() {
  Node* n = node(Kind::kDict, next().line);
  std::vector<Node*> keys, values;
  while (!is_op("}")) {
    if (!keys.empty()) expect_op(",");
    if (is_op("}")) break;
    keys.push_back(expression());
    expect_op(":");
    values.push_back(expression());
  }
  expect_op("}");
  n->list = list_of(keys);
  n->other = list_of(values);
  return sealed(n);
}

Node* Parser::postfix(Node* n) {
  while (true) {
    if (is_op(".") || is_op("["))
      n = parse_subscript(n);
    else if (is_op("("))
      n = parse_call(n);
    else
      return n;
  }
}

Node* Parser::filter_suffix(Node* n) {
  while (true) {
    if (is_op("|"))
      n = parse_filter(n, false);
    else if (is_name("is"))
      n = parse_test(n);
    else if (is_op("("))
      n = parse_call(n);
    else
      return n;
  }
}

// kAttribute: a.text with the methods of that name; kItem: a[b]
Node* Parser::parse_subscript(Node* base) {
  const Token t = next();
  if (t.text == ".") {
    const Token name = next();
    if (name.type == Tok::kName) {
      Node* n = node(Kind::kAttribute, t.line);
      n->a = base;
      n->text = text_of(name.text);
      n->str_method = find_method(Tag::kStr, name.text);
      n->list_method = find_method(Tag::kList, name.text);
      n->dict_method = find_method(Tag::kDict, name.text);
      return sealed(n);
    }
    if (name.type != Tok::kInteger) fail_syntax(name.line, "expected name or number");
    Node* n = node(Kind::kItem, t.line);
    n->a = base;
    n->b = node(Kind::kConst, name.line);
    if (!parse_int(out_->heap, name.text, 0, &n->b->value)) fail_syntax(name.line, "bad integer");
    return sealed(n);
  }
  std::vector<Node*> args;
  while (!is_op("]")) {
    if (!args.empty()) expect_op(",");
    args.push_back(parse_subscribed());
  }
  expect_op("]");
  Node* n = node(Kind::kItem, t.line);
  n->a = base;
  if (args.size() == 1) {
    n->b = args[0];
  } else {
    n->b = node(Kind::kTuple, t.line);
    n->b->list = list_of(args);
    sealed(n->b);
  }
  return sealed(n);
}

// kSlice: a:b:c, each may be null
Node* Parser::parse_subscribed() {
  const int32_t line = cur().line;
  Node* first = nullptr;
  if (!is_op(":")) {
    first = expression();
    if (!is_op(":")) return first;
  }
  ++pos_;
  Node* n = node(Kind::kSlice, line);
  n->a = first;
  if (!is_op(":") && !is_op("]") && !is_op(",")) n->b = expression();
  if (skip_op(":") && !is_op("]") && !is_op(",")) n->c = expression();
  return sealed(n);
}

// list: arguments, keys and other: keyword arguments, b: *args, c: **kwargs
void Parser::call_args(Node* n) {
  const int32_t line = cur().line;
  expect_op("(");
  std::vector<Node*> args, values;
  std::vector<const Str*> keys;
  const auto ensure = [&](bool ok) {
    if (!ok) fail_syntax(line, "invalid syntax for function call expression");
  };
  bool comma = false;
  while (!is_op(")")) {
    if (comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(n->b == nullptr && n->c == nullptr);
      n->b = expression();
    } else if (skip_op("**")) {
      ensure(n->c == nullptr);
      n->c = expression();
    } else if (cur().type == Tok::kName && peek().type == Tok::kOp && peek().text == "=") {
      ensure(n->c == nullptr);
      keys.push_back(text_of(next().text));
      ++pos_;
      values.push_back(expression());
    } else {
      ensure(n->b == nullptr && n->c == nullptr && values.empty());
      args.push_back(expression());
    }
    comma = true;
  }
  expect_op(")");
  n->list = list_of(args);
  n->other = list_of(values);
  n->keys = keys_of(keys);
}

Node* Parser::parse_call(Node* callee) {
  Node* n = node(Kind::kCall, cur().line);
  n->a = callee;
  call_args(n);
  return sealed(n);
}

std::string_view Parser::dotted_name() {
  std::string_view name = expect_name();
  if (!is_op(".")) return name;
  std::string full(name);
  while (skip_op(".")) full += "." + std::string(expect_name());
  char* data = static_cast<char*>(out_->heap.allocate(full.size() + 1));
  std::copy(full.begin(), full.end(), data);
  return {data, full.size()};
}

// a: input (null: the block), text: name, arguments as a call's
Node* Parser::parse_filter(Node* input, bool inline_start) {
  Node* result = input;
  while (inline_start || is_op("|")) {
    if (!inline_start) ++pos_;
    inline_start = false;
    Node* n = node(Kind::kFilter, cur().line);
    const std::string_view name = dotted_name();
    n->a = result;
    n->text = text_of(name);
    n->filter = find_filter(name);
    if (n->filter == nullptr && !soft_) unknown_.push_back({n, "filter"});
    if (is_op("(")) call_args(n);
    result = sealed(n);
  }
  return result;
}

// a: value, text: name, arguments as a call's; flag: negated
Node* Parser::parse_test(Node* input) {
  Node* n = node(Kind::kTest, next().line);
  n->flag = skip_name("not");
  const std::string_view name = dotted_name();
  n->a = input;
  n->text = text_of(name);
  n->test = find_test(name);
  if (input->kind == Kind::kName && (name == "defined" || name == "undefined")) out_->tested[input->name] = true;
  if (n->test == nullptr && !soft_) unknown_.push_back({n, "test"});
  if (is_op("(")) {
    call_args(n);
  } else {
    const Token& t = cur();
    const bool starts = t.type == Tok::kName || t.type == Tok::kString || t.type == Tok::kInteger ||
                        t.type == Tok::kFloat || is_op("[") || is_op("{");
    if (starts && !is_name("else") && !is_name("or") && !is_name("and")) {
      if (is_name("is")) fail_here("You cannot chain multiple tests with is");
      n->list = list_of({postfix(parse_primary())});
    }
  }
  return sealed(n);
}

}  // namespace bora::text::jinja
