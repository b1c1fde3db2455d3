// Sampling: one block of 1024 threads a row. The row (512 KB at 128k tokens) is read from memory once and
// from the L2 after.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/gumbel.cuh"
#include "backend/cuda/kernels/step/select.cuh"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda {
namespace {

__device__ __forceinline__ uint32_t noise_word(const SampleParams& q, int token) {
  const NoiseWords words = philox(q.seed, token / 4, q.position, q.choice);
  return words.word[token % 4];
}

__device__ uint64_t best_logit(const float* row, int vocab, SelectShared& s) {
  uint64_t best = 0;
  each_logit(row, vocab, [&](float x, int i) {
    const uint64_t key = order_key(x, i);
    best = key > best ? key : best;
  });
  return block_max(best, s.scratch);
}

// The winner among tokens with key >= limit.
__device__ uint64_t draw(const float* row, int vocab, const SampleParams& q, float inverse_t, uint64_t limit,
                         SelectShared& s) {
  uint64_t best = 0;
  int group = -1;
  NoiseWords words = {};
  each_logit(row, vocab, [&](float x, int i) {
    if (order_key(x, i) < limit) return;
    if (i / 4 != group) group = i / 4, words = philox(q.seed, group, q.position, q.choice);
    const uint32_t word = i % 4 == 0   ? words.word[0]
                          : i % 4 == 1 ? words.word[1]
                          : i % 4 == 2 ? words.word[2]
                                       : words.word[3];
    const uint64_t key = order_key(perturbed(x, inverse_t, word), i);
    best = key > best ? key : best;
  });
  return block_max(best, s.scratch);
}

// Smallest integer mass at which a prefix holds at least the share p of `total`.
__device__ __forceinline__ uint64_t mass_target(float p, uint64_t total) {
  const uint64_t t = static_cast<uint64_t>(ceil(static_cast<double>(p) * static_cast<double>(total)));
  return t < 1 ? 1 : t > total ? total : t;
}

// Smallest mass that min_p keeps.
__device__ __forceinline__ uint32_t least_mass(float min_p) {
  return min_p > 0 ? static_cast<uint32_t>(ceil(static_cast<double>(min_p) * 134217728.0)) : 0u;
}

// The fast way: the first k tokens lie sorted in shared memory. `whole` is the mass of all tokens when k does
// not limit the choice (0 = it does): then 0 is returned if the kept ones are not surely among the first k.
__device__ uint64_t draw_sorted(const SampleParams& q, float inverse_t, int k, uint64_t whole, SelectShared& s) {
  const int i = threadIdx.x;
  const float top = key_value(s.key[0]);
  const uint64_t key = i < k ? s.key[i] : 0;
  const uint32_t mass = i < k ? mass_of(key_value(key), top, inverse_t) : 0;
  // Inclusive prefix sums of exact integers.
  uint64_t sum = mass;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint64_t left = __shfl_up_sync(~0u, sum, d);
    if (i % 32 >= d) sum += left;
  }
  if (i % 32 == 31) s.sum[i / 32] = sum;
  __syncthreads();
  uint64_t before = 0, total = 0;
  for (int w = 0; w < kSelectThreads / 32; ++w) {
    if (w < i / 32) before += s.sum[w];
    total += s.sum[w];
  }
  sum += before;
  if (whole > 0) {
    const uint32_t last = mass_of(key_value(s.key[k - 1]), top, inverse_t);
    const bool covered =
        (q.top_p < 1.0f && total >= mass_target(q.top_p, whole)) || (q.min_p > 0.0f && last < least_mass(q.min_p));
    if (!covered) return 0;
    total = whole;
  }
  bool kept = i < k;
  if (q.top_p < 1.0f) kept = kept && sum - mass < mass_target(q.top_p, total);
  if (q.min_p > 0.0f) kept = kept && mass >= least_mass(q.min_p);
  kept = kept || i == 0;
  uint64_t best = 0;
  if (kept) best = order_key(perturbed(key_value(key), inverse_t, noise_word(q, key_index(key))), key_index(key));
  __syncthreads();
  return block_max(best, s.scratch);
}

// The general way: any k, top_p alone, rows of many equal logits.
__device__ uint64_t draw_general(const float* row, int vocab, const SampleParams& q, float inverse_t,
                                 SelectShared& s) {
  const uint64_t first = best_logit(row, vocab, s);
  const float top = key_value(first);
  uint64_t limit = 0;
  if (q.top_k > 0 && q.top_k < vocab) {
    limit = descend(
        row, vocab, 0, q.top_k, [](float) { return 1u; }, s);
  }
  if (q.top_p < 1.0f) {
    uint64_t total = 0;
    each_logit(row, vocab, [&](float x, int i) {
      if (order_key(x, i) >= limit) total += mass_of(x, top, inverse_t);
    });
    total = block_sum(total, s);
    limit = descend(
        row, vocab, limit, mass_target(q.top_p, total), [&](float x) { return mass_of(x, top, inverse_t); }, s);
  }
  if (q.min_p > 0.0f) {
    // The last token in order whose mass is large enough.
    const uint32_t least = least_mass(q.min_p);
    uint64_t last = ~uint64_t{0};
    each_logit(row, vocab, [&](float x, int i) {
      const uint64_t key = order_key(x, i);
      if (mass_of(x, top, inverse_t) >= least && key < last) last = key;
    });
    last = ~block_max(~last, s.scratch);
    limit = last > limit ? last : limit;
  }
  limit = limit < first ? limit : first;
  return draw(row, vocab, q, inverse_t, limit, s);
}

