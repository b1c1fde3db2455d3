// The prefill kernel of sm_90a: 128 query rows of one kv head a block, wgmma, the tile kernel's bits.
//
//   warpgroup 0       producer: one warp streams K0 K1 V0 V1 (128 keys each) of every tile through a ring by
//   bulk copies of
//                     16 tokens; the cache is laid out as wgmma wants it
//   warpgroups 1, 2   64 rows each: S = Q K^T [64, 256] in registers, softmax, O_t = P V from zero with P in
//   registers,
//                     merge into O. One's softmax may run beside the other's products.
//
// Registers of a consumer thread: S 128 (then P 64 and O_t 64), O 64. Bytes moved: K and V once per block
// (from the L2 when the blocks of a sequence run together); q and out once. Keys at or beyond kv_len enter as
// zeros. Longest blocks start first.
#pragma once

#include "backend/cuda/kernels/attention/kv_layout.h"
#include "backend/cuda/kernels/attention/sm90_ptx.cuh"
#include "backend/cuda/kernels/attention/softmax.cuh"
#include "backend/cuda/kernels/attention/tile_params.h"
#include "backend/cuda/kernels/common/launch.cuh"

namespace bora::cuda {

template <typename T, int kD>
struct PrefillConfig {
  static constexpr int kThreads = 384;
  static constexpr int kRows = 128;
  static constexpr int kStageKeys = 128;
  static constexpr int kSlabs = kD / 64;
  static constexpr int kStageBytes = kStageKeys * kD * 2;
  static constexpr int kStages = 6;
  static constexpr int kQBytes = kRows * kD * 2;  // [warpgroup][slab][64 rows][128 bytes]
  static constexpr int kSmem = kQBytes + kStages * kStageBytes + kStages * 16 + 1024;
};

struct PrefillRange {
  int32_t length, limit, start, tile_begin, tile_end;
};

__device__ inline PrefillRange prefill_range(const AttentionParams& p, const AttentionPrefill& job) {
  PrefillRange r;
  r.length = p.kv_len[job.seq];
  r.limit = p.causal ? min(r.length, p.pos[job.token_begin + job.tokens - 1] + 1) : r.length;
  r.start = p.window > 0 ? max(0, p.pos[job.token_begin] - p.window + 1) : 0;
  r.tile_begin = r.start / kTileKeys;
  r.tile_end = (r.limit + kTileKeys - 1) / kTileKeys;
  return r;
}

// Keys [key0, key0 + 128) of K or V into a stage laid out like the cache; called by one warp.
template <int kD>
__device__ void produce_stage(const AttentionParams& p, const AttentionPrefill& job, const char* cache,
                              int32_t length, int32_t key0, char* stage, uint32_t full) {
  const int lane = threadIdx.x % 32;
  const int32_t block_tokens = 1 << p.block_shift;
  const int32_t* table = p.table + int64_t{job.seq} * p.table_stride;
  cache += blockIdx.x * kv_chunk_bytes(kD, block_tokens);
  const int present = min(max(length - key0, 0), 128);
  const int whole = present / 16;
  if (present < 128) {  // keys at or beyond the length become zeros
    for (int i = present * (kD / 8) + lane; i < 128 * (kD / 8); i += 32) {
      *reinterpret_cast<uint4*>(stage + kv_offset(kD, i / (kD / 8), i % (kD / 8) * 8)) = make_uint4(0, 0, 0, 0);
    }
    fence_async();
  }
  __syncwarp();
  if (lane == 0) barrier_arrive_expect(full, present * kD * 2);
  __syncwarp();
  const uint32_t to = ptx::shared_address(stage);
  const auto from = [&](int t) {
    const int32_t key = key0 + t;
    return cache + table[key >> p.block_shift] * p.block_stride + kv_offset(kD, key & (block_tokens - 1), 0);
  };
  if (lane < whole) {
    bulk_copy(to + lane * (16 * kD * 2), from(lane * 16), 16 * kD * 2, full);
  } else if (lane >= 16 && present % 16 != 0) {  // lanes 16 + (slab, eight): the last group's rows
    const int slab = (lane - 16) / 2, t = whole * 16 + lane % 2 * 8;
    const int rows = min(present - t, 8);
    if (slab < kD / 64 && rows > 0) {
      bulk_copy(to + static_cast<uint32_t>(kv_offset(kD, t, 0)) + slab * 1024, from(t) + slab * 1024, rows * 128,
                full);
    }
  }
}

template <typename T, int kD>
__global__ void __launch_bounds__(384, 1) prefill_kernel(const __grid_constant__ AttentionParams p) {
  using C = PrefillConfig<T, kD>;
  extern __shared__ char raw[];
  char* smem = raw + (1024 - (ptx::shared_address(raw) & 1023)) % 1024;
  char* ring = smem + C::kQBytes;
  const uint32_t full = ptx::shared_address(ring + C::kStages * C::kStageBytes), empty = full + C::kStages * 8;
  const int warpgroup = threadIdx.x / 128;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, 8);  // one arrival a consumer warp
    }
    fence_barrier_init();
  }
  __syncthreads();
  ptx::wait_for_producers();
  ptx::release_dependents();
  if (static_cast<int>(blockIdx.y) >= p.counts[2]) return;
  const AttentionPrefill job = p.prefill[blockIdx.y];
  const PrefillRange range = prefill_range(p, job);

  if (warpgroup == 0) {
    registers_down<24>();
    if (threadIdx.x < 32) {
      int slot = 0, parity = 1;
      for (int32_t tile = range.tile_begin; tile < range.tile_end; ++tile) {
        for (int i = 0; i < 4; ++i) {
          barrier_wait(empty + slot * 8, parity);
          produce_stage<kD>(p, job, i < 2 ? p.k : p.v, range.length, tile * kTileKeys + (i & 1) * 128,
                            ring + slot * C::kStageBytes, full + slot * 8);
          if (++slot == C::kStages) slot = 0, parity ^= 1;
        }
      }
    }
  } else {
    registers_up<240>();
    const int group = warpgroup - 1;
    const int rows = job.tokens * p.group;
    const int thread = threadIdx.x % 128;
    char* q_smem = smem + group * (64 * kD * 2);
    for (int i = thread; i < 64 * (kD / 8); i += 128) {
      const int r = i / (kD / 8), piece = i % (kD / 8), row = group * 64 + r;
      uint4 value = make_uint4(0, 0, 0, 0);
      if (row < rows) {
        value = *reinterpret_cast<const uint4*>(
            static_cast<const T*>(p.q) + (job.token_begin + row / p.group) * p.q_stride +
            int64_t{static_cast<int>(blockIdx.x) * p.group + row % p.group} * kD + piece * 8);
      }
      *reinterpret_cast<uint4*>(q_smem + piece / 8 * 8192 + r * 128 + ((piece % 8) ^ (r & 7)) * 16) = value;
    }
    fence_async();
    named_sync(1 + group, 128);
    int32_t begin[2], end[2];
    const int row0 = group * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row0 + h * 8;
      const int32_t at = r < rows ? p.pos[job.token_begin + r / p.group] : -1;
      begin[h] = p.window > 0 ? at - p.window + 1 : 0;
      end[h] = r >= rows ? 0 : p.causal ? min(at + 1, range.length) : range.length;
    }
    // Tiles in [free_begin, free_end) need no mask for any row of this warpgroup.
    const int32_t first_pos = p.pos[job.token_begin], last_pos = p.pos[job.token_begin + job.tokens - 1];
    const int32_t all_end = rows < (group + 1) * 64 ? 0 : p.causal ? min(first_pos + 1, range.length) : range.length;
    const int32_t all_begin = p.window > 0 ? last_pos - p.window + 1 : 0;

    float o[kD / 2];
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) o[i] = 0.0f;
    float m[2] = {BORA_NEG_INF, BORA_NEG_INF}, l[2] = {0.0f, 0.0f};
    const uint64_t q_matrix = wgmma_matrix(ptx::shared_address(q_smem), 0, 1024);
    const uint32_t ring_at = ptx::shared_address(ring);
    int slot = 0, parity = 0;

    for (int32_t tile = range.tile_begin; tile < range.tile_end; ++tile) {
      // S = Q K^T, two stages.
      float score[2][64];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = slot + half < C::kStages ? slot + half : slot + half - C::kStages;
        barrier_wait(full + at * 8, slot + half < C::kStages ? parity : parity ^ 1);
        pin(score[half]);
        wgmma_fence();
        const uint64_t k_matrix = wgmma_matrix(ring_at + at * C::kStageBytes, 0, kD * 16);
#pragma unroll
        for (int k = 0; k < kD / 16; ++k) {
          wgmma(score[half], q_matrix + (k / 4 * 8192 + k % 4 * 32) / 16, k_matrix + (k / 4 * 1024 + k % 4 * 32) / 16,
                k != 0, T());
        }
        wgmma_commit();
      }
      const bool masked = tile * kTileKeys < all_begin || (tile + 1) * kTileKeys > all_end;
      float top[2] = {BORA_NEG_INF, BORA_NEG_INF};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 0)
          wgmma_wait<1>();
        else
          wgmma_wait<0>();
        pin(score[half]);
        if (lane == 0) {
          const int at = slot + half < C::kStages ? slot + half : slot + half - C::kStages;
          barrier_arrive(empty + at * 8);
        }
        if (p.cap > 0) {
#pragma unroll
          for (int i = 0; i < 64; ++i) score[half][i] = softcapped(score[half][i], p.scale_over_cap, p.cap);
        }
        if (masked) {
#pragma unroll
          for (int i = 0; i < 64; ++i) {
            const int32_t key = tile * kTileKeys + half * 128 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            const int h = i / 2 % 2;
            if (key < begin[h] || key >= end[h]) score[half][i] = BORA_NEG_INF;
          }
        }
