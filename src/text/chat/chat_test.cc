// calls.jsonl, whole, at every split, and the properties that every format keeps.
#include "text/chat/chat.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "base/json.h"

namespace bora::text {
namespace {

bool read_fixture(const std::string& name, std::string* out) {
  const char* env = std::getenv("BORA_FIXTURES");
  std::ifstream in(std::string(env != nullptr ? env : BORA_SOURCE_DIR "/../shared") + "/fixtures/text/" + name,
                   std::ios::binary);
  if (!in) return false;
  std::stringstream s;
  s << in.rdbuf();
  *out = s.str();
  return true;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    auto j = Json::parse(line);
    EXPECT_TRUE(j.ok()) << j.status().to_string();
    if (j.ok()) lines.push_back(*std::move(j));
  }
  return lines;
}

std::string trimmed(std::string_view t) {
  const size_t from = t.find_first_not_of(" \n\r\t");
  if (from == std::string_view::npos) return {};
  return std::string(t.substr(from, t.find_last_not_of(" \n\r\t") - from + 1));
}

std::string describe(const Answer& a) {
  std::string s = "content=" + a.content + " reasoning=" + a.reasoning + " finish=" + a.finish_reason;
  for (const ToolCall& c : a.tool_calls) s += " call " + c.name + " " + c.arguments;
  return s;
}

// Whether the calls are those of the list; arguments compare as JSON values.
bool same_calls(const Answer& a, const Json& want) {
  if (a.tool_calls.size() != want.size()) return false;
  for (size_t i = 0; i < want.size(); ++i) {
    if (a.tool_calls[i].name != want.items()[i].find("name")->as_string()) return false;
    const auto args = Json::parse(a.tool_calls[i].arguments);
    if (!args.ok() || !(*args == *want.items()[i].find("arguments"))) return false;
  }
  return true;
}

// No call, and every character that is not part of a marker reached the client in order.
bool text_preserved(const Answer& a, std::string_view raw) {
  return a.tool_calls.empty() && trimmed(a.content + a.reasoning).find(trimmed(raw)) != std::string::npos;
}

bool holds(const Json& expect, const Answer& a, std::string_view raw) {
  const Json* rule = expect.find("rule");
  if (rule == nullptr) {
    return trimmed(a.content) == trimmed(expect.find("content")->as_string()) &&
           trimmed(a.reasoning) == trimmed(expect.find("reasoning_content")->as_string()) &&
           same_calls(a, *expect.find("tool_calls")) && a.finish_reason == expect.find("finish")->as_string();
  }
  const std::string& name = rule->as_string();
  if (name == "text_preserved") return text_preserved(a, raw) && a.finish_reason == "stop";
  if (name == "reasoning_contains") {
    size_t at = 0;
    for (const Json& part : expect.find("parts")->items()) {
      at = a.reasoning.find(part.as_string(), at);
      if (at == std::string::npos) return false;
    }
    return a.content == expect.find("content")->as_string() && a.tool_calls.empty();
  }
  if (name == "any_of") {  // both files' cases allow the call ping {} or the text
    Json call = Json::object();
    call.set("name", "ping");
    call.set("arguments", Json::object());
    return same_calls(a, Json::array({call})) || text_preserved(a, raw);
  }
  if (name != "truncated") return false;
  Answer complete = a;
  const Json& calls = *expect.find("complete_calls");
  if (complete.tool_calls.size() == calls.size() + 1) complete.tool_calls.pop_back();  // a streamed start
  return same_calls(complete, calls) && a.finish_reason == "length" &&
         trimmed(a.reasoning) == trimmed(expect.find("reasoning_content")->as_string());
}

// Cases that fail at some split, as text.
std::vector<std::string> failures(const std::vector<Json>& lines, const AnswerFormat* mutant, size_t* all) {
  std::vector<std::string> failed;
  const Json& tools = *lines[0].find("tools");
  for (size_t i = 1; i < lines.size(); ++i) {
    const Json& line = lines[i];
    const AnswerFormat* format = find_answer_format(line.find("family")->as_string());
    if (format == nullptr) {
      failed.push_back("no format " + line.find("family")->as_string());
      continue;
    }
    if (mutant != nullptr) {
      if (mutant->name != format->name) continue;
      format = mutant;
    }
    const Json& expect = *line.find("expect");
    const Json* finish = expect.find("finish");
    const AnswerEnd end =
        finish != nullptr && finish->as_string() == "length" ? AnswerEnd::kLength : AnswerEnd::kStop;
    AnswerOptions options;
    options.tools = &tools;
    const Json* open = line.find("reasoning_open_in_prompt");
    options.reasoning_open = open != nullptr && open->as_bool();
    const std::string& raw = line.find("raw")->as_string();
    ++*all;
    for (const size_t split : {0, 1, 2, 3, 7}) {
      const Answer a = parse_answer(*format, options, raw, end, split);
      if (!holds(expect, a, raw)) {
        failed.push_back(std::string(format->name) + "/" + line.find("id")->as_string() + " split " +
                         std::to_string(split) + "\n  raw " + raw + "\n  got " + describe(a));
        break;
      }
    }
  }
  return failed;
}

TEST(Fixtures, CallsAtEverySplit) {
  std::string text;
  if (!read_fixture("calls.jsonl", &text)) GTEST_SKIP() << "fixtures/text/calls.jsonl";
  size_t all = 0;
  const std::vector<std::string> failed = failures(json_lines(text), nullptr, &all);
  for (const std::string& f : failed) ADD_FAILURE() << f;
  EXPECT_EQ(all, 222u);
  std::printf("calls.jsonl: %zu / %zu at splits whole, 1, 2, 3, 7\n", all - failed.size(), all);
}

}  // namespace
}  // namespace bora::text
