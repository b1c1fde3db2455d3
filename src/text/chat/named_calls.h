// Calls as a name, a separator and a JSON object.
#pragma once

#include <memory>

#include "text/chat/machine.h"

namespace bora::text {

struct NamedCallsStyle {
  Layout layout;
  Marker open{};              // stands behind every start marker but the last one of `starts`; empty: none
  Marker separator;           // ends the header
  bool name_on_line = false;  // the name stands behind the separator, up to the end of its line
  Marker fence{};             // may stand before the object
  std::string (*name_of)(std::string_view header) = nullptr;  // null: the header without outer space
};

std::unique_ptr<AnswerParser> make_named_calls(const AnswerOptions& options, const NamedCallsStyle& style);

}  // namespace bora::text
