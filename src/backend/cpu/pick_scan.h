// Passes over a whole row of logits, written for AVX2 and FMA, which every level has: one implementation,
// so the bits are the same at every level. n elements each; not-a-number is passed over.
#pragma once

#include <cstdint>
#include <span>

namespace bora::cpu {

constexpr int64_t kScanBlock = 256;  // elements

struct ScanMax {
  float value = 0;
  int32_t id = -1;  // the smallest id with that value; -1: every element is -infinity or not a number
};
// Also writes the greatest element of each block, [ceil(n / kScanBlock)]; block_max may be null.
ScanMax scan_max(const float* x, int64_t n, float* block_max);
// Sum of exp((x - most) * factor) over elements x >= floor, [ceil(n / kScanBlock)] sums by block into `sums` (may be
// null). A float32 exponential with relative error below 3e-7; below -87 it is 0. Sums are float64.
double scan_exp(const float* x, int64_t n, float most, float factor, float floor, double* sums);
// The exponentials of scan_exp, to the last bit, of x[from .. from + count), of x[ids[0 .. count)].
void scan_exp_run(const float* x, int64_t from, int64_t count, float most, float factor, float* out);
void scan_exp_ids(const float* x, std::span<const int32_t> ids, float most, float factor, float* out);
// Elements >= floor and above -infinity: their ids, ascending. Writes all when out has room for n.
int64_t scan_collect(const float* x, int64_t n, float floor, int32_t* out);
// Elements > x.
int64_t scan_greater(const float* x, int64_t n, float than);

}  // namespace bora::cpu
