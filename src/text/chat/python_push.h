// A Python literal read character by character and written as JSON: strings in either quote, numbers, True, False,
// None, lists, tuples and dicts with string keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bora::text {

class PythonPush {
 public:
  enum class Result : uint8_t { kMore, kDone, kBefore, kBad };  // as JsonPush's
  Result feed(char c, std::string* out);

 private:
  enum class State : uint8_t { kValue, kFirst, kFirstKey, kKey, kColon, kString, kEscape, kHex, kWord, kAfter };
  static constexpr size_t kMaxDepth = 200;
  Result value(char c, std::string* out);
  Result word_end(std::string* out);
  Result escape(char c, std::string* out);
  Result after(char c, std::string* out);
  Result close();

  State state_ = State::kValue;
  std::vector<char> stack_;
  char quote_ = 0;
  bool key_ = false;
  int hex_left_ = 0;
  uint32_t code_ = 0;
  std::string word_;
};

}  // namespace bora::text
