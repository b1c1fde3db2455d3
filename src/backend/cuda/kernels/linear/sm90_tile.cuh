// The tile form (sm_90a): 128 rows of W times 8 to 192 tokens a thread block, on wgmma, from one token to prefill.
//
// Weights lie on the 64-row side and go through registers: a warp's share of a wgmma's operand is the 16-row operand of
// mma.sync, so the packed layout serves both forms and codes are expanded on the way. A producer warp fills a ring of
// blocks of K: weights by bulk copies (a row tile's block is one run of bytes), x by TMA in 128-byte swizzle. Two
// warpgroups of 64 rows each consume.
//
// Work is a line of units (tile, piece of K), a run of it a thread block, so that every multiprocessor reads the same
// share of the weights. The block that holds piece 0 of a tile finishes it: it adds the pieces that blocks further on
// have published in the workspace, in ascending order. Blocks are numbered from the end of the line, so that one
// waits only for blocks of lower index, which started before it. With many tiles whole tiles are dealt and nothing is
// shared.
//
// Same bits as the flat form: ascending k16 steps from zero within a piece, groups scaled in float32, pieces added
// ascending.
#pragma once

#include <cuda.h>

#include <utility>

#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/linear/dequant.cuh"
#include "backend/cuda/kernels/linear/output.cuh"
#include "backend/cuda/kernels/linear/sm90_ptx.cuh"
#include "backend/cuda/kernels/linear/sm90_table.h"
#include "backend/cuda/kernels/linear/tile_params.h"

namespace bora::cuda {

template <class Format, int kTokenColumns, typename Type>
struct TileConfig {
  using T = Type;
  static constexpr LinearFormat format = Format::format;
  static constexpr int tokens = kTokenColumns;
  static constexpr int stages = tile_stages(format, tokens);
  static constexpr int x_bytes = tile_x_bytes(format, tokens);
  static constexpr int weight_bytes = kTileRowTiles * format.block_bytes();
  static constexpr int slot_bytes = x_bytes + weight_bytes;
};

// Where a thread block stands on its run of units.
struct TileCursor {
  int tile, piece, left;

  __device__ explicit TileCursor(const TileParams& p, int place) {
    if (p.tile_step > 0) {
      tile = place, piece = 0;
      left = (p.tiles - place + p.tile_step - 1) / p.tile_step * p.pieces;
    } else {
      const int first = place * p.run + min(place, p.longer_runs);
      tile = first / p.pieces, piece = first % p.pieces;
      left = p.run + (place < p.longer_runs ? 1 : 0);
    }
  }
  __device__ void next(const TileParams& p) {
    --left;
    if (++piece == p.pieces) piece = 0, tile += p.tile_step > 0 ? p.tile_step : 1;
  }
};

template <class C>
struct TileWork {
  using T = typename C::T;
  static constexpr LinearFormat kF = C::format;
  static constexpr bool kPromote = kF.codes != Codes::k16;
  static constexpr int kSums = C::tokens / 2;
  static constexpr int kBatches = kF.block_k() / 32;  // of two k16 steps
  static constexpr int kChunkSteps = kF.codes == Codes::k16 ? 1 : kF.codes == Codes::kInt4 ? 4 : 2;
  static constexpr int kGroupBatches = kF.group > 0 ? kF.group / 32 : 4;  // between promotions

  float acc[kSums];
  float part[kPromote ? kSums : 1];
  uint32_t zero[2];
  uint32_t operand[2][2][4];

  __device__ __forceinline__ void promote(const uint8_t* block, int group, int lane) {
    const uint8_t* side = block + kF.code_bytes();
    float low = 1.f, high = 1.f;
    if constexpr (kF.group > 0) {
      const __half* s = reinterpret_cast<const __half*>(side) + group * 16;
      low = __half2float(s[lane / 4]);
      high = __half2float(s[lane / 4 + 8]);
    } else if constexpr (kF.block_scale) {
      low = high = *reinterpret_cast<const float*>(side);
    }
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      acc[i] = fmaf(low, part[i], acc[i]);
      acc[i + 1] = fmaf(low, part[i + 1], acc[i + 1]);
      acc[i + 2] = fmaf(high, part[i + 2], acc[i + 2]);
      acc[i + 3] = fmaf(high, part[i + 3], acc[i + 3]);
    }
  }

  template <int kStep>
  __device__ __forceinline__ void expand(const uint8_t* block, uint4& q, int lane, uint32_t (&a)[4]) {
    if constexpr (kStep % kChunkSteps == 0) {
      q = *reinterpret_cast<const uint4*>(block + kStep / kChunkSteps * 512 + lane * 16);
    }
    Dequant<kF.codes, T>::template run<kStep % kChunkSteps>(q, zero, a);
  }

