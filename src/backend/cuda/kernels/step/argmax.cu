// Greedy choice: several blocks a row; their best keys meet in one 64-bit maximum, the last block of a row writes the token.
// A maximum does not depend on the order in which blocks arrive. Bytes moved: the logits once.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/order.cuh"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda {
namespace {

struct ArgmaxScratch {
  unsigned long long best;
  unsigned int arrived, unused;
};
constexpr int kThreads = 256;
constexpr int kSteps = 16;  // float4 a thread

__global__ void __launch_bounds__(kThreads) argmax_kernel(const __grid_constant__ ArgmaxArgs p) {
  __shared__ uint64_t scratch[32];
  ptx::wait_for_producers();
  ptx::release_dependents();
  const float* row = p.logits + int64_t{blockIdx.y} * p.row_stride;
  const int begin = blockIdx.x * (kThreads * kSteps * 4);
  float4 x[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = begin + (s * kThreads + threadIdx.x) * 4;
    x[s] = make_float4(0, 0, 0, 0);
    if (at + 4 <= p.vocab) {
      x[s] = __ldcs(reinterpret_cast<const float4*>(row + at));
    } else if (at < p.vocab) {
      x[s].x = row[at];
      if (at + 1 < p.vocab) x[s].y = row[at + 1];
      if (at + 2 < p.vocab) x[s].z = row[at + 2];
    }
  }
  uint64_t best = 0;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = begin + (s * kThreads + threadIdx.x) * 4;
    const float v[4] = {x[s].x, x[s].y, x[s].z, x[s].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint64_t key = order_key(v[i], at + i);
      if (at + i < p.vocab && key > best) best = key;
    }
  }
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
  const int chunk = kThreads * kSteps * 4;
  return launch("argmax", argmax_kernel, Grid{dim3((a.vocab + chunk - 1) / chunk, a.rows), kThreads}, on, a);
}

}  // namespace bora::cuda