#pragma unroll
        for (int i = 0; i < 64; ++i) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], score[half][i]);
      }
      slot += 2;
      if (slot >= C::kStages) slot -= C::kStages, parity ^= 1;
      // P in the A layout of wgmma, 16 keys in 4 registers, and the chains of its sum.
      float tile_m[2], ref[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        tile_m[h] = scaled_max(top[h], p.log2_scale);
        ref[h] = finite_or_zero(tile_m[h]);
      }
      float chain[2][4] = {};
      uint32_t prob[64];
#pragma unroll
      for (int g = 0; g < 16; ++g) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int i = (g % 8 * 2 + n) * 4 + h * 2;
            const float x = probability(score[g / 8][i], p.log2_scale, ref[h]);
            const float y = probability(score[g / 8][i + 1], p.log2_scale, ref[h]);
            chain[h][g % 4] = __fadd_rn(__fadd_rn(chain[h][g % 4], x), y);
            prob[g * 4 + n * 2 + h] = pack2(x, y, T());
          }
        }
      }
      // O_t = P V, two stages.
      float tile_o[kD / 2];
      pin(tile_o);
      pin(prob);
      wgmma_fence();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = slot + half < C::kStages ? slot + half : slot + half - C::kStages;
        barrier_wait(full + at * 8, slot + half < C::kStages ? parity : parity ^ 1);
        const uint64_t v_matrix = wgmma_matrix(ring_at + at * C::kStageBytes, 1024, kD * 16);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          wgmma_values(tile_o, prob + (half * 8 + k) * 4, v_matrix + k * (16 * kD * 2) / 16, half + k != 0, T());
        }
        wgmma_commit();
      }
      float a[2], b[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float sum = __fadd_rn(__fadd_rn(__fadd_rn(chain[h][0], chain[h][1]), chain[h][2]), chain[h][3]);
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
        merge_factors(m[h], tile_m[h], a[h], b[h]);
        l[h] = merged(l[h], a[h], sum, b[h]);
      }
      wgmma_wait<0>();
      pin(tile_o);
      if (lane == 0) {
        barrier_arrive(empty + slot * 8);
        barrier_arrive(empty + (slot + 1 < C::kStages ? slot + 1 : 0) * 8);
      }
      slot += 2;
      if (slot >= C::kStages) slot -= C::kStages, parity ^= 1;
