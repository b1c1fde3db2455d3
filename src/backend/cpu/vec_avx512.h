// Sixteen lanes on AVX-512 (F, BW, VL, DQ, VNNI): one 512-bit register. The same names as the other levels; internal
// linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace bora::cpu {
namespace {

struct F {
  __m512 v;
};
struct I {
  __m512i v;
};
struct B {
  __m512i v;
};

// Sums that fit in registers beside their operands.
constexpr int kSums = 12;

inline F f_zero() { return {_mm512_setzero_ps()}; }
inline F f_set(float x) { return {_mm512_set1_ps(x)}; }
inline F f_load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void f_store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
inline F f_add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F f_sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F f_mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F f_div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F f_max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F f_min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F f_fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F f_fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline F f_abs(F a) { return {_mm512_abs_ps(a.v)}; }
inline F f_keep(F a, int n, float fill) {
  const __mmask16 m = static_cast<__mmask16>(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
  return {_mm512_mask_mov_ps(_mm512_set1_ps(fill), m, a.v)};
}
inline F f_from(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I i_round(F a) { return {_mm512_cvtps_epi32(a.v)}; }
inline F f_half(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))}; }
inline F f_bf16(const void* p) {
  return {_mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16))};
}
inline F f_exp2i(I n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
inline I i_zero() { return {_mm512_setzero_si512()}; }
inline I i_set(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline I i_add(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I i_sub(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I i_mul(I a, I b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline I i_shl(I a, int n) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))}; }
inline F f_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
inline I i_u8(const void* p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))}; }
inline I i_s8(const void* p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))}; }

inline B b_load(const void* p) { return {_mm512_loadu_si512(p)}; }
inline B b_or(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int n>
inline B b_bits(B a, int mask) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, n), _mm512_set1_epi8(static_cast<char>(mask)))};
}
template <int n>
inline B b_shl(B a) {
  return {_mm512_slli_epi16(a.v, n)};
}
inline B b_lookup(const uint8_t* table, B index) {
  const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(t, index.v)};
}
template <bool kWide>
inline I dot4(I acc, B codes, int32_t a) {
  return {_mm512_dpbusd_epi32(acc.v, codes.v, _mm512_set1_epi32(a))};
}
inline void i_store_s8(int8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}
inline void f_store_half(uint16_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
// Lane i + 8, + 4, + 2, + 1.
inline float f_sum(F a) {
  const __m256 e = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float f_max_all(F a) {
  const __m256 e = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline int32_t i_sum(I a) {
  const __m256i e = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
  const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
  const __m128i d = _mm_add_epi32(q, _mm_srli_si128(q, 8));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_srli_si128(d, 4)));
}

}  // namespace
}  // namespace bora::cpu