  template <int kBatch>
  __device__ __forceinline__ void batch(const uint8_t* block, uint64_t x, uint4& q, int fresh, int lane) {
    constexpr int kInGroup = kPromote ? kBatch % kGroupBatches : kBatch;
    constexpr int kGroup = kBatch / kGroupBatches;
    if constexpr (kF.codes == Codes::kInt4 && kInGroup == 0) {
      if constexpr (kF.zeros) {
        const uint16_t* z =
            reinterpret_cast<const uint16_t*>(block + kF.code_bytes() + kF.groups() * 32) + kGroup * 16;
        zero[0] = z[lane / 4] * 0x10001u;
        zero[1] = z[lane / 4 + 8] * 0x10001u;
      } else {
        zero[0] = zero[1] = 0x43084308u;
      }
    }
    if constexpr (kInGroup >= 2) ptx::wgmma_wait<1>();  // who reads these operand registers has ended
    auto& a = operand[kBatch % 2];
    expand<2 * kBatch>(block, q, lane, a[0]);
    expand<2 * kBatch + 1>(block, q, lane, a[1]);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      constexpr int kTile = kBatch / 2 * C::tokens * 128 / 16;  // 64 columns of x
      const uint64_t b = x + kTile + ((kBatch % 2) * 64 + i * 32) / 16;
      if constexpr (kPromote)
        ptx::Wgmma<T, C::tokens>::run(part, a[i], b, kInGroup > 0 || i > 0);
      else
        ptx::Wgmma<T, C::tokens>::run(acc, a[i], b, kBatch == 0 && i == 0 ? fresh == 0 : 1);
    }
    ptx::wgmma_commit();
    if constexpr (kPromote && kInGroup == kGroupBatches - 1) {
      ptx::wgmma_wait<0>();
      ptx::pin(part);
      promote(block, kGroup, lane);
    }
  }

  template <int... kBatch>
  __device__ __forceinline__ void run_batches(const uint8_t* block, uint64_t x, int fresh, int lane,
                                              std::integer_sequence<int, kBatch...>) {
    uint4 q;
    (batch<kBatch>(block, x, q, fresh, lane), ...);
    if constexpr (!kPromote) {
      ptx::wgmma_wait<0>();
      ptx::pin(acc);
    }
  }

  // One block of K. `fresh`: the first of a piece.
  __device__ __forceinline__ void consume(const uint8_t* block, uint64_t x, int fresh, int lane) {
    run_batches(block, x, fresh, lane, std::make_integer_sequence<int, kBatches>{});
  }
};

// Columns from `valid` on belong to the next piece: they become zeros, as the weights there are.
template <class C>
__device__ __forceinline__ void clear_columns(uint8_t* x, int valid) {
  const int vectors = C::format.block_k() / 8;
  for (int i = static_cast<int>(threadIdx.x); i < C::tokens * vectors; i += 256) {
    const int token = i / vectors, vector = i % vectors;
    if (vector * 8 < valid) continue;
    uint8_t* tile = x + vector / 8 * C::tokens * 128;
    *reinterpret_cast<uint4*>(tile + token * 128 + ((vector % 8) ^ (token % 8)) * 16) = make_uint4(0, 0, 0, 0);
  }
  ptx::fence_proxy_async();
  ptx::named_barrier(3, 256);
}

template <typename T>
__device__ __forceinline__ uint32_t pair_bits(T a, T b) {
  return static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(&a)) |
         (static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(&b)) << 16);
}
template <typename T>
__device__ __forceinline__ float half_of(uint32_t v, int i) {
  const uint16_t bits = static_cast<uint16_t>(i == 0 ? v : v >> 16);
  return to_float(*reinterpret_cast<const T*>(&bits));
}

// Two neighbouring outputs of a token.
template <typename T>
__device__ __forceinline__ void store_pair(const LinearOut& p, uint32_t v, int64_t token, int column, int columns) {
  if (token >= p.m || column >= columns) return;
  if (p.residual != nullptr) {
    const uint32_t r = *reinterpret_cast<const uint32_t*>(static_cast<const T*>(p.residual) +
                                                          token * p.residual_stride + column);
    v = pair_bits<T>(from_float<T>(half_of<T>(v, 0) + half_of<T>(r, 0)),
                     from_float<T>(half_of<T>(v, 1) + half_of<T>(r, 1)));
  }
  *reinterpret_cast<uint32_t*>(static_cast<T*>(p.y) + token * p.y_stride + column) = v;
}

