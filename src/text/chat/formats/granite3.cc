// <|tool_call|>[{"name": …, "arguments": {…}}, …]: Granite 3.
#include "text/chat/formats.h"
#include "text/chat/json_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|tool_call|>"}};
constexpr JsonCallsStyle kStyle = {
    .layout = {
        .starts = kStarts, .swallow = {}, .nexts = {}, .think_open = {"<think>"}, .think_close = {"</think>"}}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_json_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<|tool_call|>"};
}  // namespace

const AnswerFormat kGranite3 = {"granite3", "a JSON array behind the <|tool_call|> token", kMarks, make};

}  // namespace bora::text