#pragma unroll
      for (int i = 0; i < kD / 2; ++i) o[i] = merged(o[i], a[i / 2 % 2], tile_o[i], b[i / 2 % 2]);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row0 + h * 8;
      if (r >= rows) continue;
      const int head = blockIdx.x * p.group + r % p.group;
      const float factor = final_factor(m[h], l[h], p.sinks != nullptr ? p.sinks[head] : BORA_NEG_INF);
      T* out = static_cast<T*>(p.out) + (job.token_begin + r / p.group) * p.out_stride + int64_t{head} * kD;
#pragma unroll
      for (int j = 0; j < kD / 8; ++j) {
        *reinterpret_cast<uint32_t*>(out + j * 8 + lane % 4 * 2) =
            pack2(__fmul_rn(o[j * 4 + h * 2], factor), __fmul_rn(o[j * 4 + h * 2 + 1], factor), T());
      }
    }
  }
}

template <typename T, int kD>
Status launch_prefill(const AttentionParams& p, int32_t blocks, const LaunchOn& on) {
  using C = PrefillConfig<T, kD>;
  return launch("attention prefill_kernel", prefill_kernel<T, kD>,
                Grid{dim3(p.kv_heads, blocks), dim3(C::kThreads), C::kSmem}, on, p);
}

}  // namespace bora::cuda
