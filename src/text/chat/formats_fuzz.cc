// Every format on any text: the first byte picks the format, the second the options. The answer must not depend on
// the split.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/chat/chat.h"

namespace {

std::string flat(const bora::text::Answer& a) {
  std::string s = a.content + '\x01' + a.reasoning + '\x01' + a.finish_reason;
  for (const auto& c : a.tool_calls) s += '\x01' + c.name + '\x02' + c.arguments;
  return s;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto tools = bora::Json::parse(
      R"([{"name":"f","parameters":{"properties":{"s":{"type":"string"},"n":{"type":"integer"},
        "o":{"type":"object"}}}}])");
  const auto formats = bora::text::answer_formats();
  const bora::text::AnswerFormat& format = *formats[data[0] % formats.size()];
  bora::text::AnswerOptions options;
  if ((data[1] & 1) != 0) options.tools = &*tools;
  options.reasoning_open = (data[1] & 2) != 0;
  const auto end = (data[1] & 4) != 0 ? bora::text::AnswerEnd::kLength : bora::text::AnswerEnd::kStop;
  const std::string_view raw(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = flat(parse_answer(format, options, raw, end, 0));
  for (const size_t split : {1, 2, 5}) {
    if (flat(parse_answer(format, options, raw, end, split)) != whole) __builtin_trap();
  }
  return 0;
}
