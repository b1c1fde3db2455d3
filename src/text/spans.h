// SpanText: text that remembers, piece by piece, who wrote it.
//
// A rendered prompt mixes what the chat template wrote with what users wrote. Only the former may hold control
// tokens, so the distinction travels from the template engine to the tokenizer instead of being guessed from the
// text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bora::text {

struct SpanText {
  struct Run {
    uint32_t end;        // byte offset one past the run; runs are ascending, adjacent and not empty
    bool from_template;  // true: control tokens in it are control; false: data
  };
  std::string text;       // UTF-8
  std::vector<Run> runs;  // cover `text` exactly; neighbours differ in from_template

  void append(std::string_view piece, bool from_template) {
    if (piece.empty()) return;
    text.append(piece);
    if (!runs.empty() && runs.back().from_template == from_template) {
      runs.back().end = static_cast<uint32_t>(text.size());
    } else {
      runs.push_back({static_cast<uint32_t>(text.size()), from_template});
    }
  }
};

}  // namespace bora::text