// y of this warp's row tile (first row `row0`) from the sums in the layout of the accumulators.
template <typename T, int kSums>
__device__ __forceinline__ void store_tile(const TileParams& p, const float (&sum)[kSums], int64_t token0, int row0,
                                           int lane) {
  const LinearOut& out = p.out;
  if (row0 >= out.n) return;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < kSums / 4; ++j) {
    if (token0 + j * 8 >= out.m) break;
    const float* d = &sum[4 * j];
    if (p.pairs) {
      T v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = finish_sum<T>(out, d[e], min(row0 + g + e / 2 * 8, out.n - 1));
      const int64_t token = token0 + j * 8 + g;
      if (out.gate != 0) {
        const uint32_t both = pair_bits<T>(silu_times<T>(v[0], v[2]), silu_times<T>(v[1], v[3]));
        store_pair<T>(out, ptx::transpose_8x8(both), token, row0 / 2 + 2 * t, out.n / 2);
      } else {
        store_pair<T>(out, ptx::transpose_8x8(pair_bits<T>(v[0], v[1])), token, row0 + 2 * t, out.n);
        store_pair<T>(out, ptx::transpose_8x8(pair_bits<T>(v[2], v[3])), token, row0 + 8 + 2 * t, out.n);
      }
    } else {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t token = token0 + j * 8 + 2 * t + e;
        if (token >= out.m) continue;
        if (out.gate != 0) {
          store_gated<T>(out, d[e], d[e + 2], token, row0 + g);
        } else {
          if (row0 + g < out.n) store_plain<T>(out, d[e], token, row0 + g);
          if (row0 + g + 8 < out.n) store_plain<T>(out, d[e + 2], token, row0 + g + 8);
        }
      }
    }
  }
}

// The producer: one warp walks the run and keeps the ring full.
template <class C>
__device__ __forceinline__ void produce(const TileParams& p, int place, uint32_t ring, uint32_t barriers, int lane) {
  int slot = 0, filled = 0;
  int parity = 1;  // of "empty": the first round finds every slot free
  bool waited = false;
  const auto load_x = [&](int at, int token_tile, int column) {
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < C::format.block_k() / 64; ++i) {
        ptx::bulk_copy_tile(ring + at * C::slot_bytes + i * C::tokens * 128, &p.x_map, column + i * 64,
                            token_tile * C::tokens, barriers + at * 16);
      }
    }
  };
  int late_column[C::stages], late_tile[C::stages];
  const auto late_x = [&]() {  // x of the slots whose weights were asked for before the wait
    ptx::wait_for_producers();
    waited = true;
#pragma unroll
    for (int i = 0; i < C::stages; ++i)
      if (i < filled) load_x(i, late_tile[i], late_column[i]);
    ptx::release_dependents();
  };
  for (TileCursor at(p, place); at.left > 0; at.next(p)) {
    const int row_tile = (at.tile / p.token_tiles) * kTileRowTiles + lane;
    const uint8_t* from = p.weights + min(row_tile, p.row_tiles - 1) * p.row_tile_bytes +
                          p.piece_block[at.piece] * C::format.block_bytes();
    const int token_tile = at.tile % p.token_tiles;
    const int blocks = p.piece_block[at.piece + 1] - p.piece_block[at.piece];
    for (int b = 0; b < blocks; ++b) {
      const uint32_t full = barriers + slot * 16;
      ptx::mbarrier_wait(full + 8, parity);
      if (lane == 0) ptx::mbarrier_expect(full, C::slot_bytes);
      __syncwarp();
      if (lane < kTileRowTiles) {
        ptx::bulk_copy_once(ring + slot * C::slot_bytes + C::x_bytes + lane * C::format.block_bytes(), from,
                            C::format.block_bytes(), full);
      }
      from += C::format.block_bytes();
      const int column = p.piece_k[at.piece] + b * C::format.block_k();
      if (waited) {
        load_x(slot, token_tile, column);
      } else {
#pragma unroll
        for (int i = 0; i < C::stages; ++i)
          if (i == filled) late_tile[i] = token_tile, late_column[i] = column;
        if (++filled == C::stages) late_x();
      }
      if (++slot == C::stages) slot = 0, parity ^= 1;
    }
  }
  if (!waited) late_x();
}

