// The flat linear: 1 to 64 rows of x a pass, at the speed at which the weights stream in.
//
// A warp owns one piece of K for 16 * kRows rows of W and all the tokens: weights on the 16-row side of the tensor
// core, tokens on its 8-column side. It streams its blocks through a ring in shared memory of its own with 16-byte
// asynchronous copies (each lane copies what it will read, but for the scales), so the only barriers are around x and
// the sum of pieces. A block has 8 warps; a cluster of C blocks has 8/C pieces a block and C groups of rows, and sums
// pieces through distributed shared memory, so that each block stages only its part of x. The grid is persistent: a
// cluster walks tiles of 16 * kRows * C rows, and the ring runs on across tiles.
//
// Under programmatic dependent launch the ring is filled before the wait; dependents are released when a warp has no
// more than `release_lead` loads to issue, so that their first loads fill the memory's idle time at our end.
#pragma once

#include <cooperative_groups.h>

#include <type_traits>
#include <utility>

#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/linear/dequant.cuh"
#include "backend/cuda/kernels/linear/flat_params.h"
#include "backend/cuda/kernels/linear/flat_table.h"
#include "backend/cuda/kernels/linear/output.cuh"

namespace bora::cuda {

template <class Format, int kWarps, int kRows, int kTokens, int kStages>
struct FlatConfig {
  static constexpr LinearFormat format = Format::format;
  static constexpr int warps = kWarps;
  static constexpr int rows = kRows;      // row tiles of 16 a warp
  static constexpr int tokens = kTokens;  // token tiles of 8
  static constexpr int stages = kStages;  // blocks in a warp's ring
};

template <class C, typename T>
struct FlatKernel {
  static constexpr LinearFormat kF = C::format;
  static constexpr int kRows = C::rows, kTokens = C::tokens, kStages = C::stages;
  static constexpr int kCode = kF.code_bytes(), kSide = kF.side_bytes(), kBlock = kF.block_bytes();
  static constexpr int kChunks = kCode / 512;
  static constexpr int kChunkSteps = kF.block_k() / 16 / kChunks;
  static constexpr int kSlot = kRows * kBlock;
  static constexpr bool kPromote = kF.codes != Codes::k16;
  static constexpr int kGroupSteps = kF.group > 0 ? kF.group / 16 : 8;  // steps between promotions
  static constexpr int kGroups = kF.group > 0 ? kF.groups() : 1;

  float acc[kRows][kTokens][4];
  float part[kPromote ? kRows : 1][kPromote ? kTokens : 1][4];
  uint32_t zero[kRows][2];

