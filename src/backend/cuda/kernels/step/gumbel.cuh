// Gumbel noise on a logit, and which rows need the whole vocabulary only.
#pragma once

#include "backend/cuda/kernels/step/noise.h"
#include "backend/cuda/kernels/step/step.h"

namespace bora::cuda {

// x / T - log(E), E exponential: the largest of these is an exact draw from softmax(x / T).
__device__ __forceinline__ float perturbed(float x, float inverse_t, uint32_t word) {
  return __fsub_rn(__fmul_rn(x, inverse_t), __logf(-log1pf(-noise_uniform(word))));
}

__device__ __forceinline__ bool truncates(const SampleParams& q, int vocab) {
  return q.temperature > 0.0f && q.top_k != 1 &&
         (q.top_p < 1.0f || q.min_p > 0.0f || (q.top_k > 1 && q.top_k < vocab));
}

// The second launch of launch_sample: rows that truncate.
Status launch_sample_truncated(const SampleArgs& args, const LaunchOn& on);

}  // namespace bora::cuda
