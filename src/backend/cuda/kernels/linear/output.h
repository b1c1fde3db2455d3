// Where a linear's results go; the part of a launch's parameters that all forms share.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/linear/linear.h"

namespace bora::cuda {

struct LinearOut {
  void* y;
  const void* bias;
  const void* residual;
  const float* channel_scale;
  int64_t y_stride, residual_stride;
  int32_t m, n;
  int32_t gate;  // 0 = none, 1 = silu
};

inline LinearOut linear_out(const LinearWeights& w, const LinearArgs& a) {
  LinearOut out{a.y, w.bias, a.residual, w.channel_scale, a.y_stride, a.residual_stride, 0, 0, 0};
  out.m = static_cast<int32_t>(a.m);
  out.n = static_cast<int32_t>(w.n);
  out.gate = a.gate == Gate::kNone ? 0 : 1;
  return out;
}

}  // namespace bora::cuda
