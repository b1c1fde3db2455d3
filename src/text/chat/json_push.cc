#include "text/chat/json_push.h"

namespace bora::text {

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

}  // namespace

void json_escape(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"': out->append("\\\""); break;
      case '\\': out->append("\\\\"); break;
      case '\n': out->append("\\n"); break;
      case '\r': out->append("\\r"); break;
      case '\t': out->append("\\t"); break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out->append("\\u00");
          out->push_back(kHex[c >> 4]);
          out->push_back(kHex[c & 15]);
        } else {
          out->push_back(c);
        }
    }
  }
}

JsonPush::Result JsonPush::close() {
  if (stack_.empty()) {
    state_ = State::kEnd;
    return Result::kDone;
  }
  state_ = State::kAfter;
  return Result::kMore;
}

JsonPush::Result JsonPush::value(char c) {
  if (is_space(c)) return Result::kMore;
  if (c == '{' || c == '[') {
    if (stack_.size() >= kMaxDepth) return Result::kBad;
    stack_.push_back(c);
    state_ = c == '{' ? State::kFirstKey : State::kFirstItem;
    return Result::kMore;
  }
  if (c == ']' && state_ == State::kFirstItem) {
    stack_.pop_back();
    return close();
  }
  if (c == '"') {
    key_ = false;
    state_ = State::kString;
  } else if (c == '-') {
    state_ = State::kMinus;
  } else if (is_digit(c)) {
    state_ = c == '0' ? State::kZero : State::kInt;
  } else if (c == 't' || c == 'f' || c == 'n') {
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    state_ = State::kLiteral;
  } else {
    return Result::kBad;
  }
  return Result::kMore;
}

JsonPush::Result JsonPush::number(char c) {
  const bool digit = is_digit(c), e = c == 'e' || c == 'E';
  switch (state_) {
    case State::kMinus:
      if (!digit) return Result::kBad;
      state_ = c == '0' ? State::kZero : State::kInt;
      return Result::kMore;
    case State::kPoint:
    case State::kExpSign:
      if (!digit) return Result::kBad;
      state_ = state_ == State::kPoint ? State::kFraction : State::kExpDigits;
      return Result::kMore;
    case State::kExp:
      if (!digit && c != '+' && c != '-') return Result::kBad;
      state_ = digit ? State::kExpDigits : State::kExpSign;
      return Result::kMore;
    default: break;
  }
  if (digit && state_ != State::kZero) return Result::kMore;
  if (c == '.' && (state_ == State::kZero || state_ == State::kInt)) {
    state_ = State::kPoint;
    return Result::kMore;
  }
  if (e && state_ != State::kExpDigits) {
    state_ = State::kExp;
    return Result::kMore;
  }
  if (close() == Result::kDone) return Result::kBefore;
  return after(c);
}

JsonPush::Result JsonPush::after(char c) {
  if (is_space(c)) return Result::kMore;
  const bool object = stack_.back() == '{';
  if (c == ',') {
    state_ = object ? State::kKey : State::kValue;
    return Result::kMore;
  }
  if (c != (object ? '}' : ']')) return Result::kBad;
  stack_.pop_back();
  return close();
}

JsonPush::Result JsonPush::feed(char c, std::string* out) {
  const bool raw_control = state_ == State::kString && static_cast<unsigned char>(c) < 0x20;
  Result r = Result::kBad;
  switch (state_) {
    case State::kValue:
    case State::kFirstItem: r = value(c); break;
    case State::kFirstKey:
    case State::kKey:
      if (is_space(c)) {
        r = Result::kMore;
      } else if (c == '"') {
        key_ = true;
        state_ = State::kString;
        r = Result::kMore;
      } else if (c == '}' && state_ == State::kFirstKey) {
        stack_.pop_back();
        r = close();
      }
      break;
    case State::kColon:
      r = is_space(c) || c == ':' ? Result::kMore : Result::kBad;
      if (c == ':') state_ = State::kValue;
      break;
    case State::kAfter: r = after(c); break;
    case State::kString:
      r = Result::kMore;
      if (c == '\\') state_ = State::kEscape;
      if (c == '"') {
        if (key_)
          state_ = State::kColon;
        else
          r = close();
      }
      break;
    case State::kEscape:
      if (std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos) {
        r = Result::kMore;
        hex_ = 4;
        state_ = c == 'u' ? State::kHex : State::kString;
      }
      break;
    case State::kHex:
      if (is_hex(c)) {
        r = Result::kMore;
        if (--hex_ == 0) state_ = State::kString;
      }
      break;
    case State::kLiteral:
      if (c == literal_[0]) {
        literal_.remove_prefix(1);
        r = literal_.empty() ? close() : Result::kMore;
      }
      break;
    case State::kEnd: break;
    default: r = number(c); break;
  }
  if (r == Result::kMore || r == Result::kDone) raw_control ? json_escape({&c, 1}, out) : out->push_back(c);
  return r;
}

bool JsonPush::complete_at_end() const {
  if (state_ == State::kEnd) return true;
  return stack_.empty() && (state_ == State::kZero || state_ == State::kInt || state_ == State::kFraction ||
                            state_ == State::kExpDigits);
}

}  // namespace bora::text