  // Copies the block at `from` (this lane's place in it) of the warp's row tiles into a slot (likewise).
  __device__ static __forceinline__ void issue(uint32_t slot, const uint8_t* (&from)[kRows], int lane) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) ptx::copy_async_16(slot + i * kBlock + c * 512, from[i] + c * 512);
      if constexpr (kSide > 0) {
        if (lane < kSide / 16) ptx::copy_async_16(slot + i * kBlock + kCode, from[i] + kCode);
      }
      from[i] += kBlock;
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int n = 0; n < kTokens; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][n][e] = 0.f;
  }

  __device__ __forceinline__ void start_group(const uint8_t* slot, int group, int lane) {
    if constexpr (kPromote) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if constexpr (kF.codes == Codes::kInt4) {
          if constexpr (kF.zeros) {
            const uint16_t* z =
                reinterpret_cast<const uint16_t*>(slot + i * kBlock + kCode + kF.groups() * 32) + group * 16;
            zero[i][0] = z[lane / 4] * 0x10001u;
            zero[i][1] = z[lane / 4 + 8] * 0x10001u;
          } else {
            zero[i][0] = zero[i][1] = 0x43084308u;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void end_group(const uint8_t* slot, int group, int lane) {
    if constexpr (kPromote) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const uint8_t* side = slot + i * kBlock + kCode;
        float low = 1.f, high = 1.f;
        if constexpr (kF.group > 0) {
          const __half* s = reinterpret_cast<const __half*>(side) + group * 16;
          low = __half2float(s[lane / 4]);
          high = __half2float(s[lane / 4 + 8]);
        } else if constexpr (kF.block_scale) {
          low = high = *reinterpret_cast<const float*>(side);
        }
#pragma unroll
        for (int n = 0; n < kTokens; ++n) {
          acc[i][n][0] = fmaf(low, part[i][n][0], acc[i][n][0]);
          acc[i][n][1] = fmaf(low, part[i][n][1], acc[i][n][1]);
          acc[i][n][2] = fmaf(high, part[i][n][2], acc[i][n][2]);
          acc[i][n][3] = fmaf(high, part[i][n][3], acc[i][n][3]);
        }
      }
    }
  }

  template <int kStep>
  __device__ __forceinline__ void multiply(const uint4 (&q)[kRows], const uint32_t (&b)[2 * kTokens], bool fresh) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      uint32_t a[4];
      Dequant<kF.codes, T>::template run<kStep>(q[i], zero[i], a);
#pragma unroll
      for (int n = 0; n < kTokens; ++n) {
        if constexpr (kPromote) {
          if (fresh)
            ptx::mma_16816_fresh<T>(part[i][n], a, b[2 * n], b[2 * n + 1]);
          else
            ptx::mma_16816<T>(part[i][n], a, b[2 * n], b[2 * n + 1]);
        } else
          ptx::mma_16816<T>(acc[i][n], a, b[2 * n], b[2 * n + 1]);
      }
    }
  }

  // B operands of one k16 step. For one token tile a load covers two steps (`pair` keeps the second).
  template <int kStep>
  __device__ __forceinline__ static void load_tokens(uint32_t (&b)[2 * kTokens], uint32_t (&pair)[4],
                                                     const uint32_t (&x)[(kTokens + 1) / 2], int step) {
    if constexpr (kTokens == 1) {
      if constexpr (kStep % 2 == 0) ptx::load_matrix_x4(pair, x[0] + step * 32);
      b[0] = pair[kStep % 2 * 2];
      b[1] = pair[kStep % 2 * 2 + 1];
    } else {
#pragma unroll
      for (int n = 0; n < kTokens / 2; ++n) {
        uint32_t r[4];
        ptx::load_matrix_x4(r, x[n] + step * 32);
        b[4 * n] = r[0], b[4 * n + 1] = r[1], b[4 * n + 2] = r[2], b[4 * n + 3] = r[3];
      }
    }
  }

  // One block of the ring. `x`: this lane's matrix rows at the block's first column.
  __device__ __forceinline__ void consume(const uint8_t* slot, const uint32_t (&x)[(kTokens + 1) / 2], int lane) {
    uint32_t pair[4];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      uint4 q[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) q[i] = *reinterpret_cast<const uint4*>(slot + i * kBlock + c * 512 + lane * 16);
      run_steps(slot, q, x, pair, lane, c, std::make_integer_sequence<int, kChunkSteps>{});
    }
  }

  template <int... kSteps>
  __device__ __forceinline__ void run_steps(const uint8_t* slot, const uint4 (&q)[kRows],
                                            const uint32_t (&x)[(kTokens + 1) / 2], uint32_t (&pair)[4], int lane,
                                            int c, std::integer_sequence<int, kSteps...>) {
    (one_step<kSteps>(slot, q, x, pair, lane, c), ...);
  }

  template <int kStep>
  __device__ __forceinline__ void one_step(const uint8_t* slot, const uint4 (&q)[kRows],
                                           const uint32_t (&x)[(kTokens + 1) / 2], uint32_t (&pair)[4], int lane,
                                           int c) {
    const int step = c * kChunkSteps + kStep;
    if (kPromote && step % kGroupSteps == 0) start_group(slot, step / kGroupSteps, lane);
    uint32_t b[2 * kTokens];
    if constexpr (kTokens == 1 && kChunkSteps == 1) {
      // A chunk is one step: the pair spans two chunks.
      if (c % 2 == 0) ptx::load_matrix_x4(pair, x[0] + step * 32);
      b[0] = c % 2 == 0 ? pair[0] : pair[2];
      b[1] = c % 2 == 0 ? pair[1] : pair[3];
    } else {
      load_tokens<kStep>(b, pair, x, step);
    }
    multiply<kStep>(q, b, step % kGroupSteps == 0);
    if (kPromote && step % kGroupSteps == kGroupSteps - 1) end_group(slot, step / kGroupSteps, lane);
  }
};

