// ECMAScript regular expressions to Expr.
#include <algorithm>
#include <optional>

#include "text/grammar/expr.h"

namespace bora::text {
namespace {

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const RegexOptions& options) : text_(pattern), options_(options) {}

  Result<Expr> parse() {
    BORA_ASSIGN(Expr e, alternatives(0));
    if (pos_ < text_.size()) return error("unmatched ')'");
    return e;
  }

 private:
  Status error(std::string_view what) const {
    return invalid_argument("regex position " + std::to_string(pos_) + ": " + std::string(what));
  }
  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  bool take(std::string_view s) {
    if (text_.substr(pos_).substr(0, s.size()) != s) return false;
    pos_ += s.size();
    return true;
  }
  Expr cls(CharClass set) const { return Expr::cls(fold_ ? set.fold_case() : std::move(set)); }

  Result<Expr> alternatives(int depth) {
    if (depth > options_.depth) return error("nested too deeply");
    std::vector<Expr> branches;
    do {
      std::vector<Expr> parts;
      while (pos_ < text_.size() && !at('|') && !at(')')) {
        BORA_ASSIGN(Expr atom, quantified(depth));
        parts.push_back(std::move(atom));
      }
      branches.push_back(Expr::concat(std::move(parts)));
    } while (take("|"));
    return Expr::alt(std::move(branches));
  }

  Result<Expr> quantified(int depth) {
    BORA_ASSIGN(Expr e, atom(depth));
    bool assertion = e.kind == ExprKind::kAssert;
    bool again = false;
    while (pos_ < text_.size()) {
      uint32_t min = 0;
      uint32_t max = kUnbounded;
      size_t before = pos_;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (at('{')) {
        BORA_ASSIGN(bool counted, counts(&min, &max));
        if (!counted) break;
      } else {
        break;
      }
      if (again || assertion) {
        pos_ = before;
        return error("nothing to repeat");
      }
      again = true;
      take("?");  // laziness does not change what matches
      e = Expr::repeat(std::move(e), min, max);
    }
    return e;
  }

