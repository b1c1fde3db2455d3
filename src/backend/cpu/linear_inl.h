// The linear kernels, written once over sixteen lanes; the file that includes this brings the lanes.
//
// A tile of 16 output rows meets kRows activation rows at a time: codes are unpacked once and dotted with every row.
// What is added to what does not depend on kRows.
#pragma once

#include "backend/cpu/kernels.h"

namespace bora::cpu {
namespace {

// Where the fields of a block or super-block lie, in bytes.
template <Form kForm, int kBits, bool kE8M0>
struct Layout {
  static constexpr bool kSuperBlock = kForm >= Form::kSuperMin;
  static constexpr bool kHalf = kForm == Form::kSuperHalf || kForm == Form::kSuperHalfMin;
  static constexpr bool kMin = kForm == Form::kBlockMin || kForm == Form::kSuperMin || kForm == Form::kSuperHalfMin;
  static constexpr int kPlanes = 64 * kBits;                          // bytes of 32 columns x 16 rows of codes
  static constexpr int kHead = 32 * (kMin ? 2 : 1);                   // d, and dmin or m
  static constexpr int kSub = kSuperBlock ? (kHalf ? 256 : 128) : 0;  // sc of a super-block
  static constexpr int kSubs = kSub * (kMin && kSuperBlock ? 2 : 1);  // sc and m
  static constexpr int kBlocks = kSuperBlock ? 8 : 1;
  static constexpr int kBytes = kHead + kSubs + kBlocks * kPlanes;
};

// Register c of a block: the codes of columns 4c .. 4c + 3 for sixteen rows.
template <int kBits, int c>
inline B unpack(const std::byte* planes) {
  if constexpr (kBits == 8) {
    return b_load(planes + 64 * c);
  } else if constexpr (kBits == 2 || kBits == 3) {
    const B two = b_bits<2 * (c % 4)>(b_load(planes + 64 * (c / 4)), 3);
    if constexpr (kBits == 2) return two;
    return b_or(two, b_shl<2>(b_bits<c>(b_load(planes + 128), 1)));
  } else {
    const B four = b_bits<4 * (c % 2)>(b_load(planes + 64 * (c / 2)), 15);
    if constexpr (kBits == 4) return four;
    if constexpr (kBits == 5) return b_or(four, b_shl<4>(b_bits<c>(b_load(planes + 256), 1)));
    return b_or(four, b_shl<4>(b_bits<2 * (c % 4)>(b_load(planes + 256 + 64 * (c / 4)), 3)));
  }
}

template <int kBits, bool kLookup, bool kHalves, int kRows>
struct BlockDot {
  static constexpr bool kWide = kBits == 8 || kLookup;
  I low[kRows], high[kRows];  // kHalves: columns 0..15 and 16..31; else all in `low`

  template <int c>
  void step(const std::byte* planes, const uint8_t* table, const int8_t* const* a) {
    B codes = unpack<kBits, c>(planes);
    if constexpr (kLookup) codes = b_lookup(table, codes);
    for (int m = 0; m < kRows; ++m) {
      int32_t four;
      std::memcpy(&four, a[m] + 4 * c, 4);
      I& sum = kHalves && c >= 4 ? high[m] : low[m];
      sum = dot4<kWide>(sum, codes, four);
    }
  }
  void run(const std::byte* planes, const uint8_t* table, const int8_t* const* a) {
    for (int m = 0; m < kRows; ++m) low[m] = i_zero();
    if constexpr (kHalves) {
      for (int m = 0; m < kRows; ++m) high[m] = i_zero();
    }
    step<0>(planes, table, a);
    step<1>(planes, table, a);
    step<2>(planes, table, a);
    step<3>(planes, table, a);
    step<4>(planes, table, a);
    step<5>(planes, table, a);
    step<6>(planes, table, a);
    step<7>(planes, table, a);
  }
};

// The scales of a tile that apply to one block of 32.
template <class L, Form kForm, bool kE8M0>
struct BlockScale {
  F d, m;  // kBlock: d; kBlockMin: d, m; kSuper*: d * sc, dmin * m; kSuperHalf*: d, dmin
  I sc0, sc1, m0, m1;

  void load(const std::byte* block, int sub) {
    if constexpr (kE8M0) {
      d = f_bf16(block);  // powers of two are exact in bfloat16, subnormal ones too
    } else {
      d = f_half(block);
    }
    if constexpr (L::kMin) m = f_half(block + 32);
    const std::byte* sc = block + L::kHead;
    if constexpr (kForm == Form::kSuperMin) {
      d = f_mul(d, f_from(i_u8(sc + 16 * sub)));
      m = f_mul(m, f_from(i_u8(sc + L::kSub + 16 * sub)));
    } else if constexpr (kForm == Form::kSuper) {
      d = f_mul(d, f_from(i_s8(sc + 16 * sub)));
    } else if constexpr (kForm == Form::kSuperHalf) {
      sc0 = i_s8(sc + 32 * sub);
      sc1 = i_s8(sc + 32 * sub + 16);
    } else if constexpr (kForm == Form::kSuperHalfMin) {
      sc0 = i_u8(sc + 32 * sub);
      sc1 = i_u8(sc + 32 * sub + 16);
      m0 = i_u8(sc + L::kSub + 32 * sub);
      m1 = i_u8(sc + L::kSub + 32 * sub + 16);
    }
  }

