#include "text/chat/formats.h"

#include <algorithm>

namespace bora::text {

namespace {

// The more special marks come first: a template that writes `<function=` also writes `<tool_call>`.
constexpr const AnswerFormat* kFormats[] = {
    &kGptOss,     &kKimiK2,   &kDeepseekV3, &kDeepseekV31,     &kMinimaxM2, &kGlm45,
    &kQwen3Coder, &kGemma4,   &kLfm2,       &kMistralV11,      &kMistralV3, &kPhi4Mini,
    &kHermes,     &kGranite3, &kLlama3Json, &kLlama3PythonTag, &kPlain,
};

}  // namespace

std::span<const AnswerFormat* const> answer_formats() { return kFormats; }

const AnswerFormat* find_answer_format(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const AnswerFormat* f) { return f->name == name; });
  return at == std::end(kFormats) ? nullptr : *at;
}

const AnswerFormat& choose_answer_format(std::string_view chat_template) {
  for (const AnswerFormat* f : kFormats) {
    for (const std::string_view mark : f->template_marks) {
      if (chat_template.find(mark) != std::string_view::npos) return *f;
    }
  }
  return kPlain;
}

Answer parse_answer(const AnswerFormat& format, const AnswerOptions& options, std::string_view raw, AnswerEnd end,
                    size_t split) {
  const std::unique_ptr<AnswerParser> parser = format.make(options);
  std::vector<AnswerDelta> deltas;
  Answer answer;
  const auto collect = [&] {
    for (const AnswerDelta& d : deltas) {
      const auto index = static_cast<size_t>(std::max(d.tool_index, 0));
      const bool tool = d.kind == AnswerDelta::Kind::kToolName || d.kind == AnswerDelta::Kind::kToolArguments;
      if (tool && answer.tool_calls.size() <= index) answer.tool_calls.resize(index + 1);
      std::string& to = d.kind == AnswerDelta::Kind::kContent     ? answer.content
                        : d.kind == AnswerDelta::Kind::kReasoning ? answer.reasoning
                        : d.kind == AnswerDelta::Kind::kToolName  ? answer.tool_calls[index].name
                                                                  : answer.tool_calls[index].arguments;
      to += d.text;
    }
    deltas.clear();
  };
  for (size_t at = 0; at < raw.size();) {
    size_t to = split == 0 ? raw.size() : std::min(raw.size(), at + split);
    while (to < raw.size() && (static_cast<unsigned char>(raw[to]) & 0xC0) == 0x80) ++to;
    parser->push({raw.substr(at, to - at), false}, &deltas);
    collect();
    at = to;
  }
  answer.finish_reason = parser->finish(end, &deltas);
  collect();
  return answer;
}

}  // namespace bora::text
