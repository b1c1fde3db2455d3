// Seconds of one picked row, one worker, by vocabulary and processor. A row is normal with deviation 3 and twenty
// likelier tokens, as models give them.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "backend/cpu/pick.h"
#include "base/rng.h"

namespace bora::cpu {
namespace {

constexpr int32_t kPositions = 8192, kHistory = 4096;

std::vector<float> row_of(int32_t vocab) {
  Rng rng(1);
  std::vector<float> out;
  for (int32_t i = 0; i < vocab; ++i) {
    const double r = std::sqrt(-2 * std::log(1 - rng.uniform()));
    out.push_back(static_cast<float>(3 * r * std::cos(6.283185307179586 * rng.uniform())));
  }
  for (int i = 0; i < 20; ++i) out[rng.below(out.size())] = static_cast<float>(14 + 4 * rng.uniform());
  return out;
}

void pick(benchmark::State& state, const ir::PickParams& params) {
  const int32_t vocab = static_cast<int32_t>(state.range(0));
  device::Bounds b;
  b.rows = 64;
  b.histories = 1;
  const PickPlan plan = plan_picks(vocab, kPositions, b, 1);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(plan.bytes))), &std::free);
  std::memset(memory.get(), 0, static_cast<size_t>(plan.bytes));
  Picker picker(plan, memory.get());
  const std::vector<float> logits = row_of(vocab);
  Rng rng(2);
  std::vector<int32_t> history;
  for (int32_t i = 0; i < kHistory; ++i) history.push_back(static_cast<int32_t>(rng.below(1000)));
  device::PickRow row;
  row.params = &params;
  row.history = history;
  device::PickedRow out;
  device::TokenLogprob top[kMaxAlternatives];
  ir::PickParams p = params;
  row.params = &p;
  for (auto _ : state) {
    row.position = kHistory;
    ++p.seed;
    picker.run_row(row, {}, logits.data(), vocab, 0, &out, top);
    benchmark::DoNotOptimize(out);
  }
}

ir::PickParams with(void (*set)(ir::PickParams*)) {
  ir::PickParams p;
  p.temperature = 1;
  set(&p);
  return p;
}

#define BORA_PICK(name, body)                                                   \
  BENCHMARK_CAPTURE(pick, name, with([](ir::PickParams* p) { (void)p, body; })) \
      ->Arg(49152)                                                              \
      ->Arg(262144)                                                             \
      ->Unit(benchmark::kMicrosecond)
BORA_PICK(greedy, p->temperature = 0);
BORA_PICK(temperature, p->temperature = 1);
BORA_PICK(top_p, p->top_p = 0.95f);
BORA_PICK(top_k, p->top_k = 40);
BORA_PICK(min_p, p->min_p = 0.05f);
BORA_PICK(top_k_top_p, (p->top_k = 40, p->top_p = 0.95f));
BORA_PICK(penalties, (p->repetition_penalty = 1.1f, p->frequency_penalty = 0.1f, p->top_p = 0.95f));
BORA_PICK(dry, (p->dry_multiplier = 0.8f, p->min_p = 0.05f));
BORA_PICK(typical, p->typical_p = 0.9f);
BORA_PICK(mirostat2, p->mirostat = 2);
BORA_PICK(dynatemp, p->dynatemp_range = 0.5f);
BORA_PICK(flat_top_p, (p->top_p = 0.95f, p->temperature = 20));
BORA_PICK(greedy_logprobs, (p->temperature = 0, p->logprobs = 5));

}  // namespace
}  // namespace bora::cpu