// Starts copying blocks [first_block, first_block + x_blocks) of every piece of this thread block into shared memory;
// beyond a piece: zeros. A warp takes a (token, piece) at a time.
template <typename T, int kWarps>
__device__ __forceinline__ void stage_tokens(const FlatParams& p, int64_t token0, int tokens, int first_piece,
                                             int first_block, int block_k, uint32_t to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int log2_pieces = 3 - p.cluster_log2;
  const int vectors = p.x_blocks * block_k / 8;
  for (int pair = warp; pair < tokens << log2_pieces; pair += kWarps) {
    const int row = pair >> log2_pieces, local = pair & ((1 << log2_pieces) - 1);
    const int piece = first_piece + local;
    const int column = piece < p.pieces ? p.piece_k[piece] + first_block * block_k : 0;
    const int length = piece < p.pieces ? p.piece_k[piece + 1] - column : 0;
    const T* const from = static_cast<const T*>(p.x) + (token0 + row) * p.x_stride + column;
    const uint32_t out = to + row * p.x_row_bytes + local * vectors * 16;
    for (int v = lane; v < vectors; v += 32) {
      const int bytes = min(max(length - v * 8, 0), 8) * 2;
      ptx::copy_async_16_part(out + v * 16, bytes > 0 ? from + v * 8 : static_cast<const T*>(p.x), bytes);
    }
  }
}

// Four rows of a token: one partial sum of each piece, in ascending order, added.
__device__ __forceinline__ float4 sum_of(const FlatParams& p, const float* const (&from)[8], int at) {
  float4 part[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    part[i] = i < p.pieces ? *reinterpret_cast<const float4*>(from[i] + at) : make_float4(0.f, 0.f, 0.f, 0.f);
  }
  float4 sum = part[0];
#pragma unroll
  for (int i = 1; i < 8; ++i) {
    if (i < p.pieces) sum.x += part[i].x, sum.y += part[i].y, sum.z += part[i].z, sum.w += part[i].w;
  }
  return sum;
}
__device__ __forceinline__ float lane_of(const float4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Sums the pieces of this block's share of the tile's row groups; `base` is its partial sums, [warp][token][row].
template <typename T, class C>
__device__ __forceinline__ void sum_pieces(const FlatParams& p, float* base, int64_t token0, int tokens, int rank,
                                           int tile) {
  constexpr int kRowsWarp = 16 * C::rows, kTall = kRowsWarp + 4, kWarpSums = 8 * C::tokens * kTall;
  constexpr int kShare = C::warps / 8;  // row groups a block sums
  constexpr int kQuads = kRowsWarp / 4;
  const int log2 = p.cluster_log2, log2_pieces = 3 - log2;
  const int per_token = p.out.gate == 0 ? kQuads : kQuads / 2;
  // With few rows of x most warps have nothing to add; they go on to the next tile at once.
  if (static_cast<int>(threadIdx.x) >= per_token * tokens) return;
  for (int share = 0; share < kShare; ++share) {
    const int group = rank * kShare + share;
    const int row0 = ((tile << log2) * kShare + group) * kRowsWarp;
    const float* from[8];
#pragma unroll
    for (int piece = 0; piece < 8; ++piece) from[piece] = base + ((group << log2_pieces) + piece) * kWarpSums;
#if __CUDA_ARCH__ >= 900
    if (log2 > 0) {
#pragma unroll
      for (int piece = 0; piece < 8; ++piece) {
        const int warp = (group << log2_pieces) + (piece & ((1 << log2_pieces) - 1));
        from[piece] =
            cooperative_groups::this_cluster().map_shared_rank(base + warp * kWarpSums, piece >> log2_pieces);
      }
    }
#endif
    for (int i = static_cast<int>(threadIdx.x); i < per_token * tokens; i += C::warps * 32) {
      const int token = p.out.gate == 0 ? i / kQuads : i / (kQuads / 2);
      const int quad = p.out.gate == 0 ? i % kQuads : i % (kQuads / 2) / 2 * 4 + i % 2;
      const int row = quad * 4, at = token * kTall + row;
      const float4 sum = sum_of(p, from, at);
      if (p.out.gate == 0) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (row0 + row + e < p.out.n) store_plain<T>(p.out, lane_of(sum, e), token0 + token, row0 + row + e);
        }
      } else if (row0 + row < p.out.n) {
        const float4 up = sum_of(p, from, at + 8);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          store_gated<T>(p.out, lane_of(sum, e), lane_of(up, e), token0 + token, row0 + row + e);
      }
    }
  }
}

__device__ __forceinline__ void sync_blocks(int cluster_log2) {
#if __CUDA_ARCH__ >= 900
  if (cluster_log2 > 0) {
    cooperative_groups::this_cluster().sync();
    return;
  }
#endif
  __syncthreads();
}

