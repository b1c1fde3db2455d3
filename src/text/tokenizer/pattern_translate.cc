// From Oniguruma's Ruby dialect to PCRE2 (UTF, UCP, MULTILINE): see regex.h.
//
// Classes are rewritten member by member. Where the two libraries disagree on what a class holds, the difference is
// spelled out as code point ranges: letters and marks of later Unicode versions, and \w, which here means letters,
// marks, decimal digits, letter numbers and connectors.
#include <algorithm>

#include "text/tokenizer/regex.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/unicode_tables.h"

namespace bora::text {
namespace {

struct Property {
  std::string_view name;
  uint32_t mask;
};

constexpr Property kProperties[] = {
    {"L", kLetterMask},
    {"Letter", kLetterMask},
    {"M", kMarkMask},
    {"N", kNumberMask},
    {"P", kPunctMask},
    {"S", kSymbolMask},
    {"Punct", kPunctMask},
    {"punct", kPunctMask},
    {"Punctuation", kPunctMask},
    {"Number", kNumberMask},
    {"Mark", kMarkMask},
    {"Symbol", kSymbolMask},
    {"Z", cat_bit(kZs) | cat_bit(kZl) | cat_bit(kZp)},
    {"Lu", cat_bit(kLu)},
    {"Ll", cat_bit(kLl)},
    {"Lt", cat_bit(kLt)},
    {"Lm", cat_bit(kLm)},
    {"Lo", cat_bit(kLo)},
    {"Mn", cat_bit(kMn)},
    {"Mc", cat_bit(kMc)},
    {"Me", cat_bit(kMe)},
    {"Nd", cat_bit(kNd)},
    {"Nl", cat_bit(kNl)},
    {"No", cat_bit(kNo)},
    {"Pc", cat_bit(kPc)},
    {"Pd", cat_bit(kPd)},
    {"Ps", cat_bit(kPs)},
    {"Pe", cat_bit(kPe)},
    {"Pi", cat_bit(kPi)},
    {"Pf", cat_bit(kPf)},
    {"Po", cat_bit(kPo)},
    {"Sm", cat_bit(kSm)},
    {"Sc", cat_bit(kSc)},
    {"Sk", cat_bit(kSk)},
    {"So", cat_bit(kSo)},
    {"Zs", cat_bit(kZs)},
    {"Zl", cat_bit(kZl)},
    {"Zp", cat_bit(kZp)},
    {"Cf", cat_bit(kCf)},
    {"Cc", cat_bit(kCc)},
    {"Co", cat_bit(kCo)},
};
constexpr std::string_view kScriptNames[] = {
    "Han",      "Hiragana", "Katakana",   "Latin",    "Cyrillic", "Greek",   "Arabic",  "Hebrew",
    "Thai",     "Hangul",   "Devanagari", "Bengali",  "Tamil",    "Telugu",  "Kannada", "Malayalam",
    "Gujarati", "Gurmukhi", "Sinhala",    "Lao",      "Tibetan",  "Myanmar", "Khmer",   "Georgian",
    "Armenian", "Ethiopic", "Mongolian",  "Bopomofo", "Oriya",
};

void append_hex(uint32_t cp, std::string* out) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[cp & 15]);
    cp >>= 4;
  } while (cp > 0);
  *out += "\\x{" + digits + "}";
}

void append_range(uint32_t first, uint32_t last, std::string* out) {
  append_hex(first, out);
  if (last == first) return;
  out->push_back('-');
  append_hex(last, out);
}

// Ranges of code points newer than the library whose category is in `mask`, as class members.
std::string newer_members(uint32_t mask) {
  std::string out;
  for (size_t i = 0; i < kAfterUnicode14Count; ++i) {
    uint32_t begin = kAfterUnicode14[i].first;
    for (uint32_t cp = begin; cp <= kAfterUnicode14[i].last + 1; ++cp) {
      bool in = cp <= kAfterUnicode14[i].last && (mask >> category_of(cp) & 1);
      if (in) continue;
      if (cp > begin) append_range(begin, cp - 1, &out);
      begin = cp + 1;
    }
  }
  return out;
}

