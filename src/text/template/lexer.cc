#include "text/template/lexer.h"

#include <algorithm>

namespace bora::text::jinja {

void fail_syntax(int32_t line, std::string message) {
  fail("TemplateSyntaxError", "line " + std::to_string(line) + ": " + std::move(message));
}

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  Lexer(std::string_view source, Heap& heap) : src_(source), heap_(heap) {}

  std::vector<Token> run() {
    while (pos_ < src_.size()) root();
    add(Tok::kEof, {});
    return std::move(tokens_);
  }

 private:
  void add(Tok type, std::string_view text) { tokens_.push_back({type, line_, text}); }
  bool at(std::string_view text) const { return src_.substr(pos_, text.size()) == text; }
  bool at(size_t pos, std::string_view text) const {
    return pos < src_.size() && src_.substr(pos, text.size()) == text;
  }
  // Moves to `end`, counting lines; remembers whether the last character was a line end.
  void advance(size_t end) {
    line_ += static_cast<int32_t>(
        std::count(src_.begin() + static_cast<ptrdiff_t>(pos_), src_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    if (end > pos_) line_starting_ = src_[end - 1] == '\n';
    pos_ = end;
  }
  size_t skip_space(size_t pos) const {
    while (pos < src_.size()) {
      size_t size;
      const uint32_t c = decode(src_, pos, &size);
      if (!is_space(c)) break;
      pos += size;
    }
    return pos;
  }

  // Data before a tag, stripped as the tag's sign and lstrip_blocks say.
  std::string_view strip_data(std::string_view text, char sign, bool variable) const {
    if (sign == '-') {
      size_t end = text.size();
      while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
        size_t size;
        if (!is_space(decode(text, begin, &size)) || begin + size != end) break;
        end = begin;
      }
      return text.substr(0, end);
    }
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t from = newline == std::string_view::npos ? 0 : newline + 1;
    if (newline == std::string_view::npos && !line_starting_) return text;
    for (size_t i = from; i < text.size();) {
      size_t size;
      if (!is_space(decode(text, i, &size))) return text;
      i += size;
    }
    return text.substr(0, from);
  }

  void root() {
    size_t tag = pos_;
    while (true) {
      tag = src_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= src_.size()) {
        add(Tok::kData, src_.substr(pos_));
        advance(src_.size());
        return;
      }
      const char c = src_[tag + 1];
      if (c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    const char type = src_[tag + 1];
    size_t after = tag + 2;
    char sign = 0;
    if (after < src_.size() && (src_[after] == '-' || src_[after] == '+')) sign = src_[after++];
    const std::string_view data = strip_data(src_.substr(pos_, tag - pos_), sign, type == '{');
    if (!data.empty()) add(Tok::kData, data);
    size_t raw_end;
    if (type == '%' && raw_begin(after, &raw_end)) {
      advance(raw_end);
      raw();
      return;
    }
    advance(after);
    if (type == '#') {
      comment();
    } else if (type == '{') {
      add(Tok::kVarBegin, {});
      code("}}", Tok::kVarEnd);
    } else {
      add(Tok::kBlockBegin, {});
      code("%}", Tok::kBlockEnd);
    }
  }

  bool raw_begin(size_t pos, size_t* end) const {
    pos = skip_space(pos);
    if (!at(pos, "raw")) return false;
    pos = skip_space(pos + 3);
    if (at(pos, "-%}")) {
      *end = skip_space(pos + 3);
      return true;
    }
    *end = pos + 2;
    return at(pos, "%}");
  }

  void raw() {
    for (size_t tag = src_.find("{%", pos_); tag != std::string_view::npos; tag = src_.find("{%", tag + 1)) {
      size_t p = tag + 2;
      char sign = 0;
      if (p < src_.size() && (src_[p] == '-' || src_[p] == '+')) sign = src_[p++];
      p = skip_space(p);
      if (!at(p, "endraw")) continue;
      p = skip_space(p + 6);
      size_t end;
      if (!tag_end(p, "%}", true, &end)) continue;
      const std::string_view data = strip_data(src_.substr(pos_, tag - pos_), sign, false);
      if (!data.empty()) add(Tok::kData, data);
      advance(end);
      return;
    }
    fail_syntax(line_, "Missing end of raw directive");
  }

  void comment() {
    for (size_t p = src_.find("#}", pos_); p != std::string_view::npos; p = src_.find("#}", p + 1)) {
      size_t end;
      // A sign belongs to the end mark when it stands before it.
      if (p > pos_ && (src_[p - 1] == '-' || src_[p - 1] == '+')) {
        if (tag_end(p - 1, "#}", true, &end)) {
          advance(end);
          return;
        }
      }
      tag_end(p, "#}", true, &end);
      advance(end);
      return;
    }
    fail_syntax(line_, "Missing end of comment tag");
  }

  // Whether a closing mark stands at p: "+%}", "-%}" with the space after it, "%}" with one line end.
  bool tag_end(size_t p, std::string_view mark, bool trims, size_t* end) const {
    if (at(p, mark)) {
      *end = p + 2;
      if (trims && *end < src_.size() && src_[*end] == '\n') ++*end;
      return true;
    }
    if (p >= src_.size() || !at(p + 1, mark)) return false;
    if (src_[p] == '-') {
      *end = skip_space(p + 3);
      return true;
    }
    *end = p + 3;
    return src_[p] == '+' && trims;
  }

  void code(std::string_view mark, Tok closing) {
    std::vector<char> open;
    while (true) {
      size_t end;
      if (open.empty() && tag_end(pos_, mark, closing == Tok::kBlockEnd, &end)) {
        add(closing, {});
        advance(end);
        return;
      }
      const size_t solid = skip_space(pos_);
      if (solid != pos_) {
        advance(solid);
        continue;
      }
      if (pos_ >= src_.size()) return;  // the parser says what is missing
      token(&open);
    }
  }

  void token(std::vector<char>* open) {
    const char c = src_[pos_];
    if (is_digit(c)) return number();
    if (is_word(c)) {
      size_t end = pos_;
      while (end < src_.size() && is_word(src_[end])) ++end;
      add(Tok::kName, src_.substr(pos_, end - pos_));
      advance(end);
      return;
    }
    if (c == '"' || c == '\'') return string();
    static constexpr std::string_view kTwo[] = {"**", "//", "==", "!=", ">=", "<="};
    for (const std::string_view op : kTwo) {
      if (at(op)) {
        add(Tok::kOp, src_.substr(pos_, 2));
        advance(pos_ + 2);
        return;
      }
    }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail_syntax(line_, std::string("unexpected char '") + c + "' at " + std::to_string(pos_));
    }
    balance(c, open);
    add(Tok::kOp, src_.substr(pos_, 1));
    advance(pos_ + 1);
  }

  void balance(char c, std::vector<char>* open) const {
    if (c == '{') open->push_back('}');
    if (c == '(') open->push_back(')');
    if (c == '[') open->push_back(']');
    if (c != '}' && c != ')' && c != ']') return;
    if (open->empty()) fail_syntax(line_, std::string("unexpected '") + c + "'");
    if (open->back() != c) {
      fail_syntax(line_, std::string("unexpected '") + c + "', expected '" + open->back() + "'");
    }
    open->pop_back();
  }

  // Digits with single underscores between them; returns the end.
  size_t digits(size_t p, std::string_view set) const {
    while (p < src_.size()) {
      if (set.find(src_[p]) != std::string_view::npos) {
        ++p;
      } else if (src_[p] == '_' && p + 1 < src_.size() && set.find(src_[p + 1]) != std::string_view::npos) {
        p += 2;
      } else {
        break;
      }
    }
    return p;
  }

  void number() {
    static constexpr std::string_view kDecimal = "0123456789";
    size_t end = digits(pos_, kDecimal);
    bool real = false;
    if (pos_ == 0 || src_[pos_ - 1] != '.') {
      size_t p = end;
      if (p + 1 < src_.size() && src_[p] == '.' && is_digit(src_[p + 1])) {
        p = digits(p + 1, kDecimal);
        real = true;
      }
      if (p < src_.size() && (src_[p] | 0x20) == 'e') {
        const size_t sign = p + 1 < src_.size() && (src_[p + 1] == '+' || src_[p + 1] == '-') ? 1 : 0;
        if (p + 1 + sign < src_.size() && is_digit(src_[p + 1 + sign])) {
          p = digits(p + 1 + sign, kDecimal);
          real = true;
        }
      }
      if (real) end = p;
    }
    if (!real && src_[pos_] == '0') {
      end = digits(pos_, "0");
      const char base = pos_ + 1 < src_.size() ? static_cast<char>(src_[pos_ + 1] | 0x20) : ' ';
      const std::string_view set = base == 'x'   ? "0123456789abcdefABCDEF"
                                   : base == 'o' ? "01234567"
                                   : base == 'b' ? "01"
                                                 : "";
      if (!set.empty()) {
        size_t from = pos_ + 2;
        if (from < src_.size() && src_[from] == '_') ++from;
        if (const size_t p = digits(from, set); p > from) end = p;
      }
    }
    add(real ? Tok::kFloat : Tok::kInteger, src_.substr(pos_, end - pos_));
    advance(end);
  }

  void string() {
    const char quote = src_[pos_];
    size_t end = pos_ + 1;
    bool escaped = false;
    while (end < src_.size() && src_[end] != quote) {
      if (src_[end] == '\\') {
        escaped = true;
        ++end;
      }
      ++end;
    }
    if (end >= src_.size())
      fail_syntax(line_, std::string("unexpected char '") + quote + "' at " + std::to_string(pos_));
    std::string_view text = src_.substr(pos_ + 1, end - pos_ - 1);
    if (escaped) text = unescape(text);
    add(Tok::kString, text);
    advance(end + 1);
  }

  // Python's unicode-escape.
  std::string_view unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out.push_back(text[i++]);
        continue;
      }
      const char c = text[i + 1];
      i += 2;
      static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
        out.push_back(kTo[k]);
      } else if (c >= '0' && c <= '7') {
        uint32_t code = static_cast<uint32_t>(c - '0');
        for (int n = 1; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n) {
          code = code * 8 + static_cast<uint32_t>(text[i++] - '0');
        }
        encode(code, &out);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i = hex_escape(text, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, &out);
      } else if (c == 'N') {
        fail_syntax(line_, "named characters (\\N{...}) are not supported in a string");
      } else if (c != '\n') {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    char* data = static_cast<char*>(heap_.allocate(out.size() + 1));
    std::copy(out.begin(), out.end(), data);
    return {data, out.size()};
  }

  size_t hex_escape(std::string_view text, size_t i, size_t n, std::string* out) const {
    uint32_t code = 0;
    for (size_t k = 0; k < n; ++k) {
      const char c = i < text.size() ? static_cast<char>(text[i] | 0x20) : ' ';
      const bool digit = i < text.size() && is_digit(text[i]);
      if (!digit && (c < 'a' || c > 'f')) fail_syntax(line_, "truncated \\x, \\u or \\U escape in a string");
      code = code * 16 + static_cast<uint32_t>(digit ? text[i] - '0' : c - 'a' + 10);
      ++i;
    }
    if (code > 0x10FFFF) fail_syntax(line_, "illegal Unicode character in a string");
    encode(code, out);
    return i;
  }

  std::string_view src_;
  Heap& heap_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int32_t line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> lex(std::string_view source, Heap& heap) { return Lexer(source, heap).run(); }

}  // namespace bora::text::jinja
