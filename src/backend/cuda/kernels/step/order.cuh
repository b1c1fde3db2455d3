// The order of logits: by value descending, then by index ascending, as one 64-bit key (greater = earlier).
#pragma once

#include <cstdint>

namespace bora::cuda {

// Monotone map of floats to unsigned; NaN ranks with -inf.
__device__ __forceinline__ uint32_t ordered(float x) {
  if (!(x == x)) x = __int_as_float(0xff800000);
  if (x == 0.0f) x = 0.0f;  // -0 equals +0
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ uint64_t order_key(float x, int32_t index) {
  return (static_cast<uint64_t>(ordered(x)) << 32) | static_cast<uint32_t>(~index);
}
__device__ __forceinline__ int32_t key_index(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}
__device__ __forceinline__ float key_value(uint64_t key) { return unordered(static_cast<uint32_t>(key >> 32)); }

__device__ __forceinline__ uint64_t warp_max(uint64_t x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, x, d);
    x = other > x ? other : x;
  }
  return x;
}

// Largest key of a block of 1024 threads or fewer; every thread gets it. `scratch` holds 32 keys. Ends with a
// barrier.
__device__ __forceinline__ uint64_t block_max(uint64_t x, uint64_t* scratch) {
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? scratch[threadIdx.x % 32] : 0;
  x = warp_max(x);
  __syncthreads();
  return x;
}

}  // namespace bora::cuda
