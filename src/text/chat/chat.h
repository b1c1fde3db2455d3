// Answers: what a model wrote, taken apart into content, reasoning and tool calls.
//
// One state machine a format, the same for stream and non-stream, fed with pieces of any size. Where a format's
// markers are special tokens, a marker spelled in ordinary tokens is content. Formats are records in a list; the
// model's template and special tokens choose one. A parser has one answer's state: one thread, cheap to make, cost
// linear in the text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::text {

struct AnswerPiece {
  std::string_view text;  // UTF-8, any cut between characters
  bool special = false;   // the text of one special token
};

// What a client gets to see next. Concatenating deltas of one kind gives the final value.
struct AnswerDelta {
  enum class Kind : uint8_t { kContent, kReasoning, kToolName, kToolArguments };
  Kind kind;
  int32_t tool_index = -1;  // kToolName, kToolArguments: ascending from 0
  std::string text;         // kToolArguments: the model's own characters; their concatenation is JSON
};

enum class AnswerEnd : uint8_t { kStop, kLength };

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text
};

struct Answer {
  std::string content, reasoning;
  std::vector<ToolCall> tool_calls;
  std::string finish_reason;  // "stop", "length" or "tool_calls"
};

struct AnswerOptions {
  const Json* tools = nullptr;  // the request's tool list (JSON array), or null; outlives the parser
  bool reasoning_open = false;  // the prompt already opened the reasoning block
  bool markers_are_special =
      false;  // true: only AnswerPiece::special pieces may be markers, where the format says so
};

class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  // Appends what has become certain.
  virtual void push(const AnswerPiece& piece, std::vector<AnswerDelta>* out) = 0;
  // Called once. A call that stays broken comes back as content. Returns the finish reason.
  virtual std::string_view finish(AnswerEnd end, std::vector<AnswerDelta>* out) = 0;
};

struct AnswerFormat {
  std::string_view name;     // as `bora parse --format` takes it
  std::string_view summary;  // one line for the docs
  // Marks by which it is recognised: substrings of the chat template or special tokens. See choose_format.
  std::span<const std::string_view> template_marks;
  std::unique_ptr<AnswerParser> (*make)(const AnswerOptions& options);
};

// All formats, in order of preference. The last is "plain": no tools, think tags only.
std::span<const AnswerFormat* const> answer_formats();
const AnswerFormat* find_answer_format(std::string_view name);  // null if unknown
// The first format one of whose marks stands in the template; "plain" if none.
const AnswerFormat& choose_answer_format(std::string_view chat_template);

// Feeds `raw` whole (or `split` bytes at a time, never inside a character) and collects the deltas.
Answer parse_answer(const AnswerFormat& format, const AnswerOptions& options, std::string_view raw, AnswerEnd end,
                    size_t split = 0);

}  // namespace bora::text
