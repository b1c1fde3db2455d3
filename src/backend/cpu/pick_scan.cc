#include "backend/cpu/pick_scan.h"

#include <immintrin.h>

#include <algorithm>
#include <limits>

namespace bora::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Elements i .. i + 8; beyond n and not a number: -infinity.
__m256 load(const float* x, int64_t i, int64_t n) {
  __m256 v;
  if (i + 8 <= n) {
    v = _mm256_loadu_ps(x + i);
  } else {
    alignas(32) float t[8];
    for (int64_t k = 0; k < 8; ++k) t[k] = i + k < n ? x[i + k] : kLowest;
    v = _mm256_load_ps(t);
  }
  return _mm256_blendv_ps(v, _mm256_set1_ps(kLowest), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

float greatest(__m256 a) {
  alignas(32) float t[8];
  _mm256_store_ps(t, a);
  return *std::max_element(t, t + 8);
}

// 2^n * e^r by the Taylor polynomial of degree 7, |r| <= ln2 / 2. Arguments are at most 0; below -87 the result is 0.
__m256 exp8(__m256 x) {
  const __m256 small = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ);
  x = _mm256_max_ps(x, _mm256_set1_ps(-87.0f));
  const __m256i n = _mm256_cvtps_epi32(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)));
  const __m256 nf = _mm256_cvtepi32_ps(n);
  __m256 r = _mm256_fnmadd_ps(nf, _mm256_set1_ps(0.693359375f), x);
  r = _mm256_fnmadd_ps(nf, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.0f / 5040.0f);
  for (const float c : {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f}) {
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(c));
  }
  const __m256i two_n = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
  return _mm256_andnot_ps(small, _mm256_mul_ps(p, _mm256_castsi256_ps(two_n)));
}

__m256 exp_of(__m256 x, __m256 most, __m256 factor) { return exp8(_mm256_mul_ps(_mm256_sub_ps(x, most), factor)); }

}  // namespace

ScanMax scan_max(const float* x, int64_t n, float* block_max) {
  ScanMax best{kLowest, -1};
  for (int64_t b = 0; b < n; b += kScanBlock) {
    const int64_t end = std::min(n, b + kScanBlock);
    __m256 most = _mm256_set1_ps(kLowest);
    for (int64_t i = b; i < end; i += 8) most = _mm256_max_ps(most, load(x, i, end));
    const float m = greatest(most);
    if (block_max != nullptr) block_max[b / kScanBlock] = m;
    if (m > best.value) best = {m, static_cast<int32_t>(b)};
  }
  while (best.id >= 0 && x[best.id] != best.value) ++best.id;
  return best;
}

double scan_exp(const float* x, int64_t n, float most, float factor, float floor, double* sums) {
  const __m256 m = _mm256_set1_ps(most), f = _mm256_set1_ps(factor), low = _mm256_set1_ps(floor);
  double total = 0;
  for (int64_t b = 0; b < n; b += kScanBlock) {
    const int64_t end = std::min(n, b + kScanBlock);
    // Four weights of a lane are added in float32 first.
    __m256d low_sum = _mm256_setzero_pd(), high_sum = _mm256_setzero_pd();
    for (int64_t i = b; i < end; i += 32) {
      __m256 four = _mm256_setzero_ps();
      for (int64_t k = i; k < std::min(end, i + 32); k += 8) {
        const __m256 v = k + 8 <= end ? _mm256_loadu_ps(x + k) : load(x, k, end);
        four = _mm256_add_ps(four, _mm256_and_ps(exp_of(v, m, f), _mm256_cmp_ps(v, low, _CMP_GE_OQ)));
      }
      low_sum = _mm256_add_pd(low_sum, _mm256_cvtps_pd(_mm256_castps256_ps128(four)));
      high_sum = _mm256_add_pd(high_sum, _mm256_cvtps_pd(_mm256_extractf128_ps(four, 1)));
    }
    alignas(32) double t[4];
    _mm256_store_pd(t, _mm256_add_pd(low_sum, high_sum));
    const double sum = (t[0] + t[1]) + (t[2] + t[3]);
    if (sums != nullptr) sums[b / kScanBlock] = sum;
    total += sum;
  }
  return total;
}

void scan_exp_run(const float* x, int64_t from, int64_t count, float most, float factor, float* out) {
  alignas(32) float t[8];
  for (int64_t i = 0; i < count; i += 8) {
    _mm256_store_ps(t, exp_of(load(x, from + i, from + count), _mm256_set1_ps(most), _mm256_set1_ps(factor)));
    for (int64_t k = 0; k < 8 && i + k < count; ++k) out[i + k] = t[k];
  }
}

void scan_exp_ids(const float* x, std::span<const int32_t> ids, float most, float factor, float* out) {
  alignas(32) float t[8];
  for (size_t i = 0; i < ids.size(); i += 8) {
    const size_t n = std::min<size_t>(8, ids.size() - i);
    for (size_t k = 0; k < 8; ++k) t[k] = k < n ? x[ids[i + k]] : kLowest;
    _mm256_store_ps(t, exp_of(_mm256_load_ps(t), _mm256_set1_ps(most), _mm256_set1_ps(factor)));
    for (size_t k = 0; k < n; ++k) out[i + k] = t[k];
  }
}

int64_t scan_collect(const float* x, int64_t n, float floor, int32_t* out) {
  const __m256 low = _mm256_set1_ps(floor), none = _mm256_set1_ps(kLowest);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += 8) {
    const __m256 v = load(x, i, n);
    const __m256 in = _mm256_and_ps(_mm256_cmp_ps(v, low, _CMP_GE_OQ), _mm256_cmp_ps(v, none, _CMP_GT_OQ));
    for (unsigned bits = static_cast<unsigned>(_mm256_movemask_ps(in)); bits != 0; bits &= bits - 1) {
      out[count++] = static_cast<int32_t>(i) + __builtin_ctz(bits);
    }
  }
  return count;
}

int64_t scan_greater(const float* x, int64_t n, float than) {
  const __m256 t = _mm256_set1_ps(than);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += 8) {
    count +=
        __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(load(x, i, n), t, _CMP_GT_OQ))));
  }
  return count;
}

}  // namespace bora::cpu
