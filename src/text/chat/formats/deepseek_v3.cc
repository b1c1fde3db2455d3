// DeepSeek V3 and R1: function, name and a fenced JSON object between the tool tokens.
#include "text/chat/formats.h"
#include "text/chat/named_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<｜tool▁calls▁begin｜>"}, {"<｜tool▁call▁begin｜>"}};
constexpr Marker kNexts[] = {{"<｜tool▁call▁begin｜>"}};
constexpr Marker kSwallow[] = {{"```", false}, {"<｜tool▁call▁end｜>"}, {"<｜tool▁calls▁end｜>"}};
constexpr NamedCallsStyle kStyle = {.layout = {.starts = kStarts,
                                               .swallow = kSwallow,
                                               .nexts = kNexts,
                                               .think_open = {"<think>"},
                                               .think_close = {"</think>"}},
                                    .open = {"<｜tool▁call▁begin｜>"},
                                    .separator = {"<｜tool▁sep｜>"},
                                    .name_on_line = true,
                                    .fence = {"```json", false}};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_named_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"tool['type'] + '<｜tool▁sep｜>'"};
}  // namespace

const AnswerFormat kDeepseekV3 = {"deepseek_v3", "fenced JSON between DeepSeek tool tokens, <think> reasoning",
                                  kMarks, make};

}  // namespace bora::text
