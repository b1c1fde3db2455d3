// Per-head norm, rotation and cache append of a merged projection in one launch.
//
// 16 bytes (8 dims) a lane, the next power of two >= head_dim / 8 lanes a head; heads of all tokens are laid
// end to end over the warps. Partners of a rotation meet by shuffles. Bytes moved: the projection once in, q
// and the cache once out.
#include "backend/cuda/kernels/attention/kv_layout.h"
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/step.h"
#include "backend/cuda/kernels/step/vector.cuh"

namespace bora::cuda {
namespace {

// Rotates the 8 dims of this lane; `lane` is the lane within the head. All lanes of the warp call it.
template <int kLanes>
__device__ __forceinline__ void rotate(const RopeAppendArgs& p, const float* table, int lane, bool rotates,
                                       float (&x)[8]) {
  const int at = lane * 8, half = p.rot_dim / 2;
  float4 t[4] = {};
  if (rotates) {
    // [pair][cos, sin]: 8 pairs for halves, 4 for neighbours.
    const float4* from = reinterpret_cast<const float4*>(table + (p.interleaved ? at : at % half * 2));
    const int loads = p.interleaved ? 2 : 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < loads) t[i] = from[i];
    }
  }
  if (p.interleaved) {
    if (!rotates) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float c = i % 2 ? t[i / 2].z : t[i / 2].x, s = i % 2 ? t[i / 2].w : t[i / 2].y;
      const float a = x[i * 2], b = x[i * 2 + 1];
      x[i * 2] = __fmaf_rn(-b, s, __fmul_rn(a, c));
      x[i * 2 + 1] = __fmaf_rn(a, s, __fmul_rn(b, c));
    }
    return;
  }
  const bool second = at >= half;
  const int partner = second ? lane - half / 8 : lane + half / 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float other = __shfl_sync(~0u, x[i], rotates ? partner : lane, kLanes);
    const float c = i % 2 ? t[i / 2].z : t[i / 2].x, s = i % 2 ? t[i / 2].w : t[i / 2].y;
    if (rotates) x[i] = __fmaf_rn(second ? other : -other, s, __fmul_rn(x[i], c));
  }
}

template <typename T, int kLanes>
__global__ void __launch_bounds__(128)
    rope_append_kernel(const __grid_constant__ RopeAppendArgs p, int32_t block_shift) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int lane = threadIdx.x % kLanes, at = lane * 8;
  const uint32_t heads = p.q_heads + 2 * p.kv_heads;
  const uint32_t unit = blockIdx.x * (128 / kLanes) + threadIdx.x / kLanes;
  const bool live = unit < p.tokens * heads && at < p.head_dim;
  const int64_t token = unit < p.tokens * heads ? unit / heads : 0;
  const int head = static_cast<int>(unit % heads);
  const bool is_q = head < p.q_heads, is_k = !is_q && head < p.q_heads + p.kv_heads;
  float x[8] = {};
  if (live) load8(x, static_cast<const T*>(p.qkv) + token * p.qkv_stride + int64_t{head} * p.head_dim + at);
  const void* norm = is_q ? p.q_norm : is_k ? p.k_norm : nullptr;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = __fmaf_rn(x[i], x[i], sum);
#pragma unroll
  for (int d = 1; d < kLanes; d *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, d));
  if (live && norm != nullptr) {
    float w[8];
    load8(w, static_cast<const T*>(norm) + at);
    const float factor = rsqrtf(sum / p.head_dim + p.eps);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = __fmul_rn(__fmul_rn(x[i], factor), p.plus_one ? __fadd_rn(1.0f, w[i]) : w[i]);
  }
  if (p.rope != nullptr) {
    const bool rotates = live && (is_q || is_k) && at < p.rot_dim;
    rotate<kLanes>(p, rotates ? p.rope + int64_t{p.pos[token]} * p.rot_dim : nullptr, lane, rotates, x);
  }
  if (!live) return;
  if (is_q) {
    store8(static_cast<T*>(p.q_out) + token * p.q_stride + int64_t{head} * p.head_dim + at, x);
    return;
  }
  const int32_t slot = p.slot[token];
  if (slot < 0) return;
  const int kv_head = head - p.q_heads - (is_k ? 0 : p.kv_heads);
  const int32_t in = slot & (p.block_tokens - 1);
  char* block = static_cast<char*>(is_k ? p.k : p.v) + int64_t{slot >> block_shift} * p.block_stride +
                kv_head * kv_chunk_bytes(p.head_dim, p.block_tokens) + kv_offset(p.head_dim, in, at);
  store8(reinterpret_cast<T*>(block), x);
}

template <typename T>
Status launch_typed(const RopeAppendArgs& a, const LaunchOn& on) {
  int32_t shift = 0;
  while ((1 << shift) < a.block_tokens) ++shift;
  const int64_t units = int64_t{a.tokens} * (a.q_heads + 2 * a.kv_heads);
  const auto grid = [&](int lanes) { return Grid{dim3(static_cast<unsigned>((units * lanes + 127) / 128)), 128}; };
  if (a.head_dim <= 64) return launch("rope_append", rope_append_kernel<T, 8>, grid(8), on, a, shift);
  if (a.head_dim <= 128) return launch("rope_append", rope_append_kernel<T, 16>, grid(16), on, a, shift);
  return launch("rope_append", rope_append_kernel<T, 32>, grid(32), on, a, shift);
}

}  // namespace

Status launch_rope_append(const RopeAppendArgs& a, const LaunchOn& on) {
  const char* op = "rope_append";
  BORA_TRY(check_half(op, a.dtype));
  BORA_TRY(check_pointer(op, "qkv", a.qkv));
  BORA_TRY(check_pointer(op, "q_out", a.q_out));
  BORA_TRY(check_pointer(op, "k", a.k));
  BORA_TRY(check_pointer(op, "v", a.v));
  BORA_TRY(check_pointer(op, "slot", a.slot));
  BORA_TRY(check_pointer(op, "pos", a.pos, a.rope == nullptr));
  BORA_TRY(check_pointer(op, "q_norm", a.q_norm, true));
  BORA_TRY(check_pointer(op, "k_norm", a.k_norm, true));
  BORA_TRY(check_size(op, "head_dim", a.head_dim, 16, 256));
  BORA_TRY(check_size(op, "tokens", a.tokens, 1, 1 << 18));
  BORA_TRY(check_size(op, "q_heads", a.q_heads, 1, 4096));
  BORA_TRY(check_size(op, "kv_heads", a.kv_heads, 1, 4096));
  BORA_TRY(check_size(op, "block_tokens", a.block_tokens, 16, 1 << 16));
  if ((a.block_tokens & (a.block_tokens - 1)) != 0)
    return invalid_argument("rope_append: block_tokens is no power of two");
  BORA_TRY(check_stride(op, "qkv_stride", a.qkv_stride, 8));
  BORA_TRY(check_stride(op, "q_stride", a.q_stride, 8));
  if (a.block_stride % 16 != 0) return invalid_argument("rope_append: block_stride is no multiple of 16 bytes");
  if (a.rope != nullptr) BORA_TRY(check_size(op, "rot_dim", a.rot_dim, 16, a.head_dim));
  BORA_TRY(check_pointer(op, "rope", a.rope, true));
  if (int64_t{a.tokens} * (a.q_heads + 2 * int64_t{a.kv_heads}) > (1 << 30))
    return invalid_argument("rope_append: too many rows");
  if (!(a.eps >= 0)) return invalid_argument("rope_append: eps is negative");
  return a.dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(a, on) : launch_typed<__half>(a, on);
}

}  // namespace bora::cuda
