// [TOOL_CALLS]name[ARGS]{…}: Mistral tokenizers v11 and later; [THINK] reasoning.
#include "text/chat/formats.h"
#include "text/chat/named_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"[TOOL_CALLS]"}};

// A call id may stand between the name and the arguments.
std::string name_of(std::string_view header) { return std::string(header.substr(0, header.find("[CALL_ID]"))); }

constexpr NamedCallsStyle kStyle = {
    .layout = {.starts = kStarts, .swallow = {}, .nexts = {}, .think_open = {"[THINK]"}, .think_close = {"[/THINK]"}},
    .separator = {"[ARGS]"},
    .name_of = name_of};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_named_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"[ARGS]"};
}  // namespace

const AnswerFormat kMistralV11 = {"mistral_v11", "[TOOL_CALLS]name[ARGS]{...}, [THINK] reasoning", kMarks, make};

}  // namespace bora::text
