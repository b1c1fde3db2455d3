// Host packers of linear weights, and their inverse for tests. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/linear/format.h"
#include "base/status.h"

namespace bora::cuda {

// A matrix as plain arrays, row major. `codes`: u16 bit patterns (16 bits) or one byte a weight: e4m3, int8, or
// 0..15.
struct PlainWeights {
  int64_t n = 0, k = 0;
  std::span<const uint16_t> codes16;
  std::span<const uint8_t> codes8;
  std::span<const uint16_t> scales;     // f16 bits [n, ceil(k / group)]
  std::span<const uint8_t> zeros;       // [n, ceil(k / group)], 0..15
  std::span<const float> block_scales;  // [ceil(n / 128), ceil(k / 128)]
  // Row r of the packed matrix is row order[r] of this one; empty = the same order. Gate and up rows are interleaved
  // so (swiglu_order), adapters of fused matrices too.
  std::span<const int32_t> order;
};

// Errors: sizes that do not fit the shape and format, an unsupported group, k not a multiple of a group of scales,
// codes or zero points out of range.
Result<std::vector<uint8_t>> pack_linear(const LinearFormat& format, const PlainWeights& weights);

// One weight of a packed matrix (row in packed order): its code, scale (1 if none) and zero point (8 for INT4
// without).
struct PackedWeight {
  uint16_t code = 0;
  float scale = 1;
  int32_t zero = 0;
};
// REQUIRES: packed.size() == packed_bytes(format, shape.n, shape.k), row < shape.n, column < shape.k.
PackedWeight unpack_one(const LinearFormat& format, const LinearShape& shape, std::span<const uint8_t> packed,
                        int64_t row, int64_t column);

// Order for a matrix of n/2 gate rows over n/2 up rows: each row tile holds 8 gate rows and the 8 up rows that belong
// to them. REQUIRES: n a multiple of 16.
std::vector<int32_t> swiglu_order(int64_t n);

}  // namespace bora::cuda
