// The tile kernel: attention of units of 16 * M query rows by mma.sync, for decode, verification and mixed
// batches.
//
// A resident block of 4 warps walks its run of segments (plan.h). Per tile of 256 keys the stages K0..K3 then
// V0..V3 of 64 keys stream through one ring of shared memory by cp.async, several stages ahead, across tiles
// and units alike.
//
//   Q K^T   warp w takes keys 16w..16w+15 of each stage: S[rows, 256] lies in registers, a quarter a warp
//   max, P  row maxima meet in shared memory; P goes to shared memory in the cache's dtype, sums as 16 chains
//   a row P V     warp w takes 8-dim columns w, w + 4, ...: ascending keys from zero accumulators, then the
//   merge in registers
//
// Bytes moved: K and V once per unit; q, out and the partials of split units beside them. Rows of a unit are
// token-major: row r = token r / group, head r % group. Stages without a visible key are neither loaded nor
// computed (they would add exact zeros); keys at or beyond kv_len are filled with zeros and never read.
#pragma once

#include "backend/cuda/kernels/attention/kv_layout.h"
#include "backend/cuda/kernels/attention/sm90_ptx.cuh"
#include "backend/cuda/kernels/attention/softmax.cuh"
#include "backend/cuda/kernels/attention/tile_params.h"
#include "backend/cuda/kernels/common/launch.cuh"

namespace bora::cuda {

// kBulk: sm_90a, a fifth warp streams by bulk copies and mbarriers; else every warp copies its share by
// cp.async.
template <typename T, int kD, int kM, bool kBulk>
struct TileConfig {
  static constexpr int kThreads = kBulk ? 160 : 128;
  static constexpr int kRows = 16 * kM;
  static constexpr int kStageBytes = 64 * kD * 2;
  static constexpr int kQBytes = kRows * kD * 2;
  static constexpr int kPBytes = kRows * kTileKeys * 2;
  static constexpr int kStatBytes = kRows * (4 + 16) * 4;
  static constexpr int kRingBytes = (kM > 1              ? 48
                                     : kBulk && kD > 128 ? 160
                                                         : 80) *
                                    1024;  // leaves room for the merge kernel beside two blocks
  static constexpr int kStages = kRingBytes / kStageBytes < 2 ? 2 : kRingBytes / kStageBytes;
  static constexpr int kSmem =
      kStages * kStageBytes + kQBytes + kPBytes + kStatBytes + (kBulk ? kStages * 16 + 96 : 0);
  static constexpr int kColumns = (kD / 8 + 3) / 4;  // 8-dim columns of O a warp owns at most
};

// Walks stages in the order in which they are consumed.
struct StageCursor {
  int32_t segment, tile, tile_end, seq, kv_head, length, limit, start, base, token;
  int32_t old;  // keys below it were there before this step
  int32_t stage, stage_begin, stage_end;
  bool values, valid;

