// Sixteen lanes on AVX2 + FMA + F16C: pairs of 256-bit registers. Included by one translation unit that is compiled
// for that level; everything here has internal linkage so that no code of this level can be chosen elsewhere.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace bora::cpu {
namespace {

struct F {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
struct B {
  __m256i lo, hi;
};

// Sums that fit in registers beside their operands.
constexpr int kSums = 6;

inline F f_zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F f_set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F f_load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void f_store(float* p, F a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline F f_add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F f_sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F f_mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F f_div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F f_max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F f_min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline F f_fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline F f_fnma(F a, F b, F c) { return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)}; }
inline F f_abs(F a) {
  const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  return {_mm256_and_ps(a.lo, m), _mm256_and_ps(a.hi, m)};
}
// Lanes where n says "not in range" become `fill`: lane i is kept when i < n.
inline F f_keep(F a, int n, float fill) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i count = _mm256_set1_epi32(n);
  const __m256 f = _mm256_set1_ps(fill);
  return {_mm256_blendv_ps(f, a.lo, _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low))),
          _mm256_blendv_ps(f, a.hi, _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high)))};
}
inline F f_from(I a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline I i_round(F a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline F f_half(const void* p) {
  const __m128i* h = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
inline F f_bf16(const void* p) {
  const __m128i* h = static_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)), 16))};
}
// 2^n for integral n in [-126, 127].
inline F f_exp2i(I n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.lo, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.hi, bias), 23))};
}
inline I i_zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I i_set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I i_add(I a, I b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
inline I i_sub(I a, I b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
inline I i_mul(I a, I b) { return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)}; }
inline I i_shl(I a, int n) { return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
inline F f_bits(I a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
// Sixteen bytes as integers.
inline I i_u8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))};
}
inline I i_s8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))};
}

inline B b_load(const void* p) {
  const __m256i* v = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
inline B b_or(B a, B b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
// (byte >> n) & mask, and (byte & mask) << n for results that stay inside the byte.
template <int n>
inline B b_bits(B a, int mask) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(_mm256_srli_epi16(a.lo, n), m), _mm256_and_si256(_mm256_srli_epi16(a.hi, n), m)};
}
template <int n>
inline B b_shl(B a) {
  return {_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)};
}
inline B b_lookup(const uint8_t* table, B index) {
  const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(t, index.lo), _mm256_shuffle_epi8(t, index.hi)};
}
// Four products a lane: unsigned codes times the four signed bytes of `a`, added to acc. kWide: codes up to 255;
// without it up to 127, where no pair of products leaves 16 bits.
template <bool kWide>
inline I dot4(I acc, B codes, int32_t a) {
  const __m256i v = _mm256_set1_epi32(a);
  const __m256i one = _mm256_set1_epi16(1);
  if constexpr (!kWide) {
    return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(_mm256_maddubs_epi16(codes.lo, v), one)),
            _mm256_add_epi32(acc.hi, _mm256_madd_epi16(_mm256_maddubs_epi16(codes.hi, v), one))};
  } else {
    const __m256i low = _mm256_set1_epi8(0x7F), top = _mm256_set1_epi8(static_cast<char>(0x80));
    const auto both = [&](__m256i c) {
      return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(c, low), v), one),
                              _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(c, top), v), one));
    };
    return {_mm256_add_epi32(acc.lo, both(codes.lo)), _mm256_add_epi32(acc.hi, both(codes.hi))};
  }
}
// Integer lanes to bytes, saturated. Lanes are within [-127, 127].
inline void i_store_s8(int8_t* p, I a) {
  const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
inline void f_store_half(uint16_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
// Lane i + 8, + 4, + 2, + 1.
inline float f_sum(F a) {
  const __m256 e = _mm256_add_ps(a.lo, a.hi);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float f_max_all(F a) {
  const __m256 e = _mm256_max_ps(a.lo, a.hi);
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline int32_t i_sum(I a) {
  const __m256i e = _mm256_add_epi32(a.lo, a.hi);
  const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
  const __m128i d = _mm_add_epi32(q, _mm_srli_si128(q, 8));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_srli_si128(d, 4)));
}

}  // namespace
}  // namespace bora::cpu
