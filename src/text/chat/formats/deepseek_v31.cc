// DeepSeek V3.1: name and JSON object between the tool tokens.
#include "text/chat/formats.h"
#include "text/chat/named_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<｜tool▁calls▁begin｜>"}, {"<｜tool▁call▁begin｜>"}};
constexpr Marker kNexts[] = {{"<｜tool▁call▁begin｜>"}};
constexpr Marker kSwallow[] = {{"<｜tool▁call▁end｜>"}, {"<｜tool▁calls▁end｜>"}};
constexpr NamedCallsStyle kStyle = {.layout = {.starts = kStarts,
                                               .swallow = kSwallow,
                                               .nexts = kNexts,
                                               .think_open = {"<think>"},
                                               .think_close = {"</think>"}},
                                    .open = {"<｜tool▁call▁begin｜>"},
                                    .separator = {"<｜tool▁sep｜>"}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_named_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<｜tool▁sep｜>"};
}  // namespace

const AnswerFormat kDeepseekV31 = {"deepseek_v31", "name and JSON between DeepSeek tool tokens, <think> reasoning",
                                   kMarks, make};

}  // namespace bora::text
