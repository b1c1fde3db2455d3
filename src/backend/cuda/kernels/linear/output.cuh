// What happens to a sum on its way to y: scale, bias, rounding, gate, residual. One order of roundings for all forms.
#pragma once

#include <type_traits>

#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/linear/format.h"
#include "backend/cuda/kernels/linear/output.h"

namespace bora::cuda {

template <typename T>
__device__ __forceinline__ float to_float(T v) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(v);
  else
    return __bfloat162float(v);
}
template <typename T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(v);
  else
    return __float2bfloat16_rn(v);
}

// Formats travel as types: this compiler's launch stubs cannot spell values of class type.
template <Codes kCodes, int kGroup = 0, bool kZeros = false, bool kBlockScale = false>
struct FormatOf {
  static constexpr LinearFormat format{kCodes, kGroup, kZeros, kBlockScale};
};

// The linear's own rounding: of a row's sum for one token.
template <typename T>
__device__ __forceinline__ T finish_sum(const LinearOut& p, float sum, int row) {
  if (p.channel_scale != nullptr) sum *= p.channel_scale[row];
  if (p.bias != nullptr) sum += to_float(static_cast<const T*>(p.bias)[row]);
  return from_float<T>(sum);
}

template <typename T>
__device__ __forceinline__ T silu_times(T gate, T up) {
  const float g = to_float(gate), u = to_float(up);
  return from_float<T>(g / (1.f + __expf(-g)) * u);
}

template <typename T>
__device__ __forceinline__ void store_plain(const LinearOut& p, float sum, int64_t token, int row) {
  T out = finish_sum<T>(p, sum, row);
  if (p.residual != nullptr) {
    out = from_float<T>(to_float(out) + to_float(static_cast<const T*>(p.residual)[token * p.residual_stride + row]));
  }
  static_cast<T*>(p.y)[token * p.y_stride + row] = out;
}

// silu(gate) * up, with the roundings of the separate operations: both linears, then the product.
template <typename T>
__device__ __forceinline__ void store_gated(const LinearOut& p, float gate, float up, int64_t token, int row) {
  static_cast<T*>(p.y)[token * p.y_stride + row / 16 * 8 + row % 8] =
      silu_times(finish_sum<T>(p, gate, row), finish_sum<T>(p, up, row + 8));
}

}  // namespace bora::cuda
