// Calls as tags: a name, then keys with values that carry no types (the tool's schema gives them).
#pragma once

#include <memory>

#include "text/chat/machine.h"

namespace bora::text {

struct TaggedCallsStyle {
  Layout layout;
  Marker name_open{};  // stands before the name, behind every start marker that does not end with it; empty: none
  std::string_view name_stop;   // any of these characters ends the name
  bool name_stop_kept = false;  // a '<' that ends the name belongs to what follows
  Marker name_close{};          // consumed behind the name; empty: none
  Marker key_open, key_close;
  Marker value_open{};  // empty: the value follows at once
  Marker value_close;
  Marker call_close;
  bool trims_line_ends = false;  // one at each end of a value
};

std::unique_ptr<AnswerParser> make_tagged_calls(const AnswerOptions& options, const TaggedCallsStyle& style);

}  // namespace bora::text
