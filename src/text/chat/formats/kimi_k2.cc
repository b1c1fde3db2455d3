// Kimi K2: functions.NAME:INDEX and a JSON object between the tool tokens.
#include "text/chat/formats.h"
#include "text/chat/named_calls.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|tool_calls_section_begin|>"}, {"<|tool_call_begin|>"}};
constexpr Marker kNexts[] = {{"<|tool_call_begin|>"}};
constexpr Marker kSwallow[] = {{"<|tool_call_end|>"}, {"<|tool_calls_section_end|>"}};

// "functions.get_weather:0" → "get_weather"
std::string name_of(std::string_view id) {
  if (id.starts_with("functions.")) id.remove_prefix(10);
  const size_t colon = id.rfind(':');
  if (colon != std::string_view::npos && id.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
    id = id.substr(0, colon);
  return std::string(id);
}

constexpr NamedCallsStyle kStyle = {.layout = {.starts = kStarts,
                                               .swallow = kSwallow,
                                               .nexts = kNexts,
                                               .think_open = {"<think>"},
                                               .think_close = {"</think>"}},
                                    .open = {"<|tool_call_begin|>"},
                                    .separator = {"<|tool_call_argument_begin|>"},
                                    .name_of = name_of};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return make_named_calls(options, kStyle); }

constexpr std::string_view kMarks[] = {"<|tool_calls_section_begin|>"};
}  // namespace

const AnswerFormat kKimiK2 = {"kimi_k2", "functions.NAME:INDEX and JSON between Kimi tool tokens, <think> reasoning",
                              kMarks, make};

}  // namespace bora::text