  // acc + this block's part for one activation row, whose block has scale `a`.
  F apply_halves(F acc, I low, I high, int32_t zero, float a, const int32_t* sums) const {
    const int32_t s0 = sums[0], s1 = sums[1];
    const I left = i_mul(sc0, i_sub(low, i_set(zero * s0)));
    const I right = i_mul(sc1, i_sub(high, i_set(zero * s1)));
    acc = f_fma(f_from(i_add(left, right)), f_mul(d, f_set(a)), acc);
    if constexpr (kForm == Form::kSuperHalfMin) {
      const I least = i_add(i_mul(m0, i_set(s0)), i_mul(m1, i_set(s1)));
      acc = f_fnma(f_from(least), f_mul(m, f_set(a)), acc);
    }
    return acc;
  }
  // The same without halves: `total` is the sum of the block's codes and `shift` is a * total. Integers here stay
  // below 2^24, so taking zero * total off in float32 is exact.
  F apply(F acc, I dot, float zero, float a, float total, float shift) const {
    F sum = f_from(dot);
    if constexpr (kForm == Form::kBlock || kForm == Form::kSuper) sum = f_fnma(f_set(zero), f_set(total), sum);
    acc = f_fma(sum, f_mul(d, f_set(a)), acc);
    if constexpr (kForm == Form::kBlockMin) acc = f_fma(m, f_set(shift), acc);
    if constexpr (kForm == Form::kSuperMin) acc = f_fnma(m, f_set(shift), acc);
    return acc;
  }
};

template <Form kForm, int kBits, bool kLookup, bool kE8M0, int kRows>
inline void tile_rows(const Packed& w, const std::byte* tile, const QuantRows& x, int64_t m0, float* out,
                      int64_t stride) {
  using L = Layout<kForm, kBits, kE8M0>;
  const int64_t blocks = x.cols / kBlock;
  const int32_t zero = w.recipe->zero;
  const float zero_f = static_cast<float>(zero);
  const uint8_t* table = kLookup ? w.recipe->table.data() : nullptr;
  const quant::Pieces pieces = quant::k_pieces(w.cols, w.pieces);
  F total[kRows];
  for (int32_t piece = 0; piece < pieces.count; ++piece) {
    F acc[kRows];
    for (int m = 0; m < kRows; ++m) acc[m] = f_zero();
    const int64_t end = pieces.end(piece) / kBlock;
    for (int64_t b = pieces.begin(piece) / kBlock; b < end; ++b) {
      const std::byte* block = tile + b / L::kBlocks * L::kBytes;
      const int sub = static_cast<int>(b % L::kBlocks);
      const std::byte* planes = block + L::kHead + L::kSubs + sub * L::kPlanes;
      const int8_t* a[kRows];
      for (int m = 0; m < kRows; ++m) a[m] = x.codes + (m0 + m) * x.cols + b * kBlock;
      BlockDot<kBits, kLookup, L::kHalf, kRows> dot;
      dot.run(planes, table, a);
      BlockScale<L, kForm, kE8M0> scale;
      scale.load(block, sub);
      for (int m = 0; m < kRows; ++m) {
        const int64_t at = (m0 + m) * blocks + b;
        if constexpr (L::kHalf) {
          acc[m] = scale.apply_halves(acc[m], dot.low[m], dot.high[m], zero, x.scales[at], x.sums + at * 2);
        } else {
          acc[m] = scale.apply(acc[m], dot.low[m], zero_f, x.scales[at], x.totals[at], x.shifts[at]);
        }
      }
    }
    for (int m = 0; m < kRows; ++m) total[m] = piece == 0 ? acc[m] : f_add(total[m], acc[m]);
  }
  for (int m = 0; m < kRows; ++m) f_store(out + m * stride, total[m]);
}

template <Form kForm, int kBits, bool kLookup = false, bool kE8M0 = false>
void linear_form(const Packed& w, const QuantRows& x, int64_t first, int64_t last, float* out, int64_t stride) {
  for (int64_t t = first; t < last; ++t) {
    const std::byte* tile = w.tile(t);
    float* to = out + t * kTileRows;
    int64_t m = 0;
    for (; m + 8 <= x.rows; m += 8) tile_rows<kForm, kBits, kLookup, kE8M0, 8>(w, tile, x, m, to + m * stride, stride);
    for (; m + 4 <= x.rows; m += 4) tile_rows<kForm, kBits, kLookup, kE8M0, 4>(w, tile, x, m, to + m * stride, stride);
    for (; m < x.rows; ++m) tile_rows<kForm, kBits, kLookup, kE8M0, 1>(w, tile, x, m, to + m * stride, stride);
  }
}

template <Form kForm>
inline F dense_load(const std::byte* tile, int64_t k) {
  if constexpr (kForm == Form::kFloat32) return f_load(reinterpret_cast<const float*>(tile) + k * kTileRows);
  if constexpr (kForm == Form::kFloat16) return f_half(tile + k * kTileRows * 2);
  return f_bf16(tile + k * kTileRows * 2);
}

template <Form kForm, int kRows>
inline void dense_rows(const Packed& w, const std::byte* tile, const float* x, int64_t x_stride, float* out,
                       int64_t stride) {
  const quant::Pieces pieces = quant::k_pieces(w.cols, w.pieces);
  F total[kRows];
  for (int32_t piece = 0; piece < pieces.count; ++piece) {
    F acc[kRows];
    for (int m = 0; m < kRows; ++m) acc[m] = f_zero();
    const int64_t end = pieces.end(piece);
    for (int64_t k = pieces.begin(piece); k < end; ++k) {
      const F weights = dense_load<kForm>(tile, k);
      for (int m = 0; m < kRows; ++m) acc[m] = f_fma(weights, f_set(x[m * x_stride + k]), acc[m]);
    }
    for (int m = 0; m < kRows; ++m) total[m] = piece == 0 ? acc[m] : f_add(total[m], acc[m]);
  }
  for (int m = 0; m < kRows; ++m) f_store(out + m * stride, total[m]);
}

template <Form kForm>
void dense_form(const Packed& w, const float* x, int64_t x_stride, int64_t rows, int64_t first, int64_t last,
                float* out, int64_t stride) {
  for (int64_t t = first; t < last; ++t) {
    const std::byte* tile = w.tile(t);
    float* to = out + t * kTileRows;
    int64_t m = 0;
    for (; m + 8 <= rows; m += 8) dense_rows<kForm, 8>(w, tile, x + m * x_stride, x_stride, to + m * stride, stride);
    for (; m + 4 <= rows; m += 4) dense_rows<kForm, 4>(w, tile, x + m * x_stride, x_stride, to + m * stride, stride);
    for (; m < rows; ++m) dense_rows<kForm, 1>(w, tile, x + m * x_stride, x_stride, to + m * stride, stride);
  }
}

void linear_f(const Packed& w, const float* x, int64_t x_stride, int64_t rows, int64_t first, int64_t last,
              float* out, int64_t stride) {
  switch (w.recipe->form) {
    case Form::kFloat32:
      return dense_form<Form::kFloat32>(w, x, x_stride, rows, first, last, out, stride);
    case Form::kFloat16:
      return dense_form<Form::kFloat16>(w, x, x_stride, rows, first, last, out, stride);
    default:
      return dense_form<Form::kBFloat16>(w, x, x_stride, rows, first, last, out, stride);
  }
}

void linear_q(const Packed& w, const QuantRows& x, int64_t first, int64_t last, float* out, int64_t stride) {
  const Recipe& r = *w.recipe;
  switch (r.form) {
    case Form::kBlock:
      if (r.e8m0) return linear_form<Form::kBlock, 4, true, true>(w, x, first, last, out, stride);
      if (r.lookup) return linear_form<Form::kBlock, 4, true>(w, x, first, last, out, stride);
      if (r.bits == 8) return linear_form<Form::kBlock, 8>(w, x, first, last, out, stride);
      if (r.bits == 5) return linear_form<Form::kBlock, 5>(w, x, first, last, out, stride);
      return linear_form<Form::kBlock, 4>(w, x, first, last, out, stride);
    case Form::kBlockMin:
      if (r.bits == 5) return linear_form<Form::kBlockMin, 5>(w, x, first, last, out, stride);
      return linear_form<Form::kBlockMin, 4>(w, x, first, last, out, stride);
    case Form::kSuperMin:
      if (r.bits == 5) return linear_form<Form::kSuperMin, 5>(w, x, first, last, out, stride);
      return linear_form<Form::kSuperMin, 4>(w, x, first, last, out, stride);
    case Form::kSuper:
      return linear_form<Form::kSuper, 4, true>(w, x, first, last, out, stride);
    case Form::kSuperHalf:
      if (r.bits == 3) return linear_form<Form::kSuperHalf, 3>(w, x, first, last, out, stride);
      return linear_form<Form::kSuperHalf, 6>(w, x, first, last, out, stride);
    case Form::kSuperHalfMin:
      return linear_form<Form::kSuperHalfMin, 2>(w, x, first, last, out, stride);
    case Form::kFloat32:
    case Form::kFloat16:
    case Form::kBFloat16:
      return;
  }
}

}  // namespace
}  // namespace bora::cpu
