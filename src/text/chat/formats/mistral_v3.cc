// [TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}, …]: Mistral tokenizers v3 to v7.
#include "text/chat/formats.h"
#include "text/chat/json_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"[TOOL_CALLS]"}};
constexpr JsonCallsStyle kStyle = {
    .layout = {
        .starts = kStarts, .swallow = {}, .nexts = {}, .think_open = {"[THINK]"}, .think_close = {"[/THINK]"}}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_json_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"[TOOL_CALLS]"};
}  // namespace

const AnswerFormat kMistralV3 = {"mistral_v3", "a JSON array behind the [TOOL_CALLS] token", kMarks, make};

}  // namespace bora::text
