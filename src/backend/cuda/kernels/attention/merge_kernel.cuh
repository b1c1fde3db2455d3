// Merges the partials of split units in ascending order of tiles, by the same two instructions a tile as
// everywhere.
//
// A block takes 64 dims of one row: 64 slots at a time (16 KB) come to shared memory by cp.async, two batches
// in flight; each of the first 64 threads then walks its own dim. Grid: (merge, row of the unit, 64-dim
// slab).
#pragma once

#include "backend/cuda/kernels/attention/softmax.cuh"
#include "backend/cuda/kernels/attention/tile_params.h"
#include "backend/cuda/kernels/common/launch.cuh"

namespace bora::cuda {

inline constexpr int kMergeBatch = 64;

// Running maximum over the first 64 threads before and with this one, from `m`: exact whatever the order.
__device__ __forceinline__ void scan_max(float x, float& before, float& with, float& m, float* exchange) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const float other = __shfl_up_sync(~0u, x, d);
    if (lane >= d) x = fmaxf(x, other);
  }
  if (threadIdx.x == 31) exchange[0] = x;
  if (threadIdx.x == 63) exchange[1] = x;
  const float left = __shfl_up_sync(~0u, x, 1);
  __syncthreads();
  const float base = threadIdx.x < 32 ? m : fmaxf(m, exchange[0]);
  before = lane == 0 ? base : fmaxf(base, left);
  with = fmaxf(base, x);
  m = fmaxf(m, fmaxf(exchange[0], exchange[1]));
}

template <typename T>
__global__ void __launch_bounds__(128) merge_kernel(const __grid_constant__ AttentionParams p, int32_t head_dim) {
  __shared__ __align__(16) float values[2][kMergeBatch][64];
  __shared__ __align__(16) float4 factors[kMergeBatch];  // a, b, l of the slot
  __shared__ float exchange[2];
  const AttentionMerge job = p.merges[blockIdx.x];
  const bool exists = static_cast<int>(blockIdx.x) < p.counts[1];
  const int row = blockIdx.y;
  const int thread = threadIdx.x;
  const int dim0 = blockIdx.z * 64;
  const int dims = min(head_dim - dim0, 64);
  ptx::wait_for_producers();
  ptx::release_dependents();
  if (!exists || row >= job.tokens * p.group) return;
  const int64_t at0 = int64_t{job.slot_begin} * p.unit_rows + row;
  const auto issue = [&](int first) {
    if (first >= job.slots) {
      ptx::copy_async_commit();
      return make_float2(BORA_NEG_INF, 0.0f);
    }
    const int buffer = first / kMergeBatch % 2;
    const int count = min(job.slots - first, kMergeBatch);
    const int piece = thread % 16 * 4;
    const float* from = p.partial_o + (at0 + int64_t{first} * p.unit_rows) * head_dim + dim0 + piece;
    const int64_t step = int64_t{p.unit_rows} * head_dim;
#pragma unroll
    for (int i = 0; i < kMergeBatch / 8; ++i) {
      const int s = i * 8 + thread / 16;
      if (s < count && piece < dims)
        ptx::copy_async_16_part(ptx::shared_address(&values[buffer][s][piece]), from + s * step, 16);
    }
    ptx::copy_async_commit();
    if (thread >= count) return make_float2(BORA_NEG_INF, 0.0f);
    return *reinterpret_cast<const float2*>(p.partial_ml + (at0 + int64_t{first + thread} * p.unit_rows) * 2);
  };
  float2 stats = issue(0), next = issue(kMergeBatch);
  float m = BORA_NEG_INF, l = 0.0f, o = 0.0f;
  for (int first = 0; first < job.slots; first += kMergeBatch) {
    float before, with;
    scan_max(stats.x, before, with, m, exchange);
    const float ref = finite_or_zero(with);
    if (thread < kMergeBatch) {
      factors[thread] =
          make_float4(exp2_approx(__fsub_rn(before, ref)), exp2_approx(__fsub_rn(stats.x, ref)), stats.y, 0.0f);
    }
    ptx::copy_async_wait<1>();
    __syncthreads();
    const int buffer = first / kMergeBatch % 2;
    const int count = min(job.slots - first, kMergeBatch);
    if (thread < 64) {
#pragma unroll 8
      for (int s = 0; s < count; ++s) {
        const float4 f = factors[s];
        l = merged(l, f.x, f.z, f.y);
        o = merged(o, f.x, values[buffer][s][thread], f.y);
      }
    }
    __syncthreads();
    stats = next;
    next = issue(first + 2 * kMergeBatch);
  }
  if (thread >= dims) return;
  const int head = job.kv_head * p.group + row % p.group;
  const float factor = final_factor(m, l, p.sinks != nullptr ? p.sinks[head] : BORA_NEG_INF);
  T* out = static_cast<T*>(p.out) + (job.token_begin + row / p.group) * p.out_stride + int64_t{head} * head_dim;
  out[dim0 + thread] = T(__fmul_rn(o, factor));
}

template <typename T>
Status launch_merge(const AttentionParams& p, MergeSize size, const LaunchOn& on) {
  const Grid grid{dim3(size.merges, size.rows, (size.head_dim + 63) / 64), 128};
  return launch("attention merge_kernel", merge_kernel<T>, grid, on, p, size.head_dim);
}

}  // namespace bora::cuda
