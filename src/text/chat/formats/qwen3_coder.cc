// <function=NAME><parameter=KEY>VALUE</parameter></function> in <tool_call> tags: Qwen3-Coder, Qwen 3.5.
#include "text/chat/formats.h"
#include "text/chat/tagged_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<tool_call>"}, {"<function=", false}};
constexpr Marker kSwallow[] = {{"</tool_call>"}};
constexpr TaggedCallsStyle kStyle = {.layout = {.starts = kStarts,
                                                .swallow = kSwallow,
                                                .nexts = {},
                                                .think_open = {"<think>"},
                                                .think_close = {"</think>"}},
                                     .name_open = {"<function=", false},
                                     .name_stop = ">",
                                     .name_close = {">", false},
                                     .key_open = {"<parameter=", false},
                                     .key_close = {">", false},
                                     .value_close = {"</parameter>", false},
                                     .call_close = {"</function>", false},
                                     .trims_line_ends = true};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_tagged_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<function="};
}  // namespace

const AnswerFormat kQwen3Coder = {"qwen3_coder", "<function=...> and <parameter=...> tags, types from the schema",
                                  kMarks, make};

}  // namespace bora::text
