// The canonical arithmetic of a row, in one place for every attention kernel.
//
// Tile t of 256 keys, for one row (s = q.k accumulated in float32 over ascending 16-dim steps):
//   s'  = s                                   c = scale * log2(e)          without softcap
//   s'  = cap * tanh(s * scale / cap)         c = log2(e)                  with softcap
//   m_t = max over visible keys of s', times c          (-inf when no key is visible)
//   p   = 2^(s' * c - m_t)  by one fused multiply-add and ex2.approx; 0 at invisible keys
//   l_t: 16 chains by (key / 16 mod 4, key / 2 mod 4), each over ascending keys; chains of unlike key / 16
//   are added
//        ((0 + 1) + 2) + 3 and the four results (0 + 1) + (2 + 3)
//   O_t = p rounded to the cache's dtype, times v, accumulated from zero over ascending 16-key steps
// Merge, ascending t, from m = -inf, l = 0, O = 0:
//   m' = max(m, m_t), a = 2^(m - m'), b = 2^(m_t - m'); l = fma(l_t, b, l * a); O = fma(O_t, b, O * a); m =
//   m'
// A tile without visible keys leaves m, l and O as they are, to the bit. After the last tile a sink z adds
// 2^(z log2(e) - m') to l in the same manner; the row is O * (1 / l), or zeros when l = 0.
#pragma once

#include "backend/cuda/kernels/attention/ptx.cuh"

namespace bora::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;
#define BORA_NEG_INF (-__int_as_float(0x7f800000))

// cap * tanh(x), absolute error below 1e-6 * cap.
__device__ __forceinline__ float softcapped(float s, float scale_over_cap, float cap) {
  const float x = __fmul_rn(s, scale_over_cap);
  const float e = exp2_approx(__fmul_rn(fabsf(x), -2.0f * kLog2e));  // in (0, 1]
  const float t = __fdividef(__fsub_rn(1.0f, e), __fadd_rn(1.0f, e));
  return __fmul_rn(copysignf(t, x), cap);
}

__device__ __forceinline__ float scaled_max(float m_raw, float c) {
  return m_raw == BORA_NEG_INF ? BORA_NEG_INF : __fmul_rn(m_raw, c);
}

// What is subtracted from the exponent: 0 stands in for -inf so that invisible keys give exactly 0.
__device__ __forceinline__ float finite_or_zero(float m) { return m == BORA_NEG_INF ? 0.0f : m; }

__device__ __forceinline__ float probability(float s, float c, float m_finite) {
  return exp2_approx(__fmaf_rn(s, c, -m_finite));
}

// m becomes the new maximum.
__device__ __forceinline__ void merge_factors(float& m, float m_t, float& a, float& b) {
  const float m_new = fmaxf(m, m_t);
  const float ref = finite_or_zero(m_new);
  a = exp2_approx(__fsub_rn(m, ref));
  b = exp2_approx(__fsub_rn(m_t, ref));
  m = m_new;
}

__device__ __forceinline__ float merged(float old, float a, float tile, float b) {
  return __fmaf_rn(tile, b, __fmul_rn(old, a));
}

// Factor of O for the output; `sink` = -inf for none.
__device__ __forceinline__ float final_factor(float m, float l, float sink) {
  float factor = 1.0f;
  if (sink != BORA_NEG_INF) {
    float a, b;
    merge_factors(m, __fmul_rn(sink, kLog2e), a, b);
    l = merged(l, a, 1.0f, b);
    factor = a;
  }
  return l == 0.0f ? 0.0f : __fmul_rn(factor, __frcp_rn(l));
}

}  // namespace bora::cuda
