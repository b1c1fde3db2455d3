// Calls as JSON objects {"name": …, "arguments": …}, alone or in an array: several families differ only in what
// stands around.
#pragma once

#include <memory>

#include "text/chat/machine.h"

namespace bora::text {

// One call object, character by character.
class CallObject {
 public:
  enum class Result : uint8_t { kMore, kDone, kBad };
  // `need_arguments`: without them the object is no call.
  explicit CallObject(bool need_arguments = false) : need_arguments_(need_arguments) {}
  // Appends the arguments' own text to *args as it comes.
  Result feed(char c, std::string* args);
  bool named() const { return have_name_; }
  const std::string& name() const { return name_; }

 private:
  enum class Phase : uint8_t { kOpen, kFirstKey, kKey, kKeyText, kColon, kGap, kValue, kAfter };
  enum class Target : uint8_t { kOther, kName, kArguments, kArgumentsText };
  Result value_done(std::string* args);
  Result begin_value(char c);
  Result close(std::string* args);

  bool need_arguments_;
  Phase phase_ = Phase::kOpen;
  Target target_ = Target::kOther;
  JsonPush json_;
  std::string scratch_, name_;
  bool have_name_ = false, have_arguments_ = false;
};

struct JsonCallsStyle {
  Layout layout;
  bool brace_starts = false;  // the start marker is the object's own brace
  bool need_arguments = false;
  bool known_names = false;  // only names of the request's tools, when there are any
  char separator = 0;        // between calls outside an array
};

std::unique_ptr<AnswerParser> make_json_calls(const AnswerOptions& options, const JsonCallsStyle& style);

}  // namespace bora::text
