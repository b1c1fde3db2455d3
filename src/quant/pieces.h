// The canonical cut of K: which products are summed with which, for every linear of every backend.
//
// A dot product over K is computed as a few *pieces*, each summed in ascending k from a zero accumulator, and the
// piece sums are added in ascending order. Where pieces begin depends on K and on the weight's scheme only, never on
// the batch, the device or the number of threads, so that a row has the same bits alone, batched, in prefill and in
// verification. Who computes a piece is free; where it begins is not. A tensor-parallel split of K must use these
// borders.
//
//   unit   = lcm(scheme group, 16), and 128 for FP8 (its accumulators are promoted to float32 every 128 of K)
//   pieces = the largest of 8, 4, 2, 1 not above the number of units (a last short unit counts as one)
//   every piece has floor(units / pieces) units; the first (units mod pieces) pieces are one unit longer
//
// Plain integers and constexpr: host code of any backend and device code both include this header.
#pragma once

#include <cstdint>

namespace bora::quant {

// What the cut needs to know of a scheme: `group` weights of a row share a scale (1 = none), `fp8` = e4m3 or e5m2
// codes.
struct PieceRule {
  int32_t group = 1;
  bool fp8 = false;
};

struct Pieces {
  int64_t k = 0;      // length of the dot product
  int32_t unit = 16;  // borders are multiples of this
  int32_t count = 1;  // 1, 2, 4 or 8
  int64_t units = 0;  // ceil(k / unit)

  // First k of piece i, 0 <= i <= count; begin(count) == k.
  constexpr int64_t begin(int32_t i) const {
    const int64_t base = units / count;
    const int64_t longer = units % count;
    const int64_t at = (base * i + (i < longer ? i : longer)) * unit;
    return at < k ? at : k;
  }
  constexpr int64_t end(int32_t i) const { return begin(i + 1); }

  // True when k0 may be a border of a split over ranks.
  constexpr bool is_border(int64_t k0) const {
    for (int32_t i = 0; i <= count; ++i) {
      if (begin(i) == k0) return true;
    }
    return false;
  }
};

constexpr int32_t piece_unit(PieceRule rule) {
  int32_t group = rule.group > 0 ? rule.group : 1;
  int32_t a = group, b = 16;
  while (b != 0) {
    const int32_t r = a % b;
    a = b;
    b = r;
  }
  const int32_t unit = group / a * 16;
  if (!rule.fp8) return unit;
  int32_t c = unit, d = 128;
  while (d != 0) {
    const int32_t r = c % d;
    c = d;
    d = r;
  }
  return unit / c * 128;
}

// REQUIRES: k >= 0. k = 0 gives one empty piece.
constexpr Pieces k_pieces(int64_t k, PieceRule rule) {
  Pieces p;
  p.k = k;
  p.unit = piece_unit(rule);
  p.units = (k + p.unit - 1) / p.unit;
  p.count = 1;
  while (p.count < 8 && int64_t{p.count} * 2 <= p.units) p.count *= 2;
  return p;
}

}  // namespace bora::quant