  // `next()` gives the segment after this one, anything beyond the list when there is none.
  template <typename F>
  __device__ void open_tile(const AttentionParams& p, const F& next) {
    for (;;) {
      while (tile >= tile_end) {
        segment = next();
        valid = segment < p.counts[0];
        if (!valid) return;
        open_segment(p);
      }
      stage_begin = max(start - tile * kTileKeys, 0) / 64;
      stage_end = (min(limit - tile * kTileKeys, kTileKeys) + 63) / 64;
      if (stage_begin < stage_end) break;
      ++tile;
    }
    stage = stage_begin;
    values = false;
  }
  __device__ void open_segment(const AttentionParams& p) {
    const AttentionSegment s = p.segments[segment];
    seq = s.seq, kv_head = s.kv_head, tile = s.tile_begin, tile_end = s.tile_end, token = s.token_begin;
    length = p.kv_len[seq];
    limit = p.causal ? min(length, p.pos[s.token_begin + s.tokens - 1] + 1) : length;
    start = p.window > 0 ? max(0, p.pos[s.token_begin] - p.window + 1) : 0;
    old = length - s.step_tokens;
    base = p.tree != nullptr ? old : 0x7fffffff;
  }
  template <typename F>
  __device__ void advance(const AttentionParams& p, const F& next) {
    if (++stage < stage_end) return;
    if (!values) {
      values = true;
      stage = stage_begin;
      return;
    }
    ++tile;
    open_tile(p, next);
  }
};

// Cache position of logical key `key` of tree row `token`: below `base` the key itself, else the row's n-th
// ancestor.
__device__ inline int32_t tree_key(const AttentionParams& p, int32_t token, int32_t base, int32_t key) {
  if (key < base) return key;
  int32_t left = key - base;
  for (int32_t w = 0; w < p.tree_words; ++w) {
    const uint32_t bits = p.tree[int64_t{token} * p.tree_words + w];
    const int32_t n = __popc(bits);
    if (left < n) return base + w * 32 + static_cast<int32_t>(__fns(bits, 0, left + 1));
    left -= n;
  }
  return -1;
}

// One stage by the four warps: warp w brings the 16 keys of group w, one contiguous run of the cache.
template <int kD>
__device__ __forceinline__ void copy_stage(const AttentionParams& p, const StageCursor& c, uint32_t dst) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t key0 = c.tile * kTileKeys + c.stage * 64 + warp * 16;
  const int32_t block_tokens = 1 << p.block_shift;
  const char* cache = (c.values ? p.v : p.k) + c.kv_head * kv_chunk_bytes(kD, block_tokens);
  const int32_t* table = p.table + int64_t{c.seq} * p.table_stride;
  dst += warp * (16 * kD * 2);
  if (key0 + 16 > c.base) {  // reaches into the step's tree: every key is looked up
    for (int i = lane; i < 2 * kD; i += 32) {
      const int t = i / (kD / 8), dim = i % (kD / 8) * 8;
      const int32_t key = key0 + t < c.limit ? tree_key(p, c.token, c.base, key0 + t) : -1;
      const bool ok = key >= 0 && key < c.length;
      const char* from = cache;
      if (ok) from += table[key >> p.block_shift] * p.block_stride + kv_offset(kD, key & (block_tokens - 1), dim);
      ptx::copy_async_16_part(dst + static_cast<uint32_t>(kv_offset(kD, t, dim)), from, ok ? 16 : 0);
    }
    return;
  }
  const int32_t present = min(max(c.length - key0, 0), 16);
  const int32_t block = present > 0 ? table[key0 >> p.block_shift] : 0;
  const char* from = cache + block * p.block_stride + kv_offset(kD, key0 & (block_tokens - 1), 0);
#pragma unroll
  for (int i = 0; i < kD / 16; ++i) {
    const int piece = i * 32 + lane;  // of 16 bytes; kD of them are 8 tokens
    const int slab = piece % kD / 64;
    const int row = slab + 1 < kv_slabs(kD) ? 128 : kv_slab_bytes(kD, kv_slabs(kD) - 1);
    const int t = piece / kD * 8 + piece % kD % 64 / (row / 16);
    ptx::copy_async_16_part(dst + piece * 16, from + piece * 16, t < present ? 16 : 0);
  }
}