// A set as it goes into a class: what stands inside the brackets.
struct Members {
  std::string text;
  bool negated = false;
};

Members members_of_mask(std::string_view pcre_name, uint32_t mask) {
  return {"\\p{" + std::string(pcre_name) + "}" + newer_members(mask)};
}

Members word_members() {
  Members m;
  constexpr uint32_t mask = kLetterMask | kMarkMask | cat_bit(kNd) | cat_bit(kNl) | cat_bit(kPc);
  m.text = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}" + newer_members(mask);
  for (size_t i = 0; i < kWordOtherCount; ++i) {
    if (kWordOther[i].first == 0x200C) continue;  // joiners are no word characters in this dialect
    append_range(kWordOther[i].first, kWordOther[i].last, &m.text);
  }
  m.text += "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
  return m;
}

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  Result<std::string> run() {
    while (pos_ < in_.size()) BORA_TRY(step());
    return std::move(out_);
  }

 private:
  Status step() {
    char c = in_[pos_];
    if (c == '\\') return escape_outside();
    if (c == '[') {
      BORA_ASSIGN(std::string text, char_class(0));
      out_ += text;
      return ok_status();
    }
    if (c == '(' && in_.substr(pos_, 2) == "(?") return group_head();
    if (c == '{') return braces();
    if (c == '$') {  // before a line feed or at the very end
      out_ += "(?=\\n|\\z)";
      ++pos_;
      return ok_status();
    }
    out_.push_back(c);
    ++pos_;
    return ok_status();
  }

  // "{n,m}+" is a repeated group here and a possessive quantifier there; "{,m}" means "{0,m}".
  Status braces() {
    size_t end = in_.find('}', pos_);
    std::string_view body = end == std::string_view::npos ? std::string_view() : in_.substr(pos_ + 1, end - pos_ - 1);
    bool numeric = !body.empty() && body != "," && body.find_first_not_of("0123456789,") == std::string_view::npos &&
                   std::count(body.begin(), body.end(), ',') <= 1;
    if (!numeric) {
      out_ += "\\{";
      ++pos_;
      return ok_status();
    }
    if (end + 1 < in_.size() && in_[end + 1] == '+') return unimplemented("an interval followed by +");
    out_ += body.front() == ',' ? "{0" + std::string(body) + "}" : "{" + std::string(body) + "}";
    pos_ = end + 1;
    return ok_status();
  }

  Status group_head() {
    static constexpr std::string_view kPlain[] = {"(?:", "(?=",  "(?!",   "(?<=", "(?<!",
                                                  "(?>", "(?i:", "(?-i:", "(?i)", "(?-i)"};
    for (std::string_view head : kPlain) {
      if (in_.substr(pos_, head.size()) == head) {
        out_ += head;
        pos_ += head.size();
        return ok_status();
      }
    }
    if (in_.substr(pos_, 4) == "(?m:") {  // "m" lets the dot match line feeds here
      out_ += "(?s:";
      pos_ += 4;
      return ok_status();
    }
    return unimplemented("group " + std::string(in_.substr(pos_, 4)));
  }

  // \p{...}, \P{...} or \p{^...} at pos_, which stands on the letter.
  Result<Members> property() {
    bool negated = in_[pos_] == 'P';
    size_t end = in_.find('}', pos_);
    if (pos_ + 1 >= in_.size() || in_[pos_ + 1] != '{' || end == std::string_view::npos) {
      return invalid_argument("\\p without {name}");
    }
    std::string_view name = in_.substr(pos_ + 2, end - pos_ - 2);
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    pos_ = end + 1;
    for (const Property& p : kProperties) {
      if (p.name != name) continue;
      std::string_view pcre_name = name;
      if (name == "Letter") pcre_name = "L";
      if (name == "Mark") pcre_name = "M";
      if (name == "Number") pcre_name = "N";
      if (name == "Symbol") pcre_name = "S";
      if (p.mask == kPunctMask) pcre_name = "P";
      Members m = members_of_mask(pcre_name, p.mask);
      m.negated = negated;
      return m;
    }
    for (std::string_view script : kScriptNames) {
      if (script == name) return Members{"\\p{sc:" + std::string(name) + "}", negated};
    }
    return unimplemented("property \\p{" + std::string(name) + "}");
  }

  // An escape that names a set, at pos_ behind the backslash; nothing consumed when it names none.
  Result<std::pair<bool, Members>> set_escape() {
    char c = in_[pos_];
    auto done = [&](Members m) {
      ++pos_;
      return std::pair<bool, Members>(true, std::move(m));
    };
    if (c == 'p' || c == 'P') {
      BORA_ASSIGN(Members m, property());
      return std::pair<bool, Members>(true, std::move(m));
    }
    if (c == 's' || c == 'S') return done({"\\s\\x{85}", c == 'S'});
    if (c == 'd' || c == 'D') return done({"\\p{Nd}" + newer_members(cat_bit(kNd)), c == 'D'});
    if (c == 'h' || c == 'H') return done({"0-9a-fA-F", c == 'H'});
    if (c == 'w' || c == 'W') {
      Members m = word_members();
      m.negated = c == 'W';
      return done(std::move(m));
    }
    return std::pair<bool, Members>(false, {});
  }

  // A single code point written as an escape, at pos_ behind the backslash.
  Result<uint32_t> code_escape() {
    char c = in_[pos_++];
    static constexpr std::string_view kNames = "tnrfvae";
    static constexpr uint8_t kValues[] = {9, 10, 13, 12, 11, 7, 27};
    if (size_t i = kNames.find(c); i != std::string_view::npos) return uint32_t{kValues[i]};
    if (c == 'x' || c == 'u') {
      bool braces = c == 'x' && pos_ < in_.size() && in_[pos_] == '{';
      size_t digits = c == 'u' ? 4 : braces ? 8 : 2;
      pos_ += braces;
      uint32_t value = 0;
      size_t n = 0;
      for (; n < digits && pos_ < in_.size() && std::isxdigit(static_cast<uint8_t>(in_[pos_])); ++n, ++pos_) {
        char d = in_[pos_];
        value = value * 16 + static_cast<uint32_t>(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
      }
      if (n == 0 || value > 0x10FFFF || (c == 'u' && n < 4)) return invalid_argument("bad \\x or \\u escape");
      if (braces && (pos_ >= in_.size() || in_[pos_++] != '}')) return invalid_argument("\\x{ without }");
      return value;
    }
    if (std::isalnum(static_cast<uint8_t>(c))) return unimplemented(std::string("escape \\") + c);
    --pos_;
    return utf8_next(in_.data(), &pos_);
  }

  Status escape_outside() {
    if (++pos_ >= in_.size()) return invalid_argument("ends in a backslash");
    BORA_ASSIGN(auto set, set_escape());
    if (set.first) {
      out_ += (set.second.negated ? "[^" : "[") + set.second.text + "]";
      return ok_status();
    }
    char c = in_[pos_];
    if (std::string_view("bBAzZGXRK").find(c) != std::string_view::npos) {
      if (c == 'b' || c == 'B') {
        append_word_boundary(c == 'b');
      } else {
        out_ += '\\';
        out_ += c;
      }
      ++pos_;
      return ok_status();
    }
    if (c >= '1' && c <= '9') {
      out_ += '\\';
      out_ += c;
      ++pos_;
      return ok_status();
    }
    BORA_ASSIGN(uint32_t cp, code_escape());
    append_hex(cp, &out_);
    return ok_status();
  }

  void append_word_boundary(bool positive) {
    std::string w = "[" + word_members().text + "]";
    std::string at = "(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))";
    out_ += positive ? at : "(?!" + at + ")";
  }

  // A class at pos_ ("["), as an expression that matches one character.
  Result<std::string> char_class(int depth) {
    if (depth > 16) return invalid_argument("classes nested too deeply");
    ++pos_;
    bool negated = pos_ < in_.size() && in_[pos_] == '^';
    pos_ += negated;
    std::vector<std::string> operands;  // of &&
    Operand operand;
    bool first = true;
    for (;; first = false) {
      if (pos_ >= in_.size()) return invalid_argument("class without ]");
      if (in_[pos_] == ']' && !first) break;
      if (in_.substr(pos_, 2) == "&&") {
        operands.push_back(operand.finish());
        operand = {};
        pos_ += 2;
        continue;
      }
      BORA_TRY(class_member(depth, &operand));
    }
    ++pos_;
    if (operands.empty() && operand.alternatives.empty()) return (negated ? "[^" : "[") + operand.members + "]";
    operands.push_back(operand.finish());
    std::string text = "(?:";
    for (size_t i = 0; i + 1 < operands.size(); ++i) text += "(?=" + operands[i] + ")";
    text += operands.back() + ")";
    return negated ? "(?:(?!" + text + ")(?s:.))" : text;
  }

  struct Operand {
    std::string members;
    std::vector<std::string> alternatives;  // sets that cannot stand inside brackets
    std::string finish() const {
      if (alternatives.empty()) return members.empty() ? "(?!)" : "[" + members + "]";
      std::string text = "(?:";
      for (const std::string& a : alternatives) text += a + "|";
      text += members.empty() ? "(?!)" : "[" + members + "]";
      return text + ")";
    }
  };

  Status class_member(int depth, Operand* operand) {
    if (in_.substr(pos_, 2) == "[:") return posix(operand);
    if (in_[pos_] == '[') {
      BORA_ASSIGN(std::string inner, char_class(depth + 1));
      operand->alternatives.push_back(std::move(inner));
      return ok_status();
    }
    if (in_[pos_] == '\\' && pos_ + 1 < in_.size()) {
      ++pos_;
      BORA_ASSIGN(auto set, set_escape());
      if (set.first) {
        if (set.second.negated) {
          operand->alternatives.push_back("[^" + set.second.text + "]");
        } else {
          operand->members += set.second.text;
        }
        return ok_status();
      }
      --pos_;
    }
    BORA_ASSIGN(uint32_t low, class_code());
    uint32_t high = low;
    if (pos_ + 1 < in_.size() && in_[pos_] == '-' && in_[pos_ + 1] != ']') {
      ++pos_;
      BORA_ASSIGN(high, class_code());
      if (high < low) return invalid_argument("empty range in a class");
    }
    append_range(low, high, &operand->members);
    return ok_status();
  }

  Result<uint32_t> class_code() {
    if (in_[pos_] != '\\') return utf8_next(in_.data(), &pos_);
    if (++pos_ >= in_.size()) return invalid_argument("ends in a backslash");
    if (in_[pos_] == 'b') {
      ++pos_;
      return uint32_t{8};
    }
    return code_escape();
  }

  Status posix(Operand* operand) {
    size_t end = in_.find(":]", pos_);
    if (end == std::string_view::npos) return invalid_argument("[: without :]");
    std::string_view name = in_.substr(pos_ + 2, end - pos_ - 2);
    bool negated = !name.empty() && name[0] == '^';
    if (negated) name.remove_prefix(1);
    std::string members;
    if (name == "alpha") {
      members = "\\p{L}\\p{M}\\p{Nl}" + newer_members(kLetterMask | kMarkMask | cat_bit(kNl));
    } else if (name == "digit") {
      members = "\\p{Nd}" + newer_members(cat_bit(kNd));
    } else if (name == "space") {
      members = "\\s\\x{85}";
    } else if (name == "punct") {
      members = "\\p{P}" + newer_members(kPunctMask);
    } else if (name == "upper") {
      members = "\\p{Lu}" + newer_members(cat_bit(kLu));
    } else if (name == "lower") {
      members = "\\p{Ll}" + newer_members(cat_bit(kLl));
    } else {
      return unimplemented("[:" + std::string(name) + ":]");
    }
    pos_ = end + 2;
    if (negated) {
      operand->alternatives.push_back("[^" + members + "]");
    } else {
      operand->members += members;
    }
    return ok_status();
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  if (!utf8_valid(pattern)) return invalid_argument("not UTF-8");
  return Translator(pattern).run();
}

}  // namespace bora::text
