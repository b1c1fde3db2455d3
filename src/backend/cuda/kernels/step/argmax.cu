// Greedy choice: several blocks a row; their best keys meet in one 64-bit maximum, the last block of a row
// writes the token. A maximum does not depend on the order in which blocks arrive. Bytes moved: the logits
// once.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/gumbel.cuh"
#include "backend/cuda/kernels/step/order.cuh"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda {
namespace {

struct ArgmaxScratch {
  unsigned long long best;
  unsigned int arrived, unused;
};
constexpr int kThreads = 256;
constexpr int kSteps = 8;  // float4 a thread in flight
constexpr int kRounds = 2;
constexpr int kChunk = kThreads * kSteps * kRounds * 4;

__device__ __forceinline__ float logit(const float* at) { return *at; }
__device__ __forceinline__ float logit(const __nv_bfloat16* at) { return __bfloat162float(*at); }
__device__ __forceinline__ float4 logits4(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ __forceinline__ float4 logits4(const __nv_bfloat16* at) {
  const uint2 v = *reinterpret_cast<const uint2*>(at);
  return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xFFFF0000u), __uint_as_float(v.y << 16),
                     __uint_as_float(v.y & 0xFFFF0000u));
}

// kNoise: rows that sample from the whole vocabulary get Gumbel noise first; rows that truncate are left to
// sample_kernel.
template <bool kNoise, typename L>
__global__ void __launch_bounds__(kThreads, 4)
    argmax_kernel(const __grid_constant__ ArgmaxArgs p, const SampleParams* params) {
  __shared__ uint64_t scratch[32];
  ptx::wait_for_producers();
  ptx::release_dependents();
  SampleParams q;
  float inverse_t = 0.0f;
  bool noisy = false;
  if constexpr (kNoise) {
    q = params[blockIdx.y];
    if (truncates(q, p.vocab)) return;
    noisy = q.temperature > 0.0f && q.top_k != 1;
    if (noisy) inverse_t = 1.0f / q.temperature;
  }
  const L* row = static_cast<const L*>(p.logits) + int64_t{blockIdx.y} * p.row_stride;
  float best_value = __int_as_float(0xff800000);
  int best_index = -1;
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const int begin = blockIdx.x * kChunk + round * (kThreads * kSteps * 4);
    float4 x[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = begin + (s * kThreads + threadIdx.x) * 4;
      x[s] = make_float4(best_value, best_value, best_value, best_value);  // never greater
      if (at + 4 <= p.vocab) {
        x[s] = logits4(row + at);
      } else if (at < p.vocab) {
        x[s].x = logit(row + at);
        if (at + 1 < p.vocab) x[s].y = logit(row + at + 1);
        if (at + 2 < p.vocab) x[s].z = logit(row + at + 2);
      }
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = begin + (s * kThreads + threadIdx.x) * 4;
      float v[4] = {x[s].x, x[s].y, x[s].z, x[s].w};
      if (kNoise && noisy && at < p.vocab) {
        const NoiseWords words = philox(q.seed, at / 4, q.position, q.choice);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          v[i] = at + i < p.vocab ? perturbed(v[i], inverse_t, words.word[i]) : __int_as_float(0xff800000);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (v[i] > best_value) best_value = v[i], best_index = at + i;  // false for NaN; the first among equals stays
      }
    }
  }
  // A thread's indices ascend within a round and from round to round.
  uint64_t best = order_key(best_value, best_index < 0 ? static_cast<int>(blockIdx.x) * kChunk : best_index);
  best = block_max(best, scratch);
  if (threadIdx.x != 0) return;
  ArgmaxScratch* meet = static_cast<ArgmaxScratch*>(p.scratch) + blockIdx.y;
  atomicMax(&meet->best, static_cast<unsigned long long>(best));
  __threadfence();
  if (atomicAdd(&meet->arrived, 1u) + 1 != gridDim.x) return;
  __threadfence();
  p.ids[blockIdx.y] = key_index(atomicExch(&meet->best, 0ull));
  meet->arrived = 0;
}

}  // namespace

Status launch_argmax(const ArgmaxArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("argmax", "logits", a.logits));
  BORA_TRY(check_pointer("argmax", "ids", a.ids));
  BORA_TRY(check_pointer("argmax", "scratch", a.scratch));
  BORA_TRY(check_size("argmax", "rows", a.rows, 1, 65535));
  BORA_TRY(check_size("argmax", "vocab", a.vocab, 1, 1 << 24));
  BORA_TRY(check_stride("argmax", "row_stride", a.row_stride, 4));
  const auto kernel = a.type == LogitsType::kF32 ? argmax_kernel<false, float> : argmax_kernel<false, __nv_bfloat16>;
  return launch("argmax", kernel, Grid{dim3((a.vocab + kChunk - 1) / kChunk, a.rows), kThreads}, on, a,
                static_cast<const SampleParams*>(nullptr));
}

Status launch_sample(const SampleArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("sample", "logits", a.logits));
  BORA_TRY(check_pointer("sample", "params", a.params));
  BORA_TRY(check_pointer("sample", "ids", a.ids));
  BORA_TRY(check_pointer("sample", "scratch", a.scratch));
  BORA_TRY(check_size("sample", "rows", a.rows, 1, 65535));
  BORA_TRY(check_size("sample", "vocab", a.vocab, 1, 262144));
  BORA_TRY(check_stride("sample", "row_stride", a.row_stride, 4));
  const ArgmaxArgs whole{a.logits, a.row_stride, a.rows, a.vocab, a.ids, a.scratch};
  BORA_TRY(launch("sample", argmax_kernel<true, float>, Grid{dim3((a.vocab + kChunk - 1) / kChunk, a.rows), kThreads},
                  on, whole, a.params));
  return launch_sample_truncated(a, on);
}

}  // namespace bora::cuda
