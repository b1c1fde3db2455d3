// GBNF grammars: rules of literals, classes, groups and repetitions over code points. A rule ends where "name ::="
// begins the next one, so line breaks are free.
#include <algorithm>
#include <map>
#include <optional>

#include "text/grammar/compiled.h"
#include "text/grammar/expr.h"

namespace bora::text {
namespace {

constexpr size_t kMaxRules = 20000;

class EbnfParser {
 public:
  EbnfParser(std::string_view text, int32_t depth, ProgramBuilder* out) : text_(text), depth_max_(depth), out_(out) {}

  Result<RuleId> parse() {
    skip_space();
    while (pos_ < text_.size()) BORA_TRY(rule());
    for (const auto& [name, info] : rules_) {
      if (!info.defined) return invalid_argument("grammar: rule \"" + name + "\" is used and not defined");
    }
    auto root = rules_.find("root");
    if (root == rules_.end()) return invalid_argument("grammar: there is no rule \"root\"");
    return root->second.id;
  }

 private:
  struct RuleInfo {
    RuleId id;
    bool defined = false;
  };

  Status error(std::string_view what) const {
    auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(pos_), '\n');
    return invalid_argument("grammar line " + std::to_string(line) + ", position " + std::to_string(pos_) + ": " +
                            std::string(what));
  }
  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  bool take(std::string_view s) {
    if (text_.substr(pos_).substr(0, s.size()) != s) return false;
    pos_ += s.size();
    return true;
  }
  void skip_space() {
    while (pos_ < text_.size()) {
      char c = text_[pos_];
      if (c == '#') {
        size_t end = text_.find('\n', pos_);
        pos_ = end == std::string_view::npos ? text_.size() : end;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++pos_;
      } else {
        break;
      }
    }
  }
  static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string_view peek_name() const {
    size_t end = pos_;
    while (end < text_.size() && name_char(text_[end])) ++end;
    return text_.substr(pos_, end - pos_);
  }
  bool at_rule_start() {
    std::string_view name = peek_name();
    if (name.empty()) return false;
    size_t back = pos_;
    pos_ += name.size();
    skip_space();
    bool found = text_.substr(pos_).substr(0, 3) == "::=";
    pos_ = back;
    return found;
  }
  RuleInfo& info(std::string_view name) {
    auto it = rules_.find(std::string(name));
    if (it == rules_.end()) it = rules_.emplace(std::string(name), RuleInfo{out_->new_rule()}).first;
    return it->second;
  }

  Status rule() {
    std::string_view name = peek_name();
    if (name.empty()) return error("expected a rule name");
    pos_ += name.size();
    skip_space();
    if (!take("::=")) return error("expected \"::=\"");
    if (rules_.size() > kMaxRules) return error("too many rules");
    RuleInfo& r = info(name);
    if (r.defined) return error("rule \"" + std::string(name) + "\" is defined twice");
    r.defined = true;
    BORA_ASSIGN(Expr e, alternatives(0));
    if (pos_ < text_.size() && !at_rule_start()) return error("unexpected character");
    BORA_ASSIGN_CONTEXT(NodeId start, compile_expr(e, false, out_->ret(), out_), "grammar rule " + std::string(name));
    out_->set_rule(info(name).id, start);
    return ok_status();
  }

  Result<Expr> alternatives(int depth) {
    if (depth > depth_max_) return error("nested too deeply");
    std::vector<Expr> branches;
    while (true) {
      BORA_ASSIGN(Expr branch, sequence(depth));
      branches.push_back(std::move(branch));
      if (!take("|")) break;
    }
    return Expr::alt(std::move(branches));
  }

  Result<Expr> sequence(int depth) {
    std::vector<Expr> parts;
    for (skip_space(); pos_ < text_.size() && !at('|') && !at(')'); skip_space()) {
      if (at_rule_start()) break;
      BORA_ASSIGN(Expr e, atom(depth));
      BORA_TRY(repetitions(&e));
      parts.push_back(std::move(e));
    }
    return Expr::concat(std::move(parts));
  }

  Result<Expr> atom(int depth) {
    if (at('"')) return literal();
    if (at('[')) return bracket();
    if (take(".")) return Expr::cls(CharClass::any());
    if (take("(")) {
      BORA_ASSIGN(Expr e, alternatives(depth + 1));
      if (!take(")")) return error("missing ')'");
      return e;
    }
    std::string_view name = peek_name();
    if (name.empty()) return error("unexpected character");
    Expr e;
    e.kind = ExprKind::kRule;
    e.rule = info(name).id;
    pos_ += name.size();
    return e;
  }

