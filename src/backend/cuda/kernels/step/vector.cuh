// Eight 16-bit elements at a time, float32 inside.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/common/ptx.cuh"

namespace bora::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ void load8(float (&x)[8], const T* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  const T* e = reinterpret_cast<const T*>(&v);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = to_float(e[i]);
}

template <typename T>
__device__ __forceinline__ void store8(T* to, const float (&x)[8]) {
  uint4 v;
  T* e = reinterpret_cast<T*>(&v);
#pragma unroll
  for (int i = 0; i < 8; ++i) e[i] = T(x[i]);
  *reinterpret_cast<uint4*>(to) = v;
}

// Calls f with a value of the element type that `dtype` names.
template <typename F>
auto with_half(bool bf16, const F& f) {
  return bf16 ? f(__nv_bfloat16()) : f(__half());
}

}  // namespace bora::cuda
