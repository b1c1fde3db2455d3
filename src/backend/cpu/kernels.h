// The CPU kernels: plain functions over pointers, one table a level. No threads and no allocation inside; callers
// give each thread its range.
//
// Order of operations, the same at every level and for every number of rows: products of a block of 32 are summed as
// integers (exact); blocks are added to float32 sums in ascending order with fused multiply-add; a piece of K starts
// from zero and pieces are added in ascending order. Sums over a vector use sixteen lanes, added pairwise: lane i +
// 8, + 4, + 2, + 1.
#pragma once

#include <cstdint>

#include "backend/cpu/packed.h"

namespace bora::cpu {

// Activations of one or more rows as 8-bit blocks of 32: value = scale * code. [rows, cols] with cols a multiple
// of 32.
struct QuantRows {
  int8_t* codes = nullptr;  // [rows, cols]
  float* scales = nullptr;  // [rows, cols / 32]
  int32_t* sums = nullptr;  // [rows, cols / 16]: sums of 16 codes
  float* totals = nullptr;  // [rows, cols / 32]: sums of 32 codes
  float* shifts = nullptr;  // [rows, cols / 32]: scale * total
  int64_t rows = 0, cols = 0;
};

enum class KvType : uint8_t { kF32, kF16, kBF16 };

// One row's attention. Keys of a block of 16 tokens lie as [kv_head, width, 16], values as [kv_head, 16,
// head_dim], so that scores of sixteen keys need no horizontal sum.
struct AttentionArgs {
  const float* q = nullptr;      // [heads, head_dim], rotated
  float* out = nullptr;          // [heads, head_dim]
  const std::byte* k = nullptr;  // block b at k + b * block_stride
  const std::byte* v = nullptr;
  int64_t block_stride = 0;  // bytes
  KvType type = KvType::kBF16;
  const int32_t* table = nullptr;  // block ids of the sequence
  int32_t group = 1;               // query heads a kv head
  int32_t head_dim = 64;           // any; in the cache a head is as wide as the next multiple of 16
  int32_t begin = 0, end = 0;      // keys [begin, end), end > begin; begin > 0 behind a window
  float scale = 1, softcap = 0;
  float* scratch = nullptr;  // kAttentionScratch floats
};
constexpr int64_t kAttentionScratch = 4 * 256;
constexpr int32_t kKvBlock = 16;
constexpr int32_t kKeyTile = 256;

struct Kernels {
  // Quantizes rows of float32 [rows, cols] with a stride.
  void (*quantize)(const float* x, int64_t stride, int64_t row, QuantRows* out);
  // out[m, r] for the rows of tiles [first, last) and all m; out row stride in floats. Quantized weights.
  void (*linear_q)(const Packed& w, const QuantRows& x, int64_t first, int64_t last, float* out, int64_t out_stride);
  // The same for float32, float16 and bfloat16 weights.
  void (*linear_f)(const Packed& w, const float* x, int64_t x_stride, int64_t rows, int64_t first, int64_t last,
                   float* out, int64_t out_stride);
  // x / sqrt(mean(x^2) + eps) * (weight + plus); weight null = 1. n elements.
  void (*rms_norm)(const float* x, const float* weight, float plus, float eps, int64_t n, float* out);
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  void (*scale)(const float* a, float factor, int64_t n, float* out);
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t n, float* out);
  // Query heads [first, last). Tiles of 256 keys counted from position 0, each from fresh sums, merged ascending.
  void (*attention)(const AttentionArgs& a, int32_t first, int32_t last);
  // Rounds n floats to the cache's type and writes element i to out[i * stride].
  void (*store_kv)(const float* x, int64_t n, KvType type, int64_t stride, std::byte* out);
};

extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512Vnni;

}  // namespace bora::cpu
