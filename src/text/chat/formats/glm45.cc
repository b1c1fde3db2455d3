// <tool_call>NAME and pairs of <arg_key>, <arg_value>: GLM 4.5 and later.
#include "text/chat/formats.h"
#include "text/chat/tagged_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<tool_call>"}};
constexpr TaggedCallsStyle kStyle = {
    .layout = {.starts = kStarts, .swallow = {}, .nexts = {}, .think_open = {"<think>"}, .think_close = {"</think>"}},
    .name_stop = "\n<",
    .key_open = {"<arg_key>"},
    .key_close = {"</arg_key>"},
    .value_open = {"<arg_value>"},
    .value_close = {"</arg_value>"},
    .call_close = {"</tool_call>"}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_tagged_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<arg_key>"};
}  // namespace

const AnswerFormat kGlm45 = {"glm45", "<arg_key> and <arg_value> tags, types from the schema, <think> reasoning",
                             kMarks, make};

}  // namespace bora::text
