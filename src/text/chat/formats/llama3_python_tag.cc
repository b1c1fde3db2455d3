// <|python_tag|>{"name": …, "parameters": {…}}; …: Llama 3 where calls are marked.
#include "text/chat/formats.h"
#include "text/chat/json_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|python_tag|>"}};
constexpr Marker kSwallow[] = {{"<|eom_id|>"}, {"<|eot_id|>"}};
constexpr JsonCallsStyle kStyle = {.layout = {.starts = kStarts,
                                              .swallow = kSwallow,
                                              .nexts = {},
                                              .think_open = {"<think>"},
                                              .think_close = {"</think>"}},
                                   .brace_starts = false,
                                   .need_arguments = true,
                                   .known_names = false,
                                   .separator = ';'};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_json_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<|python_tag|>"};
}  // namespace

const AnswerFormat kLlama3PythonTag = {"llama3_python_tag", "JSON objects behind the <|python_tag|> token", kMarks,
                                       make};

}  // namespace bora::text
