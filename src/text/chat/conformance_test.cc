// What every format in the list must keep, whatever the text: the same answer for every split, calls in order, valid
// JSON arguments, nothing lost, linear cost. A parser that looks at each piece alone must fail the suite.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/json.h"
#include "text/chat/chat.h"

namespace bora::text {
namespace {

const char* const kSnippets[] = {
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "{\"name\": \"ping\", \"arguments\": {}}",
    "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5e3, null]}}",
    "{\"name\": \"f\", \"parameters\": {\"text\": \"a long text that is longer than what is held back, so that it "
    "streams, \\u00e9 \\n \\\" }\"}}",
    "<|tool_call|>",
    "<|/tool_call|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[THINK]",
    "[/THINK]",
    "[",
    "]",
    ",",
    ";",
    "{",
    "}",
    "\"",
    "\\",
    "ping",
    " ",
    "\n",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "function",
    "\n```json\n",
    "\n```",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "functions.ping:0",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|channel|>",
    "<|start|>assistant",
    "<|message|>",
    "analysis",
    "final",
    "commentary to=functions.ping",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>json",
    "<function=ping>",
    "</function>",
    "<parameter=city>",
    "</parameter>",
    "Paris",
    "3",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<invoke name=\"ping\">",
    "<parameter name=\"days\">",
    "</invoke>",
    "<|tool_call_start|>",
    "[ping(city=\"Rome\", days=[1, True, None])]",
    "<|tool_call_end|>",
    "ping(",
    ")",
    "'x'",
    "<|tool_call>",
    "call:ping{",
    "city:",
    "<|\"|>",
    "<tool_call|>",
    "<|channel>",
    "thought",
    "<channel|>",
    "<|python_tag|>",
    "<",
    "naïve 你好",
    "text that means nothing in particular",
};

const Json& tools() {
  static const Json list =
      *Json::parse(R"([{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":
    {"city":{"type":"string"},"days":{"type":"integer"}}}}}])");
  return list;
}

std::string random_text(std::mt19937_64& rng) {
  std::string text;
  for (size_t n = rng() % 14; n > 0; --n) text += kSnippets[rng() % std::size(kSnippets)];
  return text;
}

std::string flat(const Answer& a) {
  std::string s = a.content + "\x01" + a.reasoning + "\x01" + a.finish_reason;
  for (const ToolCall& c : a.tool_calls) s += "\x01" + c.name + "\x02" + c.arguments;
  return s;
}

// Broken promises of a format on one text, as words; empty when all hold.
std::string check(const AnswerFormat& format, const std::string& text, AnswerEnd end, bool open) {
  AnswerOptions options;
  options.tools = &tools();
  options.reasoning_open = open;
  const Answer whole = parse_answer(format, options, text, end, 0);
  for (const size_t split : {1, 2, 3, 7}) {
    const Answer cut = parse_answer(format, options, text, end, split);
    if (flat(cut) != flat(whole))
      return "split " + std::to_string(split) + " gives " + flat(cut) + " instead of " + flat(whole);
  }
  size_t broken = 0;
  for (const ToolCall& c : whole.tool_calls) {
    if (c.name.empty()) return "a call without a name";
    const auto args = Json::parse(c.arguments);
    broken += args.ok() && args->is_object() ? 0 : 1;
    // Only what was forwarded before it broke may be incomplete, and that is longer than what is held back.
    if (!args.ok() && c.arguments.size() <= 64) return "arguments are no JSON: " + c.arguments;
  }
  const std::string want = end == AnswerEnd::kLength ? "length" : whole.tool_calls.empty() ? "stop" : "tool_calls";
  if (whole.finish_reason != want) return "finish reason " + whole.finish_reason;
  return {};
}

size_t count_failures(const AnswerFormat& format, uint64_t seed, int rounds, std::string* first) {
  std::mt19937_64 rng(seed);
  size_t failures = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string text = random_text(rng);
    const std::string wrong =
        check(format, text, rng() % 4 == 0 ? AnswerEnd::kLength : AnswerEnd::kStop, rng() % 4 == 0);
    if (wrong.empty()) continue;
    if (failures++ == 0) *first = text + "\n  " + wrong;
  }
  return failures;
}

// Looks at every piece alone: the classic mistake.
class PieceByPiece final : public AnswerParser {
 public:
  explicit PieceByPiece(const AnswerOptions& options) : options_(options) {}
  void push(const AnswerPiece& piece, std::vector<AnswerDelta>* out) override {
    const auto inner = find_answer_format("hermes")->make(options_);
    inner->push(piece, out);
    const std::string_view reason = inner->finish(AnswerEnd::kStop, out);
    called_ = called_ || reason == "tool_calls";
  }
  std::string_view finish(AnswerEnd end, std::vector<AnswerDelta>*) override {
    return end == AnswerEnd::kLength ? "length" : called_ ? "tool_calls" : "stop";
  }

