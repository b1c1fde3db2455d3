// Tokens to nodes: Jinja2's grammar by recursive descent, with scopes resolved on the way. Nesting is bounded, so
// neither the parser nor anything that walks its trees can exhaust the stack.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace bora::text::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, int32_t depth, Program* out)
      : tokens_(std::move(tokens)), limit_(depth), out_(out) {}
  void parse();

 private:
  struct Scope {
    Scope* parent;
    std::unordered_map<uint32_t, uint32_t> slots;  // name → slot
    uint8_t catches = 0;
    bool macro = false;
  };
  struct Deep;  // counts nesting while it lives
  using Names = std::initializer_list<std::string_view>;

  // tokens
  const Token& cur() const { return tokens_[pos_]; }
  const Token& peek() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  const Token& next();
  bool is_op(std::string_view op) const { return cur().type == Tok::kOp && cur().text == op; }
  bool is_name(std::string_view name) const { return cur().type == Tok::kName && cur().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  std::string_view expect_name();
  void expect(Tok type);
  [[noreturn]] void fail_here(std::string message) const { fail_syntax(cur().line, std::move(message)); }
  [[noreturn]] void fail_expected(std::string_view what) const;
  [[noreturn]] void fail_tag(std::string_view name, Names looking) const;

  // nodes
  Node* node(Kind kind, int32_t line);
  NodeList list_of(const std::vector<Node*>& nodes);
  // Sets the height of `n` from its children; too high is an error.
  Node* sealed(Node* n);
  uint32_t number_of(std::string_view name);
  const Str* text_of(std::string_view text);
  const Str* const* keys_of(const std::vector<const Str*>& keys);
  uint32_t declare(std::string_view name);
  void open_scope(bool macro = false);
  uint32_t close_scope();  // number of slots
  void resolve();

  // statements
  std::vector<Node*> subparse(Names ends);
  NodeList statements(Names ends, bool drop);
  Node* statement(Names outer);
  Node* parse_set();
  Node* parse_for();
  Node* parse_if();
  Node* parse_with();
  Node* parse_scoped(std::string_view tag);
  Node* parse_loader(std::string_view tag);
  Node* parse_macro();
  Node* parse_call_block();
  Node* parse_filter_block();
  Node* parse_print();
  Node* parse_flow(Kind kind);
  void signature(Node* n);
  Node* target(bool namespaces, std::string_view stop);
  Node* target_part(bool namespaces);

  // expressions
  Node* tuple(bool condition, std::string_view stop, bool parentheses);
  Node* expression(bool condition = true);
  Node* parse_or();
  Node* parse_and();
  Node* parse_not();
  Node* parse_compare();
  Node* parse_sum();
  Node* parse_concat();
  Node* parse_product();
  Node* parse_power();
  Node* parse_unary(bool filters = true);
  Node* parse_primary();
  Node* parse_string();
  Node* parse_literal_list();
  Node* parse_literal_dict();
  Node* postfix(Node* n);
  Node* filter_suffix(Node* n);
  Node* parse_subscript(Node* n);
  Node* parse_subscribed();
  Node* parse_call(Node* n);
  void call_args(Node* n);
  Node* parse_filter(Node* n, bool inline_start);
  Node* parse_test(Node* n);
  Node* name_node(std::string_view name, int32_t line);
  Node* chain(Kind kind, Node* first, std::vector<Node*>& rest, const std::vector<uint8_t>& ops, int32_t line);
  std::string_view dotted_name();

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int32_t limit_;
  int32_t depth_ = 0;
  int loops_ = 0;      // around the current statement, inside the current macro
  bool soft_ = false;  // directly inside `if` or a conditional: unknown filters wait for their evaluation
  Program* out_;
  std::deque<Scope> scopes_;
  Scope* scope_ = nullptr;
  std::vector<std::string_view> tags_;
  std::vector<Names> ends_;
  struct Read {
    Node* node;
    Scope* scope;
  };
  std::vector<Read> reads_;
  struct Unknown {
    Node* node;
    const char* what;
  };
  std::vector<Unknown> unknown_;  // filters and tests that do not exist, outside conditionals
};

struct Parser::Deep {
  explicit Deep(Parser* p) : parser(p) {
    if (++p->depth_ > p->limit_)
      fail_syntax(p->cur().line, "nested too deeply (limit " + std::to_string(p->limit_) + ")");
  }
  ~Deep() { --parser->depth_; }
  Parser* parser;
};

}  // namespace bora::text::jinja