  Status repetitions(Expr* e) {
    for (int stacked = 0; pos_ < text_.size(); ++stacked) {
      uint32_t min = 0;
      uint32_t max = kUnbounded;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (at('{')) {
        BORA_TRY(counts(&min, &max));
      } else {
        break;
      }
      if (stacked >= depth_max_) return error("too many repetitions on one item");
      *e = Expr::repeat(std::move(*e), min, max);
    }
    return ok_status();
  }

  Status counts(uint32_t* min, uint32_t* max) {
    ++pos_;
    auto first = integer();
    bool comma = take(",");
    auto second = comma ? integer() : first;
    if (!take("}") || (!first && !second)) return error("bad repetition");
    *min = first.value_or(0);
    *max = second.value_or(kUnbounded);
    if (*min > kMaxCount || (*max > kMaxCount && *max != kUnbounded)) return error("repetition is too large");
    if (*min > *max) return error("minimum above maximum");
    return ok_status();
  }

  std::optional<uint32_t> integer() {
    size_t start = pos_;
    uint64_t v = 0;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      v = std::min<uint64_t>(v * 10 + static_cast<uint64_t>(text_[pos_] - '0'), kMaxCount + 1);
    }
    if (pos_ == start) return std::nullopt;
    return static_cast<uint32_t>(v);
  }

  Result<uint32_t> hex(size_t digits) {
    uint32_t v = 0;
    for (size_t i = 0; i < digits; ++i, ++pos_) {
      char c = pos_ < text_.size() ? text_[pos_] : '\0';
      bool number = c >= '0' && c <= '9';
      bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!number && !letter) return error("bad hexadecimal escape");
      v = v * 16 + static_cast<uint32_t>(number ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (v > kMaxCodePoint || (v >= 0xD800 && v <= 0xDFFF)) return error("no such code point");
    return v;
  }

  Result<uint32_t> character() {
    if (!at('\\')) {
      auto c = decode_utf8(text_, &pos_);
      if (!c) return error("invalid UTF-8");
      return *c;
    }
    ++pos_;
    if (pos_ >= text_.size()) return error("backslash at the end");
    char c = text_[pos_++];
    switch (c) {
      case 'n':
        return uint32_t{'\n'};
      case 'r':
        return uint32_t{'\r'};
      case 't':
        return uint32_t{'\t'};
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      default:
        --pos_;
        return error("unknown escape");
    }
  }

  Result<Expr> literal() {
    ++pos_;
    std::vector<Expr> parts;
    while (!at('"')) {
      if (pos_ >= text_.size()) return error("missing '\"'");
      BORA_ASSIGN(uint32_t c, character());
      parts.push_back(Expr::cls(CharClass::single(c)));
    }
    ++pos_;
    return Expr::concat(std::move(parts));
  }

  Result<Expr> bracket() {
    ++pos_;
    bool negated = take("^");
    std::vector<CodeSpan> spans;
    while (!at(']')) {
      if (pos_ >= text_.size()) return error("missing ']'");
      BORA_ASSIGN(uint32_t low, character());
      uint32_t high = low;
      if (at('-') && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        BORA_ASSIGN(high, character());
        if (high < low) return error("bad range in brackets");
      }
      spans.push_back({low, high});
    }
    ++pos_;
    CharClass set(std::move(spans));
    return Expr::cls(negated ? set.complement() : std::move(set));
  }

  std::string_view text_;
  int32_t depth_max_;
  ProgramBuilder* out_;
  size_t pos_ = 0;
  std::map<std::string, RuleInfo> rules_;
};

}  // namespace

Result<GrammarPtr> compile_ebnf(std::string_view gbnf, const GrammarLimits& limits) {
  if (gbnf.size() > (4u << 20)) return invalid_argument("grammar is longer than 4 MiB");
  ProgramBuilder builder;
  BORA_ASSIGN(RuleId root, EbnfParser(gbnf, limits.depth, &builder).parse());
  Result<Program> program = builder.finish(root);
  if (!program.ok()) return std::move(program).take_status().with_context("grammar");
  return wrap_program(std::move(program), limits);
}

}  // namespace bora::text
