// Speed of parsing and rendering. The conversation is that of peer_jinja2.py, which measures Jinja2 on the same text.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "text/template/template.h"

namespace bora::text {
namespace {

std::string read_template(const std::string& name) {
  const char* env = std::getenv("BORA_FIXTURES");
  std::ifstream in(std::string(env != nullptr ? env : "../shared") + "/fixtures/text/templates/" + name,
                   std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

Json parse(const std::string& text) {
  auto j = Json::parse(text);
  return j.ok() ? *std::move(j) : Json();
}

// 81 messages, 10 tools.
Json conversation() {
  const std::string words = "The quick brown fox jumps over the lazy dog; then it rests & thinks about \"tokens\".\n";
  std::string messages = R"([{"role": "system", "content": "You are a careful agent."})";
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    std::string content;
    json_quote(n + ": " + words + words + words + words, &content);
    const bool call = i % 4 == 1;
    messages += R"(, {"role": ")" + std::string(i % 4 == 2 ? "tool" : "user") + R"(", "content": )" + content + "}";
    messages += R"(, {"role": "assistant", "content": )" + content;
    if (call) {
      messages += R"(, "tool_calls": [{"id": "c)" + n + R"(", "type": "function", "function": {"name": "tool_)" +
                  std::to_string(i % 10) + R"(", "arguments": {"path": "src/file_)" + n + R"(.cc", "line": )" + n +
                  R"(, "flags": ["a", "b"]}}}])";
    }
    messages += "}";
  }
  messages += "]";
  std::string tools = "[";
  for (int i = 0; i < 10; ++i) {
    tools +=
        std::string(i > 0 ? ", " : "") + R"({"type": "function", "function": {"name": "tool_)" + std::to_string(i) +
        R"(", "description": "Reads a part of a file.", "parameters": {"type": "object",
        "properties": {"path": {"type": "string",
             "description": "Path below the root"}, "line": {"type": "integer", "description": "First line"},
        "flags": {"type": "array",
             "description": "Flags", "items": {"type": "string"}}}, "required": ["path"]}}})";
  }
  Json c = Json::object();
  c.set("messages", parse(messages));
  c.set("tools", parse(tools + "]"));
  c.set("add_generation_prompt", true);
  return c;
}

void render_with(benchmark::State& state, const char* name, RenderOptions::Mode mode) {
  auto t = parse_template(read_template(name), {});
  if (!t.ok()) return state.SkipWithError(t.status().message().c_str());
  const Json context = conversation();
  RenderOptions options;
  options.mode = mode;
  size_t bytes = 0;
  for (auto _ : state) {
    Rendered out;
    RenderError error;
    if (!(*t)->render(context, options, &out, &error)) return state.SkipWithError(error.status.message().c_str());
    bytes = out.prompt.text.size();
    benchmark::DoNotOptimize(out.prompt.text.data());
  }
  state.counters["out_bytes"] = static_cast<double>(bytes);
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * static_cast<int64_t>(state.iterations()));
}

void BM_RenderQwen3Coder(benchmark::State& state) {
  render_with(state, "qwen3-coder.jinja", RenderOptions::Mode::kStrict);
}
void BM_RenderQwen3CoderLenient(benchmark::State& state) {
  render_with(state, "qwen3-coder.jinja", RenderOptions::Mode::kLenient);
}
void BM_RenderQwen3(benchmark::State& state) { render_with(state, "qwen3.jinja", RenderOptions::Mode::kStrict); }
void BM_RenderGptOss(benchmark::State& state) { render_with(state, "gpt-oss.jinja", RenderOptions::Mode::kLenient); }

void BM_ParseLargest(benchmark::State& state) {
  const std::string source = read_template("gpt-oss.jinja");
  for (auto _ : state) {
    auto t = parse_template(source, {});
    if (!t.ok()) return state.SkipWithError(t.status().message().c_str());
    benchmark::DoNotOptimize(t.value().get());
  }
}

BENCHMARK(BM_RenderQwen3Coder);
BENCHMARK(BM_RenderQwen3CoderLenient);
BENCHMARK(BM_RenderQwen3);
BENCHMARK(BM_RenderGptOss);
BENCHMARK(BM_ParseLargest);

}  // namespace
}  // namespace bora::text
