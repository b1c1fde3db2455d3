// <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke> in <minimax:tool_call>: MiniMax M2.
#include "text/chat/formats.h"
#include "text/chat/tagged_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<minimax:tool_call>"}};
constexpr Marker kNexts[] = {{"<invoke name=\"", false}, {"<minimax:tool_call>"}};
constexpr Marker kSwallow[] = {{"</minimax:tool_call>"}};
constexpr TaggedCallsStyle kStyle = {.layout = {.starts = kStarts,
                                                .swallow = kSwallow,
                                                .nexts = kNexts,
                                                .think_open = {"<think>"},
                                                .think_close = {"</think>"}},
                                     .name_open = {"<invoke name=\"", false},
                                     .name_stop = "\"",
                                     .name_close = {"\">", false},
                                     .key_open = {"<parameter name=\"", false},
                                     .key_close = {"\">", false},
                                     .value_close = {"</parameter>", false},
                                     .call_close = {"</invoke>", false},
                                     .trims_line_ends = true};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_tagged_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"minimax:tool_call"};
}  // namespace

const AnswerFormat kMinimaxM2 = {
    "minimax_m2", "<invoke> and <parameter> tags, types from the schema, <think> reasoning", kMarks, make};

}  // namespace bora::text