__global__ void __launch_bounds__(kSelectThreads) sample_kernel(const __grid_constant__ SampleArgs p) {
  extern __shared__ __align__(16) char raw[];
  SelectShared& s = *reinterpret_cast<SelectShared*>(raw);
  ptx::wait_for_producers();
  ptx::release_dependents();
  const float* row = p.logits + int64_t{blockIdx.x} * p.row_stride;
  const SampleParams q = p.params[blockIdx.x];
  const float inverse_t = 1.0f / q.temperature;
  if (!truncates(q, p.vocab)) return;
  uint64_t chosen = 0;
  const bool limits = q.top_k > 0 && q.top_k < p.vocab;
  if (!limits || q.top_k <= kSelectThreads) {
    const int wanted = limits ? q.top_k : min(kSelectThreads / 2, p.vocab);
    const int count = candidates(row, p.vocab, wanted, s);
    if (count > 0) {
      uint64_t whole = 0;
      if (!limits) {
        const float top = key_value(s.key[0]);
        each_logit(row, p.vocab, [&](float x, int) { whole += mass_of(x, top, inverse_t); });
        whole = block_sum(whole, s);
      }
      chosen = draw_sorted(q, inverse_t, min(limits ? wanted : kSelectThreads, count), whole, s);
    }
  }
  __syncthreads();
  if (chosen == 0) chosen = draw_general(row, p.vocab, q, inverse_t, s);
  if (threadIdx.x == 0) p.ids[blockIdx.x] = key_index(chosen);
}

// log softmax: maximum, then each thread's sum over its own tokens ascending, a butterfly in the warp, warps
// ascending.
__global__ void __launch_bounds__(kSelectThreads) logprob_kernel(const __grid_constant__ LogprobArgs p) {
  extern __shared__ __align__(16) char raw[];
  SelectShared& s = *reinterpret_cast<SelectShared*>(raw);
  __shared__ float sums[32];
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int r = blockIdx.x;
  const float* row = p.logits + int64_t{r} * p.row_stride;
  const float top = key_value(best_logit(row, p.vocab, s));
  float sum = 0.0f;
  each_logit(row, p.vocab, [&](float x, int) { sum = __fadd_rn(sum, exp2f(__fmul_rn(__fsub_rn(x, top), kLog2e))); });
#pragma unroll
  for (int d = 1; d < 32; d *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, d));
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < 32; ++i) total = __fadd_rn(total, sums[i]);
  const float lse = __fadd_rn(top, logf(total));
  if (threadIdx.x == 0 && p.ids != nullptr) {
    const int32_t id = p.ids[r];
    p.chosen[r] = id >= 0 && id < p.vocab ? __fsub_rn(row[id], lse) : __int_as_float(0xff800000);
  }
  if (p.top == 0) return;
  const int k = min(p.top, p.vocab);
  const int count = candidates(row, p.vocab, k, s);
  uint64_t after = ~uint64_t{0};
  for (int i = 0; i < p.top; ++i) {
    uint64_t key = 0;
    if (count >= 0) {
      key = i < k ? s.key[i] : 0;
    } else if (i < k) {  // too many equal logits: one pass a token
      each_logit(row, p.vocab, [&](float x, int at) {
        const uint64_t other = order_key(x, at);
        if (other < after && other > key) key = other;
      });
      after = key = block_max(key, s.scratch);
    }
    if (threadIdx.x == 0) {
      p.top_ids[int64_t{r} * p.top + i] = i < k ? key_index(key) : -1;
      p.top_logprobs[int64_t{r} * p.top + i] = i < k ? __fsub_rn(key_value(key), lse) : __int_as_float(0xff800000);
    }
  }
}

}  // namespace

Status launch_sample_truncated(const SampleArgs& a, const LaunchOn& on) {
  return launch("sample truncated", sample_kernel, Grid{dim3(a.rows), kSelectThreads, sizeof(SelectShared)}, on, a);
}

Status launch_logprobs(const LogprobArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("logprobs", "logits", a.logits));
  BORA_TRY(check_pointer("logprobs", "ids", a.ids, true));
  BORA_TRY(check_pointer("logprobs", "chosen", a.chosen, a.ids == nullptr));
  BORA_TRY(check_size("logprobs", "rows", a.rows, 1, 65535));
  BORA_TRY(check_size("logprobs", "vocab", a.vocab, 1, 262144));
  BORA_TRY(check_stride("logprobs", "row_stride", a.row_stride, 4));
  if (a.top < 0 || a.top > 64)
    return invalid_argument("logprobs: top = " + std::to_string(a.top) + "; 0 to 64 is possible");
  BORA_TRY(check_pointer("logprobs", "top_ids", a.top_ids, a.top == 0));
  BORA_TRY(check_pointer("logprobs", "top_logprobs", a.top_logprobs, a.top == 0));
  return launch("logprobs", logprob_kernel, Grid{dim3(a.rows), kSelectThreads, sizeof(SelectShared)}, on, a);
}

}  // namespace bora::cuda