template <class C, typename T>
__global__ void __launch_bounds__(C::warps * 32) linear_flat_kernel(const __grid_constant__ FlatParams p) {
  using Kernel = FlatKernel<C, T>;
  constexpr int kWarps = C::warps, kRows = C::rows, kTokens = C::tokens, kStages = C::stages,
                kBlockK = C::format.block_k();
  constexpr int kTall = 16 * kRows + 4, kWarpSums = 8 * kTokens * kTall, kSums = kWarps * kWarpSums;
  constexpr int kSumBuffers = flat_sum_buffers(kRows, kTokens);
  extern __shared__ __align__(128) uint8_t shared[];
  float* const sums = reinterpret_cast<float*>(shared + kWarps * kStages * Kernel::kSlot);
  uint8_t* const tokens_shared = reinterpret_cast<uint8_t*>(sums + kSumBuffers * kSums);

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int log2 = p.cluster_log2, log2_pieces = 3 - log2, pieces_block = 8 >> log2;
  const int rank = static_cast<int>(blockIdx.x) & ((1 << log2) - 1);
  const int first_tile = static_cast<int>(blockIdx.x) >> log2, tile_stride = static_cast<int>(gridDim.x) >> log2;
  const int piece_local = warp & (pieces_block - 1), row_group = warp >> log2_pieces;
  const int piece = rank * pieces_block + piece_local;
  const int block0 = piece < p.pieces ? p.piece_block[piece] : 0;
  const int blocks = piece < p.pieces ? p.piece_block[piece + 1] - block0 : 0;
  const int64_t token0 = static_cast<int64_t>(blockIdx.y) * 8 * kTokens;
  const int tokens = static_cast<int>(min(static_cast<int64_t>(8 * kTokens), p.out.m - token0));

  // The stream of loads runs ahead of the stream of work, over all tiles of this cluster.
  const uint32_t ring_lane = ptx::shared_address(shared) + warp * kStages * Kernel::kSlot + lane * 16;
  const uint8_t* const ring_warp = shared + warp * kStages * Kernel::kSlot;
  int load_tile = first_tile, load_left = blocks;
  uint32_t load_to = ring_lane;
  const uint8_t* load_from[kRows];
  const auto aim = [&]() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row_tile = min((((load_tile << log2) * (kWarps / 8) + row_group) * kRows) + i, p.row_tiles - 1);
      load_from[i] = p.weights + row_tile * p.row_tile_bytes + block0 * Kernel::kBlock + lane * 16;
    }
  };
  aim();
  int to_issue = blocks * ((p.tiles - first_tile + tile_stride - 1) / tile_stride);
  bool released = true;  // until the wait is over: at most one grid runs ahead, so its blocks spread evenly
  const auto issue_next = [&]() {
    if (to_issue > 0) {
      Kernel::issue(load_to, load_from, lane);
      --to_issue;
      if (--load_left == 0) {
        load_left = blocks;
        load_tile += tile_stride;
        aim();
      }
      if (!released && to_issue <= p.release_lead) {
        ptx::release_dependents();
        released = true;
      }
    }
    load_to = load_to == ring_lane + (kStages - 1) * Kernel::kSlot ? ring_lane : load_to + Kernel::kSlot;
    ptx::copy_async_commit();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) issue_next();

  // Columns of absent tokens read another row: what they give is never stored.
  const uint32_t tokens_address = ptx::shared_address(tokens_shared);
  uint32_t x[(kTokens + 1) / 2];