 private:
  AnswerOptions options_;
  bool called_ = false;
};

TEST(Conformance, EveryFormatOnRandomTexts) {
  for (const AnswerFormat* format : answer_formats()) {
    const uint64_t seed = 20260309;
    std::string first;
    EXPECT_EQ(count_failures(*format, seed, 1500, &first), 0u) << format->name << " seed " << seed << ": " << first;
  }
}

TEST(Conformance, TheMutantFails) {
  const AnswerFormat mutant = {"mutant", "", {}, [](const AnswerOptions& o) -> std::unique_ptr<AnswerParser> {
                                 return std::make_unique<PieceByPiece>(o);
                               }};
  std::string first;
  EXPECT_GT(count_failures(mutant, 20260309, 300, &first), 0u);
}

TEST(Conformance, PlainTextPassesUnchanged) {
  const std::string text = "  An answer, with space around it:\n\n* a < b\n* \"c\"  \n";
  for (const AnswerFormat* format : answer_formats()) {
    const Answer a = parse_answer(*format, {}, text, AnswerEnd::kStop, 1);
    EXPECT_EQ(a.content, text) << format->name;
    EXPECT_EQ(a.finish_reason, "stop");
    EXPECT_EQ(find_answer_format(format->name), format);
    EXPECT_FALSE(format->summary.empty());
  }
  EXPECT_EQ(answer_formats().back()->name, "plain");
  EXPECT_EQ(find_answer_format("nothing"), nullptr);
}

struct Long {
  const char *format, *before, *after;
};
const Long kLong[] = {
    {"hermes", "<tool_call>{\"name\": \"ping\", \"arguments\": {\"city\": \"", "\"}}</tool_call>"},
    {"phi4_mini", "<|tool_call|>{\"name\": \"ping\", \"arguments\": {\"city\": \"", "\"}}<|/tool_call|>"},
    {"granite3", "<|tool_call|>[{\"name\": \"ping\", \"arguments\": {\"city\": \"", "\"}}]"},
    {"mistral_v3", "[TOOL_CALLS][{\"name\": \"ping\", \"arguments\": {\"city\": \"", "\"}}]"},
    {"mistral_v11", "[TOOL_CALLS]ping[ARGS]{\"city\": \"", "\"}"},
    {"llama3_json", "{\"name\": \"ping\", \"parameters\": {\"city\": \"", "\"}}"},
    {"llama3_python_tag", "<|python_tag|>{\"name\": \"ping\", \"parameters\": {\"city\": \"", "\"}}"},
    {"deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{\"city\": \"",
     "\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{\"city\": \"",
     "\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{\"city\": \"",
     "\"}<|tool_call_end|>"},
    {"gpt_oss", "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{\"city\": \"", "\"}<|call|>"},
    {"qwen3_coder", "<tool_call>\n<function=ping>\n<parameter=city>\n", "\n</parameter>\n</function>\n</tool_call>"},
    {"glm45", "<tool_call>ping\n<arg_key>city</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"},
    {"minimax_m2", "<minimax:tool_call>\n<invoke name=\"ping\">\n<parameter name=\"city\">",
     "</parameter>\n</invoke>\n</minimax:tool_call>"},
    {"lfm2", "<|tool_call_start|>[ping(city=\"", "\")]<|tool_call_end|>"},
    {"gemma4", "<|tool_call>call:ping{city:<|\"|>", "<|\"|>}<tool_call|>"},
};

double parse_seconds(const AnswerFormat& format, const std::string& text, size_t* first_delta, Answer* answer) {
  AnswerOptions options;
  options.tools = &tools();
  const auto parser = format.make(options);
  std::vector<AnswerDelta> deltas;
  deltas.reserve(text.size() + 8);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < text.size(); ++i) {
    parser->push({std::string_view(text).substr(i, 1), false}, &deltas);
    if (*first_delta == 0 && !deltas.empty()) *first_delta = i;
  }
  answer->finish_reason = parser->finish(AnswerEnd::kStop, &deltas);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const AnswerDelta& d : deltas) {
    if (d.kind == AnswerDelta::Kind::kToolName) answer->tool_calls.push_back({d.text, {}});
    if (d.kind == AnswerDelta::Kind::kToolArguments) answer->tool_calls.back().arguments += d.text;
    if (d.kind == AnswerDelta::Kind::kContent) answer->content += d.text;
  }
  return seconds;
}

