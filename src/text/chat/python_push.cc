#include "text/chat/python_push.h"

#include <string_view>

#include "text/chat/json_push.h"
#include "text/chat/param_types.h"

namespace bora::text {

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

void append_unit(uint32_t unit, std::string* out) {
  out->append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out->push_back("0123456789abcdef"[unit >> shift & 15]);
}

}  // namespace

PythonPush::Result PythonPush::close() {
  if (stack_.empty()) return Result::kDone;
  state_ = State::kAfter;
  return Result::kMore;
}

PythonPush::Result PythonPush::value(char c, std::string* out) {
  if (is_space(c)) return Result::kMore;
  if (c == '[' || c == '(' || c == '{') {
    if (stack_.size() >= kMaxDepth) return Result::kBad;
    stack_.push_back(c);
    out->push_back(c == '{' ? '{' : '[');
    state_ = c == '{' ? State::kFirstKey : State::kFirst;
    return Result::kMore;
  }
  if ((c == ']' || c == ')') && state_ == State::kFirst) return after(c, out);
  if (c == '"' || c == '\'') {
    quote_ = c;
    key_ = false;
    out->push_back('"');
    state_ = State::kString;
    return Result::kMore;
  }
  if (c == ',' || c == '}' || c == ':' || c == '=') return Result::kBad;
  word_.assign(1, c);
  state_ = State::kWord;
  return Result::kMore;
}

PythonPush::Result PythonPush::word_end(std::string* out) {
  const ParamTypes any{.number = true, .boolean = true, .null = true};
  const std::string json = typed_value(any, word_);
  if (json[0] == '"') return Result::kBad;
  out->append(json);
  return Result::kMore;
}

PythonPush::Result PythonPush::escape(char c, std::string* out) {
  static constexpr std::string_view kFrom = "abfnrtv";
  static constexpr char kTo[] = {7, 8, 12, 10, 13, 9, 11};
  state_ = State::kString;
  if (c == 'x' || c == 'u' || c == 'U') {
    hex_left_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    code_ = 0;
    state_ = State::kHex;
  } else if (c == '\\' || c == '\'' || c == '"') {
    json_escape({&c, 1}, out);
  } else if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
    json_escape({&kTo[k], 1}, out);
  } else if (c != '\n') {
    out->append("\\\\");
    json_escape({&c, 1}, out);
  }
  return Result::kMore;
}

PythonPush::Result PythonPush::after(char c, std::string* out) {
  if (is_space(c)) return Result::kMore;
  const char open = stack_.back();
  if (c == ',') {
    out->append(", ");
    state_ = open == '{' ? State::kKey : State::kValue;
    return Result::kMore;
  }
  const char closing = open == '{' ? '}' : open == '[' ? ']' : ')';
  if (c != closing) return Result::kBad;
  out->push_back(open == '{' ? '}' : ']');
  stack_.pop_back();
  return close();
}

PythonPush::Result PythonPush::feed(char c, std::string* out) {
  switch (state_) {
    case State::kValue:
    case State::kFirst: return value(c, out);
    case State::kFirstKey:
      if (c == '}') return after(c, out);
      [[fallthrough]];
    case State::kKey:
      if (is_space(c)) return Result::kMore;
      if (c != '"' && c != '\'') return Result::kBad;
      quote_ = c;
      key_ = true;
      out->push_back('"');
      state_ = State::kString;
      return Result::kMore;
    case State::kColon:
      if (c == ':') {
        out->append(": ");
        state_ = State::kValue;
      }
      return c == ':' || is_space(c) ? Result::kMore : Result::kBad;
    case State::kString:
      if (c == '\\') {
        state_ = State::kEscape;
      } else if (c != quote_) {
        json_escape({&c, 1}, out);
      } else {
        out->push_back('"');
        if (!key_) return close();
        state_ = State::kColon;
      }
      return Result::kMore;
    case State::kEscape: return escape(c, out);
    case State::kHex: {
      const char l = static_cast<char>(c | 0x20);
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (l < 'a' || l > 'f')) return Result::kBad;
      code_ = code_ * 16 + static_cast<uint32_t>(digit ? c - '0' : l - 'a' + 10);
      if (--hex_left_ > 0) return Result::kMore;
      if (code_ > 0x10FFFF) return Result::kBad;
      if (code_ >= 0x10000) {
        append_unit(0xD800 + ((code_ - 0x10000) >> 10), out);
        code_ = 0xDC00 + ((code_ - 0x10000) & 0x3FF);
      }
      append_unit(code_, out);
      state_ = State::kString;
      return Result::kMore;
    }
    case State::kWord: {
      if (!is_space(c) && c != ',' && c != ')' && c != ']' && c != '}' && c != ':') {
        word_.push_back(c);
        return word_.size() <= 256 ? Result::kMore : Result::kBad;
      }
      if (word_end(out) == Result::kBad) return Result::kBad;
      if (stack_.empty()) return Result::kBefore;
      state_ = State::kAfter;
      return after(c, out);
    }
    case State::kAfter: return after(c, out);
  }
  return Result::kBad;
}

}  // namespace bora::text