#pragma unroll
  for (int n = 0; n < (kTokens + 1) / 2; ++n) {
    const int matrix = lane / 8;
    const int token = kTokens == 1 ? lane % 8 : n * 16 + matrix / 2 * 8 + lane % 8;
    const int column = kTokens == 1 ? matrix * 8 : matrix % 2 * 8;
    x[n] =
        tokens_address + min(token, tokens - 1) * p.x_row_bytes + (piece_local * p.x_blocks * kBlockK + column) * 2;
  }

  int longest = 0;
  for (int i = 0; i < p.pieces; ++i) longest = max(longest, p.piece_block[i + 1] - p.piece_block[i]);
  const int parts = (longest + p.x_blocks - 1) / p.x_blocks;

  ptx::wait_for_producers();
  released = false;
  if (to_issue <= p.release_lead) {
    ptx::release_dependents();
    released = true;
  }
  // x is held whole, or in two halves of a ring of parts: the next part is copied while this one is used.
  const int first_piece = rank * pieces_block;
  const uint32_t x_buffer = static_cast<uint32_t>(p.x_rows * p.x_row_bytes);
  stage_tokens<T, kWarps>(p, token0, tokens, first_piece, 0, kBlockK, tokens_address);
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();
  Kernel work;
  int slot = 0, buffer = 0, sum_buffer = 0;
  for (int tile = first_tile; tile < p.tiles; tile += tile_stride) {
    work.clear();
    for (int part = 0; part < parts; ++part) {
      const uint32_t x_offset = parts > 1 ? buffer * x_buffer : 0u;
      if (parts > 1) {
        const int next = part + 1 < parts ? part + 1 : 0;
        stage_tokens<T, kWarps>(p, token0, tokens, first_piece, next * p.x_blocks, kBlockK,
                                tokens_address + (buffer ^ 1) * x_buffer);
        ptx::copy_async_commit();
      }
      const int end = min(blocks - part * p.x_blocks, p.x_blocks);
      for (int b = 0; b < end; ++b) {
        if (parts > 1 && b == 0)
          ptx::copy_async_wait<kStages - 1>();  // one younger group: the copies of x
        else
          ptx::copy_async_wait<kStages - 2>();
        __syncwarp();
        issue_next();
        uint32_t at[(kTokens + 1) / 2];
#pragma unroll
        for (int n = 0; n < (kTokens + 1) / 2; ++n) {
          at[n] = x[n] + x_offset + static_cast<uint32_t>(b * kBlockK * 2);
        }
        work.consume(ring_warp + slot * Kernel::kSlot, at, lane);
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      if (parts > 1) {
        // The copies of the next part are among the oldest pending; with few blocks a part they may still run.
        if (end < kStages) ptx::copy_async_wait<0>();
        __syncthreads();
        buffer ^= 1;
      }
    }
    float* tile_sums = sums + sum_buffer * kSums;
    float* mine = tile_sums + warp * kWarpSums + lane % 4 * 2 * kTall + lane / 4;
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (n * 8 + lane % 4 * 2 + e >= tokens) continue;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          mine[(n * 8 + e) * kTall + i * 16] = work.acc[i][n][e];
          mine[(n * 8 + e) * kTall + i * 16 + 8] = work.acc[i][n][e + 2];
        }
      }
    }
    sync_blocks(log2);
    sum_pieces<T, C>(p, tile_sums, token0, tokens, rank, tile);
    if constexpr (kSumBuffers == 1)
      sync_blocks(log2);
    else
      sum_buffer ^= 1;  // who writes this buffer again has passed the next tile's barrier
  }
  if (kSumBuffers > 1 && log2 > 0) sync_blocks(log2);  // shared memory of a block outlives its readers
}

template <class C, typename T>
Status launch_flat(const FlatParams& params, const Grid& grid, const LaunchOn& on) {
  return launch("linear_flat", linear_flat_kernel<C, T>, grid, on, params);
}

template <class Format, int kWarps, int kRows, int kTokens, typename T>
constexpr FlatEntry flat_entry() {
  using C = FlatConfig<Format, kWarps, kRows, kTokens, flat_stages(Format::format, kWarps, kRows)>;
  return {Format::format, kWarps, kRows, kTokens, std::is_same_v<T, __half>, &launch_flat<C, T>};
}

// Every cut of a format that the planner may ask for.
template <class Format, typename T>
inline constexpr FlatEntry kFlatEntries[] = {
    flat_entry<Format, 8, 1, 1, T>(),  flat_entry<Format, 8, 2, 1, T>(),  flat_entry<Format, 16, 1, 1, T>(),
    flat_entry<Format, 16, 2, 1, T>(), flat_entry<Format, 24, 1, 1, T>(), flat_entry<Format, 8, 1, 2, T>(),
    flat_entry<Format, 8, 2, 2, T>(),  flat_entry<Format, 16, 1, 2, T>(), flat_entry<Format, 16, 2, 2, T>(),
    flat_entry<Format, 8, 2, 4, T>(),  flat_entry<Format, 16, 1, 4, T>(), flat_entry<Format, 8, 2, 8, T>(),
    flat_entry<Format, 16, 1, 8, T>(),
};

}  // namespace bora::cuda
