// RMS norm of rows or heads, with or without a residual added first.
//
// Up to 256 dims: 32 lanes a row, 4 rows a block. Above: one block a row, 16 bytes a thread and step, the row
// kept in registers (at most 8 steps of 256 threads). Sum of squares: each thread ascending over its own
// pieces, then a butterfly in the warp, then warps in ascending order: a function of dim alone.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/step.h"
#include "backend/cuda/kernels/step/vector.cuh"

namespace bora::cuda {
namespace {

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) x = __fadd_rn(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

template <typename T>
__device__ __forceinline__ void load_row_piece(const NormArgs& p, int64_t token, int64_t in_row, int at,
                                               float (&x)[8]) {
  load8(x, static_cast<const T*>(p.in) + token * p.in_stride + in_row + at);
  if (p.residual == nullptr) return;
  float r[8];
  load8(r, static_cast<const T*>(p.residual) + token * p.residual_stride + in_row + at);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = to_float(T(x[i] + r[i]));
  store8(static_cast<T*>(p.residual_out) + token * p.residual_stride + in_row + at, x);
}

template <typename T>
__device__ __forceinline__ void store_row_piece(const NormArgs& p, int64_t token, int64_t in_row, int at,
                                                float factor, float (&x)[8]) {
  float w[8];
  if (p.weight != nullptr) load8(w, static_cast<const T*>(p.weight) + at);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float scale = p.weight == nullptr ? 1.0f : p.plus_one ? __fadd_rn(1.0f, w[i]) : w[i];
    x[i] = __fmul_rn(__fmul_rn(x[i], factor), scale);
  }
  store8(static_cast<T*>(p.out) + token * p.out_stride + in_row + at, x);
}

template <typename T>
__global__ void __launch_bounds__(128) head_norm_kernel(const __grid_constant__ NormArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= int64_t{p.tokens} * p.heads) return;
  const int64_t token = row / p.heads, in_row = row % p.heads * p.dim;
  float x[8] = {};
  if (lane * 8 < p.dim) load_row_piece<T>(p, token, in_row, lane * 8, x);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = __fmaf_rn(x[i], x[i], sum);
  sum = warp_sum(sum);
  if (lane * 8 < p.dim) store_row_piece<T>(p, token, in_row, lane * 8, rsqrtf(sum / p.dim + p.eps), x);
}

template <typename T, int kSteps>
__global__ void __launch_bounds__(256) row_norm_kernel(const __grid_constant__ NormArgs p) {
  __shared__ float sums[8];
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int64_t token = blockIdx.x / p.heads, in_row = int64_t{static_cast<int>(blockIdx.x) % p.heads} * p.dim;
  float x[kSteps][8];
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = (s * 256 + threadIdx.x) * 8;
    if (at < p.dim) {
      load_row_piece<T>(p, token, in_row, at, x[s]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum = __fmaf_rn(x[s][i], x[s][i], sum);
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) total = __fadd_rn(total, sums[i]);
  const float factor = rsqrtf(total / p.dim + p.eps);
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = (s * 256 + threadIdx.x) * 8;
    if (at < p.dim) store_row_piece<T>(p, token, in_row, at, factor, x[s]);
  }
}

template <typename T>
Status launch_typed(const NormArgs& a, const LaunchOn& on) {
  const int64_t rows = int64_t{a.tokens} * a.heads;
  if (a.dim <= 256)
    return launch("norm", head_norm_kernel<T>, Grid{dim3(static_cast<unsigned>((rows + 3) / 4)), 128}, on, a);
  const Grid grid{dim3(static_cast<unsigned>(rows)), 256};
  if (a.dim <= 2048) return launch("norm", row_norm_kernel<T, 1>, grid, on, a);
  if (a.dim <= 4096) return launch("norm", row_norm_kernel<T, 2>, grid, on, a);
  if (a.dim <= 8192) return launch("norm", row_norm_kernel<T, 4>, grid, on, a);
  return launch("norm", row_norm_kernel<T, 8>, grid, on, a);
}

}  // namespace

Status launch_norm(const NormArgs& a, const LaunchOn& on) {
  BORA_TRY(check_half("norm", a.dtype));
  BORA_TRY(check_pointer("norm", "in", a.in));
  BORA_TRY(check_pointer("norm", "out", a.out));
  BORA_TRY(check_pointer("norm", "weight", a.weight, true));
  BORA_TRY(check_pointer("norm", "residual", a.residual, true));
  BORA_TRY(check_pointer("norm", "residual_out", a.residual_out, a.residual == nullptr));
  BORA_TRY(check_size("norm", "dim", a.dim, 8, 16384));
  BORA_TRY(check_size("norm", "heads", a.heads, 1, 4096));
  BORA_TRY(check_size("norm", "tokens", a.tokens, 1, 1 << 18));
  BORA_TRY(check_stride("norm", "in_stride", a.in_stride, 8));
  BORA_TRY(check_stride("norm", "out_stride", a.out_stride, 8));
  BORA_TRY(check_stride("norm", "residual_stride", a.residual_stride, 8));
  if (!(a.eps >= 0)) return invalid_argument("norm: eps is negative");
  return a.dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(a, on) : launch_typed<__half>(a, on);
}

}  // namespace bora::cuda
