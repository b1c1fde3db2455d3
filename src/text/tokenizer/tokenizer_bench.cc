// Speed of loading, encoding and decoding with the fixture vocabularies, and of the worst cases.
//
// Text: BORA_BENCH_TEXT names a UTF-8 file; without it a built-in paragraph is repeated, which flatters the piece
// cache.
#include <benchmark/benchmark.h>

#include "text/tokenizer/fixture_files.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

const char* const kNames[] = {"qwen3", "gptoss", "llama3_1", "deepseek_v3", "smollm2", "t_xlmr", "minilm"};

std::string sample() {
  if (const char* path = std::getenv("BORA_BENCH_TEXT")) return testing::read_file(path);
  std::string text;
  while (text.size() < 1 << 20) {
    text +=
        "The tokenizer cuts running prose into words; numbers like 1984 and code such as f(x) = y[3] stand between. ";
  }
  return text;
}

void load(benchmark::State& state) {
  std::string json = testing::tokenizer_json(kNames[state.range(0)]);
  if (json.empty()) return state.SkipWithError("vocabulary is absent");
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer_from_json(json, ""));
  state.SetBytesProcessed(static_cast<int64_t>(json.size()) * state.iterations());
  state.SetLabel(kNames[state.range(0)]);
}

void encode_text(benchmark::State& state, const std::string& text) {
  std::string json = testing::tokenizer_json(kNames[state.range(0)]);
  if (json.empty()) return state.SkipWithError("vocabulary is absent");
  auto t = tokenizer_from_json(json, "");
  std::vector<TokenId> ids;
  for (auto _ : state) {
    ids.clear();
    (*t)->encode(text, {false, true}, &ids);
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.SetLabel(kNames[state.range(0)]);
}

void encode_prose(benchmark::State& state) { encode_text(state, sample()); }
// Worst cases: 1 MB of one thing.
std::string repeated(std::string_view unit) {
  std::string text;
  while (text.size() < 1 << 20) text.append(unit);
  return text;
}
void encode_letters(benchmark::State& state) { encode_text(state, repeated("a")); }
void encode_spaces(benchmark::State& state) { encode_text(state, repeated(" ")); }
void encode_digits(benchmark::State& state) { encode_text(state, repeated("7")); }
void encode_emoji(benchmark::State& state) { encode_text(state, repeated("\U0001F600")); }
void encode_joiners(benchmark::State& state) { encode_text(state, repeated("\u200D")); }
// Characters of the common ideographs in no order: hardly a piece comes twice.
void encode_ideographs(benchmark::State& state) {
  std::string text;
  for (uint64_t i = 1; text.size() < 1 << 20; ++i) {
    uint64_t r = i * 0x9E3779B97F4A7C15u >> 40;
    utf8_append(r % 11 == 0 ? 0x3002 : static_cast<uint32_t>(0x4E00 + r % 3000), &text);
  }
  encode_text(state, text);
}

void decode_prose(benchmark::State& state) {
  std::string json = testing::tokenizer_json(kNames[state.range(0)]);
  if (json.empty()) return state.SkipWithError("vocabulary is absent");
  auto t = tokenizer_from_json(json, "");
  std::vector<TokenId> ids;
  (*t)->encode(sample(), {false, true}, &ids);
  size_t bytes = 0;
  for (auto _ : state) bytes += (*t)->decode(ids, {false}).size();
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.SetLabel(kNames[state.range(0)]);
}

BENCHMARK(load)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_prose)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_letters)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_spaces)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_digits)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_emoji)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_joiners)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_ideographs)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);
BENCHMARK(decode_prose)->DenseRange(0, 6)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bora::text