  // {m} {m,} {m,n}; anything else that begins with a brace is literal text, as in ECMAScript without the u flag.
  Result<bool> counts(uint32_t* min, uint32_t* max) {
    size_t start = pos_;
    ++pos_;
    auto first = integer();
    if (first) {
      *min = *max = *first;
      bool comma = take(",");
      if (comma) *max = integer().value_or(kUnbounded);
      if (take("}")) {
        if (*min > kMaxCount || (*max > kMaxCount && *max != kUnbounded)) return error("repetition is too large");
        if (*min > *max) return error("minimum above maximum");
        return true;
      }
    }
    pos_ = start;
    return false;
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

  Result<Expr> atom(int depth) {
    if (at('(')) return group(depth);
    if (at('[')) return bracket();
    if (at('\\')) return escape();
    if (take("^")) return Expr::assert_at(AssertKind::kStart);
    if (take("$")) return Expr::assert_at(AssertKind::kEnd);
    if (take(".")) {
      CharClass line = CharClass::single('\n');
      if (options_.ecma_dot) line = CharClass({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
      return Expr::cls(line.complement());
    }
    if (at('*') || at('+') || at('?')) return error("nothing to repeat");
    auto c = decode_utf8(text_, &pos_);
    if (!c) return error("invalid UTF-8");
    return cls(CharClass::single(*c));
  }

  Result<Expr> group(int depth) {
    ++pos_;
    bool fold = fold_;
    if (take("?")) {
      if (take("=") || take("!") || take("<=") || take("<!")) return error("lookaround is not supported");
      if (take("i:")) {
        fold_ = true;
      } else if (take("P<") || take("<")) {
        size_t end = text_.find('>', pos_);
        if (end == std::string_view::npos) return error("group name without '>'");
        pos_ = end + 1;
      } else if (!take(":")) {
        return error("this kind of group is not supported");
      }
    }
    BORA_ASSIGN(Expr e, alternatives(depth + 1));
    fold_ = fold;
    if (!take(")")) return error("missing ')'");
    return e;
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
    return v;
  }

  // After "\u": four digits, a surrogate pair, or {digits}.
  Result<uint32_t> unicode_escape() {
    if (take("{")) {
      uint32_t v = 0;
      size_t digits = 0;
      for (; !at('}'); ++digits) {
        BORA_ASSIGN(uint32_t d, hex(1));
        v = v * 16 + d;
        if (v > kMaxCodePoint) return error("code point above U+10FFFF");
      }
      if (digits == 0) return error("bad hexadecimal escape");
      ++pos_;
      return v;
    }
    BORA_ASSIGN(uint32_t v, hex(4));
    if (v >= 0xD800 && v <= 0xDBFF && take("\\u")) {
      BORA_ASSIGN(uint32_t low, hex(4));
      if (low < 0xDC00 || low > 0xDFFF) return error("bad surrogate pair");
      return 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    return v;
  }

  // The set of one escape, at the backslash; nothing if it is none (an assertion, a back reference).
  Result<std::optional<CharClass>> set_escape() {
    if (pos_ + 1 >= text_.size()) return error("backslash at the end");
    char c = text_[pos_ + 1];
    bool unicode = options_.unicode_classes;
    std::optional<CharClass> set;
    switch (c) {
      case 'd':
        set = digit_class(unicode);
        break;
      case 'D':
        set = digit_class(unicode).complement();
        break;
      case 'w':
        set = word_class(unicode);
        break;
      case 'W':
        set = word_class(unicode).complement();
        break;
      case 's':
        set = space_class();
        break;
      case 'S':
        set = space_class().complement();
        break;
      case 'n':
        set = CharClass::single('\n');
        break;
      case 'r':
        set = CharClass::single('\r');
        break;
      case 't':
        set = CharClass::single('\t');
        break;
      case 'f':
        set = CharClass::single('\f');
        break;
      case 'v':
        set = CharClass::single('\v');
        break;
      case '0':
        set = CharClass::single(0);
        break;
      default:
        break;
    }
    if (set) {
      pos_ += 2;
      return set;
    }
    if (c == 'x' || c == 'u') {
      pos_ += 2;
      BORA_ASSIGN(uint32_t v, c == 'x' ? hex(2) : unicode_escape());
      return std::optional<CharClass>(CharClass::single(v));
    }
    if (c == 'p' || c == 'P') return property(c == 'P');
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) return std::optional<CharClass>();
    ++pos_;
    auto literal = decode_utf8(text_, &pos_);
    if (!literal) return error("invalid UTF-8");
    return std::optional<CharClass>(CharClass::single(*literal));
  }

  Result<std::optional<CharClass>> property(bool negated) {
    pos_ += 2;
    size_t end = text_.find('}', pos_);
    if (!at('{') || end == std::string_view::npos) return error("\\p needs {Name}");
    auto set = property_class(text_.substr(pos_ + 1, end - pos_ - 1));
    if (!set) return error("unknown Unicode property");
    pos_ = end + 1;
    return std::optional<CharClass>(negated ? set->complement() : *set);
  }

  Result<Expr> escape() {
    if (take("\\b")) return Expr::assert_at(AssertKind::kWord);
    if (take("\\B")) return Expr::assert_at(AssertKind::kNotWord);
    BORA_ASSIGN(std::optional<CharClass> set, set_escape());
    if (set) return cls(std::move(*set));
    char c = text_[pos_ + 1];
    return error(c >= '1' && c <= '9' ? "back references are not supported" : "unknown escape");
  }

  Result<CharClass> bracket_member() {
    if (at('\\')) {
      if (take("\\b")) return CharClass::single('\b');
      BORA_ASSIGN(std::optional<CharClass> set, set_escape());
      if (!set) return error("unknown escape");
      return *set;
    }
    auto c = decode_utf8(text_, &pos_);
    if (!c) return error("invalid UTF-8");
    return CharClass::single(*c);
  }

  Result<Expr> bracket() {
    ++pos_;
    bool negated = take("^");
    std::vector<CodeSpan> spans;
    while (true) {
      if (pos_ >= text_.size()) return error("missing ']'");
      if (take("]")) break;
      BORA_ASSIGN(CharClass low, bracket_member());
      auto single = [](const CharClass& s) { return s.spans().size() == 1 && s.spans()[0].lo == s.spans()[0].hi; };
      bool range = at('-') && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']';
      if (!range || !single(low)) {
        spans.insert(spans.end(), low.spans().begin(), low.spans().end());
        continue;
      }
      ++pos_;
      BORA_ASSIGN(CharClass high, bracket_member());
      if (!single(high) || high.spans()[0].lo < low.spans()[0].lo) return error("bad range in brackets");
      spans.push_back({low.spans()[0].lo, high.spans()[0].lo});
    }
    CharClass set(std::move(spans));
    if (fold_) set = set.fold_case();
    return Expr::cls(negated ? set.complement() : std::move(set));
  }

  std::string_view text_;
  RegexOptions options_;
  size_t pos_ = 0;
  bool fold_ = false;
};

}  // namespace

Result<Expr> parse_regex(std::string_view pattern, const RegexOptions& options) {
  if (pattern.size() > (1u << 20)) return invalid_argument("regex is longer than 1 MiB");
  return RegexParser(pattern, options).parse();
}

}  // namespace bora::text
