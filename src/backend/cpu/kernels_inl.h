// All kernels but the linears, written once over sixteen lanes; the file that includes this brings the lanes and then
// the table.
#pragma once

#include <cfloat>
#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/linear_inl.h"

namespace bora::cpu {
namespace {

// exp by 2^n * e^r with |r| <= ln2 / 2 and the Taylor polynomial of degree 7: relative error below 2e-7. Below -87
// gives e^-87.
inline F f_exp(F x) {
  x = f_min(f_max(x, f_set(-87.0f)), f_set(88.0f));
  const I n = i_round(f_mul(x, f_set(1.44269504088896341f)));
  const F nf = f_from(n);
  F r = f_fnma(nf, f_set(0.693359375f), x);
  r = f_fnma(nf, f_set(-2.12194440e-4f), r);
  F p = f_set(1.0f / 5040.0f);
  p = f_fma(p, r, f_set(1.0f / 720.0f));
  p = f_fma(p, r, f_set(1.0f / 120.0f));
  p = f_fma(p, r, f_set(1.0f / 24.0f));
  p = f_fma(p, r, f_set(1.0f / 6.0f));
  p = f_fma(p, r, f_set(0.5f));
  p = f_fma(p, r, f_set(1.0f));
  p = f_fma(p, r, f_set(1.0f));
  return f_mul(p, f_exp2i(n));
}

// Applies f to sixteen elements at a time; a short end goes through a buffer of zeros.
template <typename Fn>
inline void each16(int64_t n, const float* a, const float* b, float* out, Fn f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f_store(out + i, f(f_load(a + i), f_load(b + i)));
  if (i == n) return;
  float ta[16] = {}, tb[16] = {}, to[16];
  for (int64_t j = i; j < n; ++j) {
    ta[j - i] = a[j];
    tb[j - i] = b[j];
  }
  f_store(to, f(f_load(ta), f_load(tb)));
  for (int64_t j = i; j < n; ++j) out[j] = to[j - i];
}

inline F load_short(const float* x, int64_t left) {
  if (left >= 16) return f_load(x);
  float t[16] = {};
  for (int64_t i = 0; i < left; ++i) t[i] = x[i];
  return f_load(t);
}

void quantize(const float* x, int64_t stride, int64_t row, QuantRows* out) {
  const float* from = x + row * stride;
  int8_t* codes = out->codes + row * out->cols;
  const int64_t blocks = out->cols / kBlock;
  for (int64_t b = 0; b < blocks; ++b) {
    const F low = f_load(from + b * kBlock), high = f_load(from + b * kBlock + 16);
    const float most = f_max_all(f_max(f_abs(low), f_abs(high)));
    const float scale = most / 127.0f;
    const float inverse = most > 0 ? 127.0f / most : 0.0f;
    const I l = i_round(f_mul(low, f_set(inverse))), h = i_round(f_mul(high, f_set(inverse)));
    i_store_s8(codes + b * kBlock, l);
    i_store_s8(codes + b * kBlock + 16, h);
    const int64_t at = row * blocks + b;
    const int32_t left = i_sum(l), right = i_sum(h);
    out->scales[at] = scale;
    out->sums[at * 2] = left;
    out->sums[at * 2 + 1] = right;
    out->totals[at] = static_cast<float>(left + right);
    out->shifts[at] = scale * out->totals[at];
  }
}

void rms_norm(const float* x, const float* weight, float plus, float eps, int64_t n, float* out) {
  F squares = f_zero();
  for (int64_t i = 0; i < n; i += 16) {
    const F v = load_short(x + i, n - i);
    squares = f_fma(v, v, squares);
  }
  const float inverse = 1.0f / std::sqrt(f_sum(squares) / static_cast<float>(n) + eps);
  if (weight == nullptr) {
    each16(n, x, x, out, [inverse](F a, F) { return f_mul(a, f_set(inverse)); });
    return;
  }
  each16(n, x, weight, out,
         [inverse, plus](F a, F w) { return f_mul(f_mul(a, f_set(inverse)), f_add(w, f_set(plus))); });
}

void add(const float* a, const float* b, int64_t n, float* out) {
  each16(n, a, b, out, [](F x, F y) { return f_add(x, y); });
}

void scale(const float* a, float factor, int64_t n, float* out) {
  each16(n, a, a, out, [factor](F x, F) { return f_mul(x, f_set(factor)); });
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  each16(n, gate, up, out, [](F g, F u) {
    const F sigmoid = f_div(f_set(1.0f), f_add(f_set(1.0f), f_exp(f_sub(f_zero(), g))));
    return f_mul(f_mul(g, sigmoid), u);
  });
}

// 0.5 x (1 + tanh(y)) = x / (1 + exp(-2y)), y = sqrt(2 / pi) (x + 0.044715 x^3).
void gelu_tanh_mul(const float* gate, const float* up, int64_t n, float* out) {
  each16(n, gate, up, out, [](F g, F u) {
    const F cube = f_mul(f_mul(g, g), f_mul(g, f_set(0.044715f)));
    const F y = f_mul(f_set(-2.0f * 0.79788456080286536f), f_add(g, cube));
    return f_mul(f_div(g, f_add(f_set(1.0f), f_exp(y))), u);
  });
}

template <KvType kType>
inline F kv_load(const std::byte* p, int64_t element) {
  if constexpr (kType == KvType::kF32) return f_load(reinterpret_cast<const float*>(p) + element);
  if constexpr (kType == KvType::kF16) return f_half(p + element * 2);
  return f_bf16(p + element * 2);
}

// cap * tanh(x / cap) = cap * (1 - 2 / (1 + exp(2 x / cap))).
inline F soft_cap(F x, float cap) {
  const F e = f_exp(f_mul(x, f_set(2.0f / cap)));
  return f_mul(f_set(cap), f_sub(f_set(1.0f), f_div(f_set(2.0f), f_add(f_set(1.0f), e))));
}

// A head's width in the cache: whole vectors.
inline int64_t padded(int32_t head_dim) { return (int64_t{head_dim} + 15) / 16 * 16; }

// The first `left` lanes; the neighbours of a short end belong to somebody else.
inline void store_short(float* to, F v, int64_t left) {
  if (left >= 16) return f_store(to, v);
  float t[16];
  f_store(t, v);
  for (int64_t i = 0; i < left; ++i) to[i] = t[i];
}

constexpr int kHeadsAtOnce = 4;

// Chains of multiply-adds that run side by side hide each other's latency; which chains share registers changes no
// sum.
template <int kHeads>
constexpr int kChains = kSums / kHeads > 1 ? kSums / kHeads : 1;

// Scores of kBlocks blocks of 16 keys from `key` on.
template <KvType kType, int kHeads, int kBlocks>
inline void block_scores(const AttentionArgs& a, int32_t kv_head, const float* q, int32_t base, int32_t key,
                         int32_t first, int32_t last) {
  const int64_t head_bytes = padded(a.head_dim) * kKvBlock * (kType == KvType::kF32 ? 4 : 2);
  const std::byte* k[kBlocks];
  F s[kBlocks][kHeads];
  for (int b = 0; b < kBlocks; ++b) {
    k[b] = a.k + a.table[key / kKvBlock + b] * a.block_stride + kv_head * head_bytes;
    for (int h = 0; h < kHeads; ++h) s[b][h] = f_zero();
  }
  for (int32_t d = 0; d < a.head_dim; ++d) {
    F column[kBlocks];
    for (int b = 0; b < kBlocks; ++b) column[b] = kv_load<kType>(k[b], int64_t{d} * kKvBlock);
    for (int h = 0; h < kHeads; ++h) {
      const F one = f_set(q[h * a.head_dim + d]);
      for (int b = 0; b < kBlocks; ++b) s[b][h] = f_fma(column[b], one, s[b][h]);
    }
  }
  for (int b = 0; b < kBlocks; ++b, key += kKvBlock) {
    for (int h = 0; h < kHeads; ++h) {
      F v = f_mul(s[b][h], f_set(a.scale));
      if (a.softcap > 0) v = soft_cap(v, a.softcap);
      float* to = a.scratch + h * kKeyTile + (key - base);
      f_store(to, f_keep(v, last - key, -FLT_MAX));
      for (int32_t i = key; i < first && i < key + kKvBlock; ++i) to[i - key] = -FLT_MAX;
    }
  }
}

// One tile of keys [first, last) for kHeads query heads; scores to scratch[h * 256 + key - base].
template <KvType kType, int kHeads>
inline void tile_scores(const AttentionArgs& a, int32_t kv_head, const float* q, int32_t base, int32_t first,
                        int32_t last) {
  constexpr int kMany = kChains<kHeads>;
  int32_t key = first / kKvBlock * kKvBlock;
  for (; key + (kMany - 1) * kKvBlock < last; key += kMany * kKvBlock)
    block_scores<kType, kHeads, kMany>(a, kv_head, q, base, key, first, last);
  for (; key < last; key += kKvBlock) block_scores<kType, kHeads, 1>(a, kv_head, q, base, key, first, last);
}

// Scores to weights exp(s - max) and their sum; keys outside [first, last) weigh exactly nothing.
inline void tile_weights(float* s, int32_t base, int32_t first, int32_t last, float* most, float* sum) {
  const int32_t from = first / kKvBlock * kKvBlock;
  F top = f_set(-FLT_MAX);
  for (int32_t key = from; key < last; key += kKvBlock) top = f_max(top, f_load(s + key - base));
  *most = f_max_all(top);
  F total = f_zero();
  for (int32_t key = from; key < last; key += kKvBlock) {
    float* at = s + key - base;
    F w = f_keep(f_exp(f_sub(f_load(at), f_set(*most))), last - key, 0.0f);
    if (key < first) {
      f_store(at, w);
      for (int32_t i = key; i < first && i < key + kKvBlock; ++i) at[i - key] = 0.0f;
      w = f_load(at);
    }
    f_store(at, w);
    total = f_add(total, w);
  }
  *sum = f_sum(total);
}

// out[h] = out[h] * keep[h] + (weights x values) * take[h] for kVecs vectors of dimensions from `d` on.
template <KvType kType, int kHeads, int kVecs>
inline void dim_values(const AttentionArgs& a, int32_t kv_head, int32_t base, int32_t first, int32_t last, int32_t d,
                       const float* keep, const float* take, float* out) {
  const int64_t width = padded(a.head_dim), head_bytes = width * kKvBlock * (kType == KvType::kF32 ? 4 : 2);
  F acc[kVecs][kHeads];
  for (int i = 0; i < kVecs; ++i) {
    for (int h = 0; h < kHeads; ++h) acc[i][h] = f_zero();
  }
  int32_t key = first;
  while (key < last) {
    const std::byte* v = a.v + a.table[key / kKvBlock] * a.block_stride + kv_head * head_bytes;
    const int32_t stop = last < (key / kKvBlock + 1) * kKvBlock ? last : (key / kKvBlock + 1) * kKvBlock;
    for (; key < stop; ++key) {
      F value[kVecs];
      for (int i = 0; i < kVecs; ++i) value[i] = kv_load<kType>(v, key % kKvBlock * width + d + 16 * i);
      for (int h = 0; h < kHeads; ++h) {
        const F weight = f_set(a.scratch[h * kKeyTile + key - base]);
        for (int i = 0; i < kVecs; ++i) acc[i][h] = f_fma(value[i], weight, acc[i][h]);
      }
    }
  }
  for (int i = 0; i < kVecs; ++i, d += 16) {
    for (int h = 0; h < kHeads; ++h) {
      float* to = out + h * a.head_dim + d;
      const int64_t left = a.head_dim - d;
      store_short(to, f_fma(acc[i][h], f_set(take[h]), f_mul(load_short(to, left), f_set(keep[h]))), left);
    }
  }
}

template <KvType kType, int kHeads>
inline void tile_values(const AttentionArgs& a, int32_t kv_head, int32_t base, int32_t first, int32_t last,
                        const float* keep, const float* take, float* out) {
  constexpr int kMany = kChains<kHeads>;
  int32_t d = 0;
  for (; d + kMany * 16 <= padded(a.head_dim); d += kMany * 16)
    dim_values<kType, kHeads, kMany>(a, kv_head, base, first, last, d, keep, take, out);
  for (; d < a.head_dim; d += 16) dim_values<kType, kHeads, 1>(a, kv_head, base, first, last, d, keep, take, out);
}

inline float exp1(float x) {
  float t[16];
  f_store(t, f_exp(f_set(x)));
  return t[0];
}

template <KvType kType, int kHeads>
inline void attend(const AttentionArgs& a, int32_t kv_head, int32_t head) {
  const float* q = a.q + int64_t{head} * a.head_dim;
  float* out = a.out + int64_t{head} * a.head_dim;
  float most[kHeads] = {}, sum[kHeads] = {};
  for (int64_t i = 0; i < int64_t{kHeads} * a.head_dim; ++i) out[i] = 0;
  bool fresh = true;
  for (int32_t base = a.begin / kKeyTile * kKeyTile; base < a.end; base += kKeyTile) {
    const int32_t first = base > a.begin ? base : a.begin;
    const int32_t last = base + kKeyTile < a.end ? base + kKeyTile : a.end;
    tile_scores<kType, kHeads>(a, kv_head, q, base, first, last);
    float keep[kHeads], take[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      float tile_most, tile_sum;
      tile_weights(a.scratch + h * kKeyTile, base, first, last, &tile_most, &tile_sum);
      if (fresh) {
        keep[h] = 0.0f;
        take[h] = 1.0f;
        most[h] = tile_most;
        sum[h] = tile_sum;
        continue;
      }
      const float both = most[h] > tile_most ? most[h] : tile_most;
      keep[h] = most[h] == both ? 1.0f : exp1(most[h] - both);
      take[h] = tile_most == both ? 1.0f : exp1(tile_most - both);
      sum[h] = std::fma(tile_sum, take[h], sum[h] * keep[h]);
      most[h] = both;
    }
    tile_values<kType, kHeads>(a, kv_head, base, first, last, keep, take, out);
    fresh = false;
  }
  for (int h = 0; h < kHeads; ++h) {
    const F inverse = f_set(1.0f / sum[h]);
    for (int32_t d = 0; d < a.head_dim; d += 16) {
      float* to = out + h * a.head_dim + d;
      store_short(to, f_mul(load_short(to, a.head_dim - d), inverse), a.head_dim - d);
    }
  }
}

template <KvType kType>
void attend_heads(const AttentionArgs& a, int32_t first, int32_t last) {
  for (int32_t head = first; head < last;) {
    const int32_t kv_head = head / a.group;
    const int32_t left = ((kv_head + 1) * a.group < last ? (kv_head + 1) * a.group : last) - head;
    if (left >= kHeadsAtOnce) {
      attend<kType, 4>(a, kv_head, head);
    } else if (left == 3) {
      attend<kType, 3>(a, kv_head, head);
    } else if (left == 2) {
      attend<kType, 2>(a, kv_head, head);
    } else {
      attend<kType, 1>(a, kv_head, head);
    }
    head += left < kHeadsAtOnce ? left : kHeadsAtOnce;
  }
}

void attention(const AttentionArgs& a, int32_t first, int32_t last) {
  if (a.type == KvType::kF32) return attend_heads<KvType::kF32>(a, first, last);
  if (a.type == KvType::kF16) return attend_heads<KvType::kF16>(a, first, last);
  attend_heads<KvType::kBF16>(a, first, last);
}

inline uint16_t to_bf16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

void store_kv(const float* x, int64_t n, KvType type, int64_t stride, std::byte* out) {
  if (type == KvType::kF32) {
    float* to = reinterpret_cast<float*>(out);
    for (int64_t i = 0; i < n; ++i) to[i * stride] = x[i];
    return;
  }
  uint16_t* to = reinterpret_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; i += 16) {
    uint16_t h[16];
    const int64_t count = n - i < 16 ? n - i : 16;
    if (type == KvType::kF16) {
      f_store_half(h, load_short(x + i, n - i));
    } else {
      for (int64_t j = 0; j < count; ++j) h[j] = to_bf16(x[i + j]);
    }
    for (int64_t j = 0; j < count; ++j) to[(i + j) * stride] = h[j];
  }
}

}  // namespace
}  // namespace bora::cpu
