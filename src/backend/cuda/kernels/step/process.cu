// Logits processing in place, and the counts that penalties read. Elementwise: the logits once in and once
// out.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float softcapped(float x, float cap) { return cap * tanhf(x / cap); }

// Everything but the bias, for one logit.
__device__ __forceinline__ float processed(const ProcessArgs& p, const SampleParams& s, bool penalties, float x,
                                           int token) {
  if (p.softcap > 0) x = softcapped(x, p.softcap);
  if (!penalties) return x;
  const int words = (p.vocab + 31) / 32;
  if (s.repetition_penalty != 1.0f && (p.seen[int64_t{s.state} * words + token / 32] >> (token % 32) & 1)) {
    x = x > 0 ? x / s.repetition_penalty : x * s.repetition_penalty;
  }
  if (s.presence_penalty != 0.0f || s.frequency_penalty != 0.0f) {
    const int32_t n = p.counts[int64_t{s.state} * p.vocab + token];
    if (n > 0) x = x - s.frequency_penalty * static_cast<float>(n) - s.presence_penalty;
  }
  return x;
}

__global__ void __launch_bounds__(kThreads) process_kernel(const __grid_constant__ ProcessArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int row = blockIdx.y;
  const int token = blockIdx.x * kThreads + threadIdx.x;
  if (token >= p.vocab) return;
  SampleParams s;
  if (p.params != nullptr) s = p.params[row];
  const bool penalties = p.params != nullptr && s.state >= 0;
  float* x = p.logits + row * p.row_stride + token;
  *x = processed(p, s, penalties, *x, token);
}

// Bias, then the mask, so that a biased token stays forbidden.
__global__ void __launch_bounds__(kThreads) bias_kernel(const __grid_constant__ ProcessArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.bias_count) return;
  const BiasEntry e = p.bias[i];
  if (e.row < 0 || e.row >= p.rows || e.token < 0 || e.token >= p.vocab) return;
  p.logits[e.row * p.row_stride + e.token] += e.value;
}

__global__ void __launch_bounds__(kThreads) mask_kernel(const __grid_constant__ ProcessArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int row = blockIdx.y;
  const int token = blockIdx.x * kThreads + threadIdx.x;
  if (token >= p.vocab) return;
  const uint32_t word = p.mask[int64_t{row} * ((p.vocab + 31) / 32) + token / 32];
  if (!(word >> (token % 32) & 1)) p.logits[row * p.row_stride + token] = __int_as_float(0xff800000);
}

__global__ void __launch_bounds__(kThreads) count_kernel(const __grid_constant__ CountArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= p.rows) return;
  const int32_t id = p.ids[row], state = p.params[row].state;
  if (id < 0 || id >= p.vocab || state < 0) return;
  p.seen[int64_t{state} * ((p.vocab + 31) / 32) + id / 32] |= 1u << (id % 32);
  p.counts[int64_t{state} * p.vocab + id] += 1;
}

}  // namespace

Status launch_process_logits(const ProcessArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("process_logits", "logits", a.logits));
  BORA_TRY(check_size("process_logits", "rows", a.rows, 1, 65535));
  BORA_TRY(check_size("process_logits", "vocab", a.vocab, 1, 1 << 24));
  if (a.params != nullptr && (a.seen == nullptr || a.counts == nullptr)) {
    return invalid_argument("process_logits: penalties need seen and counts");
  }
  if (a.bias_count < 0 || (a.bias_count > 0 && a.bias == nullptr)) {
    return invalid_argument("process_logits: bias entries without an array");
  }
  if (!(a.softcap >= 0)) return invalid_argument("process_logits: softcap is negative");
  const Grid grid{dim3((a.vocab + kThreads - 1) / kThreads, a.rows), kThreads};
  if (a.softcap > 0 || a.params != nullptr) BORA_TRY(launch("process_logits", process_kernel, grid, on, a));
  if (a.bias_count > 0) {
    BORA_TRY(launch("process_logits bias", bias_kernel,
                    Grid{dim3((a.bias_count + kThreads - 1) / kThreads), kThreads}, on, a));
  }
  if (a.mask != nullptr) BORA_TRY(launch("process_logits mask", mask_kernel, grid, on, a));
  return ok_status();
}

Status launch_count_tokens(const CountArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("count_tokens", "ids", a.ids));
  BORA_TRY(check_pointer("count_tokens", "params", a.params));
  BORA_TRY(check_pointer("count_tokens", "seen", a.seen));
  BORA_TRY(check_pointer("count_tokens", "counts", a.counts));
  BORA_TRY(check_size("count_tokens", "rows", a.rows, 1, 65535));
  return launch("count_tokens", count_kernel, Grid{dim3((a.rows + kThreads - 1) / kThreads), kThreads}, on, a);
}

}  // namespace bora::cuda