// The same stage by one warp: a group of 16 keys is one bulk copy; at the sequence's end the rows of a slab
// that are there are one. Rows at or beyond the length become zeros, tree rows are looked up one by one.
// `ids` holds the block of group `lane` of the tile.
template <int kD>
__device__ __forceinline__ void bulk_stage(const AttentionParams& p, const StageCursor& c, int32_t ids, char* stage,
                                           uint32_t full) {
  const int lane = threadIdx.x % 32;
  const int32_t key0 = c.tile * kTileKeys + c.stage * 64;
  const int32_t block_tokens = 1 << p.block_shift;
  const char* cache = (c.values ? p.v : p.k) + c.kv_head * kv_chunk_bytes(kD, block_tokens);
  const int present = min(max(min(c.length, c.base) - key0, 0), 64);
  const int whole = present / 16;
  if (present < 64) {
    for (int i = present * (kD / 8) + lane; i < 64 * (kD / 8); i += 32) {
      const int t = i / (kD / 8), dim = i % (kD / 8) * 8;
      int32_t key = key0 + t;
      uint4 value = make_uint4(0, 0, 0, 0);
      if (key >= c.base && key < c.limit) {
        key = tree_key(p, c.token, c.base, key);
        if (key >= 0 && key < c.length) {
          const int32_t block = p.table[int64_t{c.seq} * p.table_stride + (key >> p.block_shift)];
          value = *reinterpret_cast<const uint4*>(cache + block * p.block_stride +
                                                  kv_offset(kD, key & (block_tokens - 1), dim));
        }
      }
      *reinterpret_cast<uint4*>(stage + kv_offset(kD, t, dim)) = value;
    }
    fence_async();
  }
  __syncwarp();
  if (lane == 0) barrier_arrive_expect(full, present * kD * 2);
  __syncwarp();
  const int32_t block = __shfl_sync(~0u, ids, c.stage * 4 + (lane < 4 ? lane : whole) % 4);
  const uint32_t to = ptx::shared_address(stage);
  if (lane < whole) {
    const char* from = cache + block * p.block_stride + kv_offset(kD, (key0 + lane * 16) & (block_tokens - 1), 0);
    bulk_copy(to + lane * (16 * kD * 2), from, 16 * kD * 2, full);
  } else if (lane >= 16 && present % 16 != 0) {  // lanes 16 + (slab, eight): the last group's rows
    const int slab = (lane - 16) / 2, eight = lane % 2;
    const int rows = min(present % 16 - eight * 8, 8);
    if (slab < kv_slabs(kD) && rows > 0) {
      const int row = slab + 1 < kv_slabs(kD) ? 128 : kv_slab_bytes(kD, kv_slabs(kD) - 1);
      const int t = whole * 16 + eight * 8;
      const char* from =
          cache + block * p.block_stride + kv_offset(kD, (key0 + t) & (block_tokens - 1), 0) + slab * 1024;
      bulk_copy(to + static_cast<uint32_t>(kv_offset(kD, t, 0)) + slab * 1024, from, rows * row, full);
    }
  }
}

// How the fifth warp tells the others which segments it took: four numbers in flight.
struct SegmentQueue {
  static constexpr int kDepth = 4;
  int32_t* number;       // [kDepth]
  uint32_t full, empty;  // barriers
  int32_t slot = 0, parity = 0;

  __device__ void step() {
    if (++slot == kDepth) slot = 0, parity ^= 1;
  }
  __device__ void push(int32_t segment) {
    barrier_wait(empty + slot * 8, parity ^ 1);
    if (threadIdx.x % 32 == 0) {
      number[slot] = segment;
      barrier_arrive(full + slot * 8);
    }
    __syncwarp();
    step();
  }
  __device__ int32_t pop() {
    barrier_wait(full + slot * 8, parity);
    const int32_t segment = *static_cast<volatile int32_t*>(number + slot);
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty + slot * 8);
    step();
    return segment;
  }
};

// The fifth warp: takes segments and keeps the ring full. Keys from before this step may be read before the
// kernel before this one ends.
template <int kD, int kStages>
__device__ void stream_stages(const AttentionParams& p, char* ring, uint32_t full, uint32_t empty,
                              SegmentQueue queue) {
  const int lane = threadIdx.x % 32;
  StageCursor c{};
  c.segment = blockIdx.x;
  c.valid = c.segment < p.counts[0];
  bool waited = false;
  // Two segments a block are its own; then it takes free ones, always one before it is needed, so that nobody
  // waits for the counter.
  int32_t ahead = blockIdx.x + gridDim.x;
  const auto next = [&] {
    const int32_t n = __shfl_sync(~0u, ahead, 0);
    queue.push(n);
    if (!waited) ptx::wait_for_producers();
    waited = true;
    if (lane == 0) ahead = static_cast<int32_t>(atomicAdd(p.taken, 1u) + 2 * gridDim.x);
    return n;
  };
  queue.push(c.segment);
  if (c.valid) {
    c.open_segment(p);
    c.open_tile(p, next);
  }
  const auto blocks_of = [&](int32_t tile) {
    const int32_t key = tile * kTileKeys + lane % 16 * 16;
    return key < c.length ? p.table[int64_t{c.seq} * p.table_stride + (key >> p.block_shift)] : 0;
  };
  int32_t slot = 0, parity = 1;
  int32_t segment = -1, tile = -1, ids = 0, next_ids = 0;
  while (c.valid) {
    if (c.tile != tile || c.segment != segment) {
      ids = c.segment == segment && c.tile == tile + 1 ? next_ids : blocks_of(c.tile);
      segment = c.segment, tile = c.tile;
      next_ids = blocks_of(tile + 1);
    }
    if (!waited && tile * kTileKeys + c.stage * 64 + 64 > c.old) {
      ptx::wait_for_producers();
      waited = true;
    }
    barrier_wait(empty + slot * 8, parity);
    bulk_stage<kD>(p, c, ids, ring + slot * (64 * kD * 2), full + slot * 8);
    if (++slot == kStages) slot = 0, parity ^= 1;
    c.advance(p, next);
  }
  if (!waited) ptx::wait_for_producers();
  // The last block to end leaves the counters as they were found.
  if (lane == 0) {
    __threadfence();
    if (atomicAdd(p.taken + 1, 1u) + 1 == gridDim.x) p.taken[0] = p.taken[1] = 0;
  }
}

