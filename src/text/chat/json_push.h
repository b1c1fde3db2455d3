// A JSON value read character by character: says when it is complete and when it cannot become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bora::text {

class JsonPush {
 public:
  enum class Result : uint8_t {
    kMore,
    kDone,    // complete; the character belongs to it
    kBefore,  // complete before the character, which does not belong to it (numbers)
    kBad,
  };
  // Feeds one byte and appends to *out what stands for it in valid JSON: the byte itself, or its escape for a raw
  // control character inside a string, which models write now and then.
  Result feed(char c, std::string* out);
  // At the end of the text: whether what was read is a complete value.
  bool complete_at_end() const;
  bool in_string() const { return state_ == State::kString || state_ == State::kEscape || state_ == State::kHex; }
  bool started() const { return state_ != State::kValue || !stack_.empty(); }

 private:
  enum class State : uint8_t {
    kValue,
    kFirstItem,
    kFirstKey,
    kKey,
    kColon,
    kAfter,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kInt,
    kPoint,
    kFraction,
    kExp,
    kExpSign,
    kExpDigits,
    kEnd,
  };
  static constexpr size_t kMaxDepth = 500;
  Result value(char c);
  Result number(char c);
  Result after(char c);
  Result close();  // a value inside, or the whole, is complete

  State state_ = State::kValue;
  std::vector<char> stack_;  // '{' or '['
  bool key_ = false;         // the string being read is a key
  uint8_t hex_ = 0;
  std::string_view literal_;
};

// Appends `text` as the inside of a JSON string.
void json_escape(std::string_view text, std::string* out);

}  // namespace bora::text