template <class C>
__device__ __forceinline__ void consume_run(const TileParams& p, int place, uint8_t* shared, uint32_t ring,
                                            uint32_t barriers) {
  using T = typename C::T;
  constexpr int kSums = C::tokens / 2;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp / 4, thread = static_cast<int>(threadIdx.x) % 128;
  const uint8_t* const mine = shared + C::x_bytes + warp * C::format.block_bytes();
  const auto published = [&](int of, int i) {
    return p.workspace + ((static_cast<int64_t>(of) * p.published + i) * 2 + group) * (C::tokens / 8) * 128 + thread;
  };
  TileWork<C> work;
  float total[kSums];
  int slot = 0, parity = 0;
  ptx::wait_for_producers();
  for (TileCursor at(p, place); at.left > 0;) {
    const int tile = at.tile, first = at.piece;
    const int end = min(p.pieces, first + at.left);
    for (int piece = first; piece < end; ++piece) {
      if constexpr (TileWork<C>::kPromote) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) work.acc[i] = 0.f;
      }
      const int blocks = p.piece_block[piece + 1] - p.piece_block[piece];
      const int length = p.piece_k[piece + 1] - p.piece_k[piece];
      for (int b = 0; b < blocks; ++b) {
        ptx::mbarrier_wait(barriers + slot * 16, parity);
        const int valid = length - b * C::format.block_k();
        if (valid < C::format.block_k()) clear_columns<C>(shared + slot * C::slot_bytes, valid);
        work.consume(mine + slot * C::slot_bytes, ptx::swizzled_matrix(ring + slot * C::slot_bytes), b == 0, lane);
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(barriers + slot * 16 + 8);
        if (++slot == C::stages) slot = 0, parity ^= 1;
      }
      if (first > 0) {
        float4* to = published(place, piece - first);
#pragma unroll
        for (int j = 0; j < kSums / 4; ++j) {
          __stcg(to + j * 128,
                 make_float4(work.acc[4 * j], work.acc[4 * j + 1], work.acc[4 * j + 2], work.acc[4 * j + 3]));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] = piece == 0 ? work.acc[i] : total[i] + work.acc[i];
      }
      at.next(p);
    }
    if (first > 0) {
      __threadfence();
      ptx::named_barrier(1 + group, 128);
      if (thread == 0) ptx::store_release(p.flags + place * 2 + group, 1);
      continue;
    }
    for (int piece = end, of = place + 1; piece < p.pieces; ++of) {
      const int run = p.run + (of < p.longer_runs ? 1 : 0);
      uint32_t* const flag = p.flags + of * 2 + group;
      while (ptx::load_acquire(flag) == 0) __nanosleep(20);
      for (int i = 0; i < run && piece < p.pieces; ++i, ++piece) {
        const float4* from = published(of, i);
#pragma unroll
        for (int j = 0; j < kSums / 4; ++j) {
          const float4 v = __ldcg(from + j * 128);
          total[4 * j] += v.x, total[4 * j + 1] += v.y, total[4 * j + 2] += v.z, total[4 * j + 3] += v.w;
        }
      }
      ptx::named_barrier(1 + group, 128);
      if (thread == 0) *flag = 0;  // as the next kernel expects it
    }
    const int row0 = (tile / p.token_tiles) * kTileRows + warp * 16;
    store_tile<T>(p, total, static_cast<int64_t>(tile % p.token_tiles) * C::tokens, row0, lane);
  }
}

template <class C>
__global__ void __launch_bounds__(tile_threads(C::tokens), tile_blocks_per_sm(C::format, C::tokens))
    linear_tile_kernel(const __grid_constant__ TileParams p) {
  extern __shared__ uint8_t unaligned[];
  uint8_t* const shared = unaligned + (-static_cast<int>(ptx::shared_address(unaligned)) & 1023);
  const uint32_t ring = ptx::shared_address(shared);
  const uint32_t barriers = ring + C::stages * C::slot_bytes;  // a slot: full, empty
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::stages; ++i) {
      ptx::mbarrier_init(barriers + i * 16, 1);
      ptx::mbarrier_init(barriers + i * 16 + 8, 8);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int place = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (threadIdx.x >= 256) {
    if constexpr (C::tokens >= 128) ptx::registers_fewer<24>();
    if (threadIdx.x < 288) produce<C>(p, place, ring, barriers, static_cast<int>(threadIdx.x) % 32);
  } else {
    if constexpr (C::tokens >= 128) ptx::registers_more<240>();
    consume_run<C>(p, place, shared, ring, barriers);
  }
}

template <class C>
Status launch_tile(const TileParams& params, const Grid& grid, const LaunchOn& on) {
  return launch("linear_tile", linear_tile_kernel<C>, grid, on, params);
}

template <class Format, int kTokens, typename T>
constexpr TileEntry tile_entry() {
  return {Format::format, kTokens, std::is_same_v<T, __half>, &launch_tile<TileConfig<Format, kTokens, T>>};
}

// The widest tile that leaves room for the sums of pieces: 192 tokens, 128 where groups are summed apart.
template <class Format>
inline constexpr int kWidest = Format::format.codes == Codes::k16 ? 192 : 128;
template <class Format, typename T>
inline constexpr TileEntry kTileEntries[] = {
    tile_entry<Format, 8, T>(),  tile_entry<Format, 16, T>(),  tile_entry<Format, 32, T>(),
    tile_entry<Format, 64, T>(), tile_entry<Format, 128, T>(), tile_entry<Format, kWidest<Format>, T>(),
};

}  // namespace bora::cuda