// Shared-memory offset of piece `piece` (8 dims) of row `r` (0..15) in a 16-row group laid out like a
// stage's.
template <int kD>
__device__ __forceinline__ uint32_t piece_offset(int r, int piece) {
  const int slab = piece / 8;
  const int row = slab + 1 < kv_slabs(kD) ? 128 : kv_slab_bytes(kD, kv_slabs(kD) - 1);
  return r / 8 * (kD * 16) + slab * 1024 + r % 8 * row + (((piece % 8) ^ kv_swizzle(r % 8, row)) * 16);
}

template <int kD, int kM>
struct TileState {
  static constexpr int kColumns = (kD / 8 + 3) / 4;
  float o[kM][kColumns][4];
  float m[kM][2], l[kM][2];

  __device__ void reset() {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0.0f;
      m[i][0] = m[i][1] = BORA_NEG_INF;
      l[i][0] = l[i][1] = 0.0f;
    }
  }
};

// Rows of this thread: i * 16 + lane / 4 + h * 8.
template <int kD, int kM>
__device__ void store_partial(const AttentionParams& p, const TileState<kD, kM>& t, int64_t slot, int rows) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = i * 16 + lane / 4 + h * 8;
      if (r >= rows) continue;
      const int64_t at = slot * p.unit_rows + r;
      if (warp == 0 && lane % 4 == 0) {
        *reinterpret_cast<float2*>(p.partial_ml + at * 2) = make_float2(t.m[i][h], t.l[i][h]);
      }
#pragma unroll
      for (int j = 0; j < TileState<kD, kM>::kColumns; ++j) {
        const int column = warp + 4 * j;
        if (column < kD / 8) {
          *reinterpret_cast<float2*>(p.partial_o + at * kD + column * 8 + lane % 4 * 2) =
              make_float2(t.o[i][j][h * 2], t.o[i][j][h * 2 + 1]);
        }
      }
    }
  }
}

template <typename T, int kD, int kM>
__device__ void store_rows(const AttentionParams& p, const TileState<kD, kM>& t, const AttentionSegment& s,
                           int rows) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = i * 16 + lane / 4 + h * 8;
      if (r >= rows) continue;
      const int head = s.kv_head * p.group + r % p.group;
      const float factor = final_factor(t.m[i][h], t.l[i][h], p.sinks != nullptr ? p.sinks[head] : BORA_NEG_INF);
      T* out = static_cast<T*>(p.out) + (s.token_begin + r / p.group) * p.out_stride + int64_t{head} * kD;
#pragma unroll
      for (int j = 0; j < TileState<kD, kM>::kColumns; ++j) {
        const int column = warp + 4 * j;
        if (column < kD / 8) {
          *reinterpret_cast<uint32_t*>(out + column * 8 + lane % 4 * 2) =
              pack2(__fmul_rn(t.o[i][j][h * 2], factor), __fmul_rn(t.o[i][j][h * 2 + 1], factor), T());
        }
      }
    }
  }
}

