// One call of 1 MB of arguments, fed a byte at a time, for every format.
#include <benchmark/benchmark.h>

#include "base/json.h"
#include "text/chat/chat.h"

namespace bora::text {
namespace {

void feed(benchmark::State& state, const char* name, const std::string& before, const std::string& after) {
  const AnswerFormat* format = find_answer_format(name);
  if (format == nullptr) return state.SkipWithError("no such format");
  const std::string text = before + std::string(1 << 20, 'x') + after;
  std::vector<AnswerDelta> deltas;
  size_t calls = 0;
  for (auto _ : state) {
    const auto parser = format->make({});
    calls = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      parser->push({std::string_view(text).substr(i, 1), false}, &deltas);
      for (const AnswerDelta& d : deltas) calls += d.kind == AnswerDelta::Kind::kToolName ? 1 : 0;
      deltas.clear();
    }
    benchmark::DoNotOptimize(parser->finish(AnswerEnd::kStop, &deltas));
    deltas.clear();
  }
  if (calls != 1) state.SkipWithError("expected one call");
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * static_cast<int64_t>(state.iterations()));
}

void BM_Hermes(benchmark::State& s) {
  feed(s, "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "\"}}</tool_call>");
}
void BM_Qwen3Coder(benchmark::State& s) {
  feed(s, "qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n", "\n</parameter>\n</function>\n</tool_call>");
}
void BM_DeepseekV31(benchmark::State& s) {
  feed(s, "deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \"",
       "\"}<｜tool▁call▁end｜>");
}
void BM_GptOss(benchmark::State& s) {
  feed(s, "gpt_oss", "<|channel|>commentary to=functions.f<|message|>{\"a\": \"", "\"}<|call|>");
}
void BM_Lfm2(benchmark::State& s) { feed(s, "lfm2", "<|tool_call_start|>[f(a=\"", "\")]<|tool_call_end|>"); }
void BM_Gemma4(benchmark::State& s) { feed(s, "gemma4", "<|tool_call>call:f{a:<|\"|>", "<|\"|>}<tool_call|>"); }

BENCHMARK(BM_Hermes)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Qwen3Coder)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_DeepseekV31)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_GptOss)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Lfm2)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Gemma4)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bora::text
