// What the flat kernel is launched with; between the planner, the launcher and the kernel only.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/linear/format.h"
#include "backend/cuda/kernels/linear/output.h"

namespace bora::cuda {

struct FlatParams {
  const uint8_t* weights;
  const void* x;
  int64_t x_stride;
  LinearOut out;
  int64_t row_tile_bytes;
  int32_t row_tiles;  // of 16 rows
  int32_t tiles;      // of a cluster
  int32_t cluster_log2;
  int32_t x_blocks;     // blocks of each piece held in shared memory at once
  int32_t x_row_bytes;  // of a token's row in shared memory
  int32_t x_rows;       // token rows in shared memory
  int32_t x_buffers;    // 1, or 2 when x is held in parts
  int32_t release_lead;
  int32_t pieces;
  int32_t piece_k[9];
  int32_t piece_block[9];
};

// Depth of the ring of weight blocks: about 96 KB a thread block, so that two fit a multiprocessor under dependent
// launch.
constexpr int32_t flat_stages(const LinearFormat& format, int32_t warps, int32_t rows) {
  const int32_t fit = 98 * 1024 / (warps * rows * format.block_bytes());
  return fit < 3 ? 3 : fit > 8 ? 8 : fit;
}
// Small sums are kept twice, which saves a barrier a tile.
constexpr int32_t flat_sum_buffers(int32_t rows, int32_t tokens) { return rows * tokens <= 2 ? 2 : 1; }
constexpr int64_t flat_ring_bytes(const LinearFormat& format, int32_t warps, int32_t rows) {
  return int64_t{warps} * flat_stages(format, warps, rows) * rows * format.block_bytes();
}
constexpr int64_t flat_sum_bytes(int32_t warps, int32_t rows, int32_t tokens) {
  return int64_t{warps} * 8 * tokens * (16 * rows + 4) * 4 * flat_sum_buffers(rows, tokens);
}

}  // namespace bora::cuda