template <typename T, int kD, int kM, bool kBulk>
__global__ void __launch_bounds__(kBulk ? 160 : 128, kD <= 128 || (kM == 1 && !kBulk) ? 2 : 1)
    tile_kernel(const __grid_constant__ AttentionParams p) {
  using C = TileConfig<T, kD, kM, kBulk>;
  extern __shared__ __align__(128) char smem[];
  const uint32_t ring = ptx::shared_address(smem);
  const uint32_t q_at = ring + C::kStages * C::kStageBytes;  // rows as tokens of the cache
  const uint32_t p_at = q_at + C::kQBytes;                   // [row][256 keys], pieces swizzled by row
  char* p_ptr = smem + C::kStages * C::kStageBytes + C::kQBytes;
  float* row_max = reinterpret_cast<float*>(p_ptr + C::kPBytes);  // [row][warp]
  float* row_sum = row_max + C::kRows * 4;                        // [row][warp][chain]
  const uint32_t full = ptx::shared_address(row_sum + C::kRows * 16), empty = full + C::kStages * 8;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  SegmentQueue queue;
  queue.full = empty + C::kStages * 8, queue.empty = queue.full + SegmentQueue::kDepth * 8;
  queue.number = reinterpret_cast<int32_t*>(row_sum + C::kRows * 16) + (C::kStages + SegmentQueue::kDepth) * 4;
  StageCursor load{};
  int32_t load_slot = 0, slot = 0, parity = 0;
  // Without the fifth warp block b takes segments b, b + blocks, ...
  const auto next_load = [&] { return load.segment + static_cast<int32_t>(gridDim.x); };
  const auto produce = [&] {
    if (load.valid) {
      copy_stage<kD>(p, load, ring + load_slot * C::kStageBytes);
      load.advance(p, next_load);
    }
    ptx::copy_async_commit();
    load_slot = load_slot + 1 == C::kStages ? 0 : load_slot + 1;
  };
  if constexpr (kBulk) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < C::kStages; ++i) {
        barrier_init(full + i * 8, 1);
        barrier_init(empty + i * 8, 4);
      }
      for (int i = 0; i < SegmentQueue::kDepth; ++i) {
        barrier_init(queue.full + i * 8, 1);
        barrier_init(queue.empty + i * 8, 4);
      }
      fence_barrier_init();
    }
    __syncthreads();
    if (warp == 4) {
      stream_stages<kD, C::kStages>(p, smem, full, empty, queue);
      return;
    }
    ptx::wait_for_producers();
    ptx::release_dependents();
  } else {
    ptx::wait_for_producers();
    ptx::release_dependents();
    load.segment = blockIdx.x;
    load.valid = load.segment < p.counts[0];
    if (!load.valid) return;
    load.open_segment(p);
    load.open_tile(p, next_load);
    for (int i = 0; i < C::kStages - 1; ++i) produce();
  }
  const auto sync = [&] {
    if constexpr (kBulk)
      named_sync(1, 128);
    else
      __syncthreads();
  };
  // The next stage, seen by all warps; without kBulk this also starts the load that replaces the stage before
  // it.
  const auto acquire = [&]() -> uint32_t {
    if constexpr (kBulk) {
      barrier_wait(full + slot * 8, parity);
    } else {
      ptx::copy_async_wait<C::kStages - 2>();
      __syncthreads();
      produce();
    }
    return ring + slot * C::kStageBytes;
  };
  // This warp has read the stage.
  const auto release = [&] {
    if constexpr (kBulk) {
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + slot * 8);
    }
    if (++slot == C::kStages) slot = 0, parity ^= 1;
  };

  TileState<kD, kM> state;
  uint32_t q_frag[kM == 1 ? kD / 16 : 1][4];
  int32_t own = blockIdx.x;
  for (;;) {
    const int32_t segment = kBulk ? queue.pop() : own;
    if (segment >= p.counts[0]) break;
    own += gridDim.x;
    const AttentionSegment s = p.segments[segment];
    const int rows = s.tokens * p.group;
    const int32_t length = p.kv_len[s.seq];
    // Queries of the unit to shared memory, absent rows as zeros.
    sync();
    for (int i = threadIdx.x; i < C::kRows * (kD / 8); i += 128) {
      const int r = i / (kD / 8), piece = i % (kD / 8);
      uint4 value = make_uint4(0, 0, 0, 0);
      if (r < rows) {
        const T* from = static_cast<const T*>(p.q) + (s.token_begin + r / p.group) * p.q_stride +
                        int64_t{s.kv_head * p.group + r % p.group} * kD;
        value = *reinterpret_cast<const uint4*>(from + piece * 8);
      }
      const uint32_t at = (r / 16) * (16 * kD * 2) + piece_offset<kD>(r % 16, piece);
      *reinterpret_cast<uint4*>(smem + C::kStages * C::kStageBytes + at) = value;
    }
    // Visible keys [begin, end) of this thread's rows.
    int32_t begin[kM][2], end[kM][2];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = i * 16 + lane / 4 + h * 8;
        const int32_t at = r < rows ? p.pos[s.token_begin + r / p.group] : -1;
        begin[i][h] = p.window > 0 ? at - p.window + 1 : 0;
        end[i][h] = r >= rows ? 0 : p.causal ? min(at + 1, length) : length;
      }
    }
    const int32_t limit = p.causal ? min(length, p.pos[s.token_begin + s.tokens - 1] + 1) : length;
    const int32_t start = p.window > 0 ? max(0, p.pos[s.token_begin] - p.window + 1) : 0;
    sync();
    if constexpr (kM == 1) {
#pragma unroll
      for (int k = 0; k < kD / 16; ++k)
        ptx::load_matrix_x4(q_frag[k], q_at + piece_offset<kD>(lane % 16, k * 2 + lane / 16));
    }
    state.reset();

    for (int32_t tile = s.tile_begin; tile < s.tile_end; ++tile) {
      const int32_t key_base = tile * kTileKeys;
      const int32_t stage_begin = max(start - key_base, 0) / 64;
      const int32_t stage_end = (min(limit - key_base, kTileKeys) + 63) / 64;
      if (!s.first) state.reset();
      if (stage_begin < stage_end) {
        // S = Q K^T: a quarter of the keys a warp.
        float score[kM][4][2][4];
#pragma unroll
        for (int st = 0; st < 4; ++st) {
#pragma unroll
          for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
              score[i][st][n][0] = score[i][st][n][1] = score[i][st][n][2] = score[i][st][n][3] = 0.0f;
            }
          }
          if (st < stage_begin || st >= stage_end) continue;
          const uint32_t keys = acquire() + warp * (16 * kD * 2);
#pragma unroll
          for (int k = 0; k < kD / 16; ++k) {
            uint32_t b[4];
            ptx::load_matrix_x4(b, keys + piece_offset<kD>(lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < kM; ++i) {
              uint32_t a[4];
              if constexpr (kM == 1) {
                a[0] = q_frag[k][0], a[1] = q_frag[k][1], a[2] = q_frag[k][2], a[3] = q_frag[k][3];
              } else {
                ptx::load_matrix_x4(a, q_at + i * (16 * kD * 2) + piece_offset<kD>(lane % 16, k * 2 + lane / 16));
              }
              ptx::mma_16816<T>(score[i][st][0], a, b[0], b[1]);
              ptx::mma_16816<T>(score[i][st][1], a, b[2], b[3]);
            }
          }
          release();
        }
        // Softcap, mask, row maxima.
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float top = BORA_NEG_INF;
#pragma unroll
            for (int st = 0; st < 4; ++st) {
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                float& x = score[i][st][e / 2][h * 2 + e % 2];
                const int32_t key = key_base + st * 64 + warp * 16 + e / 2 * 8 + lane % 4 * 2 + e % 2;
                if (p.cap > 0) x = softcapped(x, p.scale_over_cap, p.cap);
                if (key < begin[i][h] || key >= end[i][h]) x = BORA_NEG_INF;
                top = fmaxf(top, x);
              }
            }
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            if (lane % 4 == 0) row_max[(i * 16 + lane / 4 + h * 8) * 4 + warp] = top;
          }
        }
        sync();
        // P and the chains of its sum.
        float tile_m[kM][2];
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int r = i * 16 + lane / 4 + h * 8;
            const float4 w = *reinterpret_cast<const float4*>(row_max + r * 4);
            tile_m[i][h] = scaled_max(fmaxf(fmaxf(w.x, w.y), fmaxf(w.z, w.w)), p.log2_scale);
            const float ref = finite_or_zero(tile_m[i][h]);
            float sum = 0.0f;
