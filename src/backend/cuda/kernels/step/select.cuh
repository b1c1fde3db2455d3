// Selection of the most likely tokens of one row by one block of 1024 threads.
//
// Fast way (k <= 1024): the k-th largest of the 1024 threads' own maxima is not above the k-th largest logit;
// what reaches it (about k tokens) goes to shared memory and is sorted. A row with more than kCandidates such
// tokens (many equal logits) takes the general way: a descent over the 64-bit order key, 8 bits at a time, by
// histograms of counts or of masses. Masses are integers, so every sum is exact in any order.
#pragma once

#include "backend/cuda/kernels/step/order.cuh"
#include "backend/cuda/kernels/step/vector.cuh"

namespace bora::cuda {

inline constexpr int kSelectThreads = 1024;
inline constexpr int kCandidates = 4096;

struct SelectShared {
  uint64_t key[kCandidates];
  uint64_t scratch[32];
  uint64_t sum[kSelectThreads / 32];
  uint32_t high[256], low[256];
  int count;
  uint64_t rest;
};

// Calls f(value, index) for this thread's tokens, in groups of 4 consecutive ones. 8 loads are in flight
// before the first use.
template <typename F>
__device__ __forceinline__ void each_logit(const float* row, int vocab, const F& f) {
  constexpr int kBatch = 8;
  const int whole = vocab & ~3;
  for (int base = threadIdx.x * 4; base < whole; base += kBatch * kSelectThreads * 4) {
    float4 x[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = base + i * kSelectThreads * 4;
      if (at < whole) x[i] = *reinterpret_cast<const float4*>(row + at);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = base + i * kSelectThreads * 4;
      if (at < whole) f(x[i].x, at), f(x[i].y, at + 1), f(x[i].z, at + 2), f(x[i].w, at + 3);
    }
  }
  const int tail = whole + static_cast<int>(threadIdx.x);
  if (tail < vocab) f(row[tail], tail);
}

// round(2^27 e^((x - top) / T)): 2^27 for the most likely token.
__device__ __forceinline__ uint32_t mass_of(float x, float top, float inverse_t) {
  const float e = exp2f(__fmul_rn(__fmul_rn(__fsub_rn(x, top), inverse_t), kLog2e));
  return e > 0.0f ? static_cast<uint32_t>(__float2uint_rn(e * 0x1p27f)) : 0u;
}

// Sorts the first `size` keys (a power of two) descending.
__device__ inline void sort_keys(uint64_t* key, int size) {
  for (int k = 2; k <= size; k *= 2) {
    for (int j = k / 2; j > 0; j /= 2) {
      for (int i = threadIdx.x; i < size; i += kSelectThreads) {
        const int other = i ^ j;
        if (other > i) {
          const uint64_t a = key[i], b = key[other];
          if ((a < b) == ((i & k) == 0)) key[i] = b, key[other] = a;
        }
      }
      __syncthreads();
    }
  }
}

// The tokens that can be among the first k, sorted, in shared.key; returns their number, or -1 if they do not
// fit.
__device__ inline int candidates(const float* row, int vocab, int k, SelectShared& s) {
  float best = __int_as_float(0xff800000);
  each_logit(row, vocab, [&](float x, int) { best = fmaxf(best, x); });
  const uint32_t mine = ordered(best);
  uint32_t bound = 0;  // the k-th largest of the maxima, bit by bit
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t trial = bound | 1u << bit;
    if (__syncthreads_count(mine >= trial) >= k) bound = trial;
  }
  if (threadIdx.x == 0) s.count = 0;
  __syncthreads();
  each_logit(row, vocab, [&](float x, int i) {
    if (ordered(x) < bound) return;
    const int at = atomicAdd(&s.count, 1);
    if (at < kCandidates) s.key[at] = order_key(x, i);
  });
  __syncthreads();
  const int count = s.count;
  if (count > kCandidates) return -1;
  int size = 32;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kSelectThreads) s.key[i] = 0;
  __syncthreads();
  sort_keys(s.key, size);
  return count;
}

// The key of the first token in order at which the weights of tokens with key >= limit, summed in order,
// reach `target`
// (> 0); `limit` itself if they never do. weight(value) is an integer of at most 2^27.
template <typename W>
__device__ uint64_t descend(const float* row, int vocab, uint64_t limit, uint64_t target, const W& weight,
                            SelectShared& s) {
  uint64_t prefix = 0;
  if (threadIdx.x == 0) s.rest = target;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kSelectThreads) s.high[i] = s.low[i] = 0;
    __syncthreads();
    each_logit(row, vocab, [&](float x, int i) {
      const uint64_t key = order_key(x, i);
      if (key < limit || (shift < 56 && (key >> (shift + 8)) != prefix)) return;
      const uint32_t w = weight(x);
      if (w == 0) return;
      const int bin = static_cast<int>(key >> shift & 255);
      if (w >> 14 != 0) atomicAdd(&s.high[bin], w >> 14);
      if ((w & 0x3fff) != 0) atomicAdd(&s.low[bin], w & 0x3fff);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t rest = s.rest;
      int bin = 255;
      for (; bin >= 0; --bin) {
        const uint64_t in = (static_cast<uint64_t>(s.high[bin]) << 14) + s.low[bin];
        if (in >= rest) break;
        rest -= in;
      }
      s.rest = rest;
      s.count = bin;
    }
    __syncthreads();
    if (s.count < 0) return limit;
    prefix = prefix << 8 | static_cast<uint64_t>(s.count);
  }
  __syncthreads();
  return prefix;
}

// Sum over the block of integers: exact in any order.
__device__ inline uint64_t block_sum(uint64_t x, SelectShared& s) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  if (threadIdx.x % 32 == 0) s.sum[threadIdx.x / 32] = x;
  __syncthreads();
  x = s.sum[threadIdx.x % 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  __syncthreads();
  return x;
}

}  // namespace bora::cuda
