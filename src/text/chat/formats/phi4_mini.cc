// <|tool_call|>{"name": …, "arguments": {…}}<|/tool_call|>, or an array of such objects: Phi-4-mini.
#include "text/chat/formats.h"
#include "text/chat/json_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|tool_call|>"}};
constexpr Marker kSwallow[] = {{"<|/tool_call|>"}};
constexpr JsonCallsStyle kStyle = {
    .layout = {
        .starts = kStarts, .swallow = kSwallow, .nexts = {}, .think_open = {"<think>"}, .think_close = {"</think>"}}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_json_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<|/tool_call|>"};
}  // namespace

const AnswerFormat kPhi4Mini = {"phi4_mini", "JSON objects in <|tool_call|> tokens", kMarks, make};

}  // namespace bora::text