#pragma unroll
            for (int st = 0; st < 4; ++st) {
#pragma unroll
              for (int n = 0; n < 2; ++n) {
                const float x = probability(score[i][st][n][h * 2], p.log2_scale, ref);
                const float y = probability(score[i][st][n][h * 2 + 1], p.log2_scale, ref);
                sum = __fadd_rn(__fadd_rn(sum, x), y);
                const int piece = st * 8 + warp * 2 + n;
                *reinterpret_cast<uint32_t*>(p_ptr + r * 512 + ((piece ^ (r & 7)) * 16) + lane % 4 * 4) =
                    pack2(x, y, T());
              }
            }
            row_sum[(r * 4 + warp) * 4 + lane % 4] = sum;
          }
        }
        if constexpr (kBulk) sync();  // publishes P and the sums; else the next acquire does
        // O_t = P V: every fourth 8-dim column a warp.
        float tile_o[kM][C::kColumns][4];
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int j = 0; j < C::kColumns; ++j) {
            tile_o[i][j][0] = tile_o[i][j][1] = tile_o[i][j][2] = tile_o[i][j][3] = 0.0f;
          }
        }
#pragma unroll 1
        for (int st = stage_begin; st < stage_end; ++st) {
          const uint32_t values = acquire();
#pragma unroll
          for (int half = 0; half < 2; ++half) {  // 32 keys
            uint32_t a[kM][2][4];
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
              for (int k = 0; k < 2; ++k) {
                const int r = i * 16 + lane % 16, piece = st * 8 + half * 4 + k * 2 + lane / 16;
                ptx::load_matrix_x4(a[i][k], p_at + r * 512 + ((piece ^ (r & 7)) * 16));
              }
            }
#pragma unroll
            for (int j = 0; j < C::kColumns; ++j) {
              const int column = warp + 4 * j;
              if (kD / 8 % 4 != 0 && column >= kD / 8) continue;
              uint32_t b[4];
              ldmatrix4_trans(b,
                              values + (half * 2 + lane / 16) * (16 * kD * 2) + piece_offset<kD>(lane % 16, column));
#pragma unroll
              for (int i = 0; i < kM; ++i) {
                ptx::mma_16816<T>(tile_o[i][j], a[i][0], b[0], b[1]);
                ptx::mma_16816<T>(tile_o[i][j], a[i][1], b[2], b[3]);
              }
            }
          }
          release();
        }
        // Merge.
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float* chains = row_sum + (i * 16 + lane / 4 + h * 8) * 16 + lane % 4;
            float sum = __fadd_rn(__fadd_rn(__fadd_rn(chains[0], chains[4]), chains[8]), chains[12]);
            sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
            sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
            float a, b;
            merge_factors(state.m[i][h], tile_m[i][h], a, b);
            state.l[i][h] = merged(state.l[i][h], a, sum, b);
#pragma unroll
            for (int j = 0; j < C::kColumns; ++j) {
              state.o[i][j][h * 2] = merged(state.o[i][j][h * 2], a, tile_o[i][j][h * 2], b);
              state.o[i][j][h * 2 + 1] = merged(state.o[i][j][h * 2 + 1], a, tile_o[i][j][h * 2 + 1], b);
            }
          }
        }
      }
      if (!s.first) store_partial<kD, kM>(p, state, s.partial + (tile - s.tile_begin), rows);
    }
    if (s.partial < 0) {
      store_rows<T, kD, kM>(p, state, s, rows);
    } else if (s.first) {
      store_partial<kD, kM>(p, state, s.partial, rows);
    }
  }
}

template <typename T, int kD, int kM, bool kBulk>
Status launch_tiles(const AttentionParams& p, int32_t workers, const LaunchOn& on) {
  using C = TileConfig<T, kD, kM, kBulk>;
  return launch("attention tile_kernel", tile_kernel<T, kD, kM, kBulk>,
                Grid{dim3(workers), dim3(C::kThreads), C::kSmem}, on, p);
}

}  // namespace bora::cuda