// One call of 1 MB, a byte at a time: streamed from early on, whole at the end, and fast. The bound of the test is
// ten times the goal of 50 ms, because test machines are shared; the benchmark measures.
TEST(Conformance, LongArgumentsStreamInLinearTime) {
  ASSERT_EQ(std::size(kLong) + 1, answer_formats().size());
  for (const Long& l : kLong) {
    const std::string body(1 << 20, 'x');
    size_t first = 0;
    Answer a;
    const double seconds = parse_seconds(*find_answer_format(l.format), l.before + body + l.after, &first, &a);
    EXPECT_LT(seconds, 0.5) << l.format;
    EXPECT_LT(first, 400u) << l.format;
    ASSERT_EQ(a.tool_calls.size(), 1u) << l.format;
    EXPECT_EQ(a.tool_calls[0].name, "ping");
    const auto args = Json::parse(a.tool_calls[0].arguments);
    ASSERT_TRUE(args.ok()) << l.format;
    EXPECT_EQ(args->find("city")->as_string(), body) << l.format;
    EXPECT_EQ(a.content, "") << l.format;
  }
}

// Texts made to be read again and again must stay linear.
TEST(Conformance, HostileTextsStayLinear) {
  for (const AnswerFormat* format : answer_formats()) {
    for (const char* const piece :
         {"<tool_call>", "<tool_call><function=ping><parameter=days>",
          "<minimax:tool_call><invoke name=\"ping\"><parameter name=\"days\">",
          "<tool_call>ping<arg_key>days</arg_key><arg_value>", "<|tool_call>call:ping{a:{",
          "{\"name\":\"ping\",\"parameters\":{\"a\":[", "<tool_call>{\",\":\"", "<|channel|>analysis<|message|>",
          "<think>", " ", "<", "<|tool_call_start|>[ping(a=[", "[TOOL_CALLS]", "[TOOL_CALLS]ping[ARGS]{"}) {
      std::string text;
      while (text.size() < (256 << 10)) text += piece;
      size_t first = 0;
      Answer a;
      EXPECT_LT(parse_seconds(*format, text, &first, &a), 0.5) << format->name << " " << piece;
    }
  }
}

TEST(Special, MarkersInOrdinaryTextAreContent) {
  AnswerOptions options;
  options.tools = &tools();
  options.markers_are_special = true;
  const std::string body = "\n{\"name\": \"ping\", \"arguments\": {}}\n";
  for (const bool special : {false, true}) {
    const auto parser = find_answer_format("hermes")->make(options);
    std::vector<AnswerDelta> deltas;
    parser->push({"<tool_call>", special}, &deltas);
    parser->push({body, false}, &deltas);
    parser->push({"</tool_call>", special}, &deltas);
    EXPECT_EQ(parser->finish(AnswerEnd::kStop, &deltas), special ? "tool_calls" : "stop");
    std::string content;
    for (const AnswerDelta& d : deltas) content += d.kind == AnswerDelta::Kind::kContent ? d.text : "";
    EXPECT_EQ(content, special ? "" : "<tool_call>" + body + "</tool_call>");
  }
}

TEST(Types, TheSchemaDecides) {
  const Json list =
      *Json::parse(R"([{"name":"f","parameters":{"properties":{"s":{"type":"string"},"n":{"type":["integer","null"]},
    "b":{"type":"boolean"},"o":{"anyOf":[{"type":"object"},{"type":"null"}]},"e":{"enum":["1","2"]}}}}])");
  AnswerOptions options;
  options.tools = &list;
  const auto value = [&](const std::string& key, const std::string& written) {
    const std::string raw =
        "<tool_call><function=f><parameter=" + key + ">" + written + "</parameter></function></tool_call>";
    const Answer a = parse_answer(*find_answer_format("qwen3_coder"), options, raw, AnswerEnd::kStop, 1);
    return a.tool_calls.empty() ? "no call" : a.tool_calls[0].arguments;
  };
  EXPECT_EQ(value("s", "1984"), R"({"s": "1984"})");
  EXPECT_EQ(value("n", "1949"), R"({"n": 1949})");
  EXPECT_EQ(value("n", "null"), R"({"n": null})");
  EXPECT_EQ(value("n", "many"), R"({"n": "many"})");
  EXPECT_EQ(value("b", "True"), R"({"b": true})");
  EXPECT_EQ(value("o", "{\"a\": 1}"), R"({"o": {"a": 1}})");
  EXPECT_EQ(value("e", "1"), R"({"e": "1"})");
  EXPECT_EQ(value("unknown", "1"), R"({"unknown": "1"})");
  EXPECT_EQ(value("s", "\na\n\nb\n"), R"({"s": "a\n\nb"})");
}

TEST(Choice, ByMarksOfTheTemplate) {
  EXPECT_EQ(choose_answer_format("… <tool_call>\\n<function=example>").name, "qwen3_coder");
  EXPECT_EQ(choose_answer_format("within <tool_call></tool_call> XML tags").name, "hermes");
  EXPECT_EQ(choose_answer_format("[TOOL_CALLS] … [ARGS]").name, "mistral_v11");
  EXPECT_EQ(choose_answer_format("[TOOL_CALLS]").name, "mistral_v3");
  EXPECT_EQ(choose_answer_format("{{ messages }}").name, "plain");
}

}  // namespace
}  // namespace bora::text
