// Merges the partials of split units in ascending order of tiles, by the same two instructions a tile as everywhere.
//
// A block takes 64 dims of one row: 64 slots at a time (16 KB) come to shared memory by cp.async, two batches in flight, and
// every thread walks its own dim. Grid: (merge, row of the unit, 64-dim slab).
#pragma once

#include "backend/cuda/kernels/attention/softmax.cuh"
#include "backend/cuda/kernels/attention/tile_params.h"

namespace bora::cuda {

inline constexpr int kMergeBatch = 64;

template <typename T>
__global__ void __launch_bounds__(64) merge_kernel(const __grid_constant__ AttentionParams p, int32_t head_dim) {
  __shared__ __align__(16) float values[2][kMergeBatch][64];
  __shared__ float2 stats[2][kMergeBatch];
  grid_wait();
  const AttentionMerge job = p.merges[blockIdx.x];
  const int row = blockIdx.y;
  grid_launch_dependents();
  if (row >= job.tokens * p.group) return;
  const int dim0 = blockIdx.z * 64;
  const int pieces = min(head_dim - dim0, 64) / 4;
  const auto issue = [&](int first) {
    const int buffer = first / kMergeBatch % 2;
    const int count = min(job.slots - first, kMergeBatch);
    for (int i = threadIdx.x; i < count * pieces; i += 64) {
      const int s = i / pieces, piece = i % pieces;
      const int64_t at = int64_t{job.slot_begin + first + s} * p.unit_rows + row;
      cp_async16(smem_address(&values[buffer][s][piece * 4]), p.partial_o + at * head_dim + dim0 + piece * 4, 16);
    }
    if (static_cast<int>(threadIdx.x) < count) {
      const int64_t at = int64_t{job.slot_begin + first + static_cast<int>(threadIdx.x)} * p.unit_rows + row;
      stats[buffer][threadIdx.x] = *reinterpret_cast<const float2*>(p.partial_ml + at * 2);
    }
    cp_async_commit();
  };
  issue(0);
  issue(kMergeBatch);
  float m = BORA_NEG_INF, l = 0.0f, o = 0.0f;
  for (int first = 0; first < job.slots; first += kMergeBatch) {
    cp_async_wait<1>();
    __syncthreads();
    const int buffer = first / kMergeBatch % 2;
    const int count = min(job.slots - first, kMergeBatch);
#pragma unroll 8
    for (int s = 0; s < count; ++s) {
      const float2 ml = stats[buffer][s];
      float a, b;
      merge_factors(m, ml.x, a, b);
      l = merged(l, a, ml.y, b);
      o = merged(o, a, values[buffer][s][threadIdx.x], b);
    }
    __syncthreads();
    issue(first + 2 * kMergeBatch);
  }
  if (static_cast<int>(threadIdx.x) >= pieces * 4) return;
  const int head = job.kv_head * p.group + row % p.group;
  const float factor = final_factor(m, l, p.sinks != nullptr ? p.sinks[head] : BORA_NEG_INF);
  T* out = static_cast<T*>(p.out) + (job.token_begin + row / p.group) * p.out_stride + int64_t{head} * head_dim;
  out[dim0 + threadIdx.x] = T(__fmul_rn(o, factor));
}

template <typename T>
const char* launch_merge(const AttentionParams& p, int32_t merges, int32_t head_dim, StreamHandle stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(merges, p.unit_rows, (head_dim + 63) / 64);
  config.blockDim = dim3(64);
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, merge_kernel<T>, p, head_dim);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace bora::cuda
