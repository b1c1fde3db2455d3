// {"name": …, "parameters": {…}} as the whole answer, several joined by semicolons: Llama 3.1 and later.
#include "text/chat/formats.h"
#include "text/chat/json_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"{", false}, {"<|python_tag|>"}};
constexpr Marker kSwallow[] = {{"<|eom_id|>"}, {"<|eot_id|>"}};
constexpr JsonCallsStyle kStyle = {.layout = {.starts = kStarts,
                                              .swallow = kSwallow,
                                              .nexts = {},
                                              .think_open = {"<think>"},
                                              .think_close = {"</think>"},
                                              .think_label = {},
                                              .at_start = true},
                                   .brace_starts = true,
                                   .need_arguments = true,
                                   .known_names = true,
                                   .separator = ';'};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_json_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"Respond in the format {\"name\": function name, \"parameters\""};
}  // namespace

const AnswerFormat kLlama3Json = {"llama3_json", "bare JSON objects with parameters, joined by semicolons", kMarks,
                                  make};

}  // namespace bora::text
