// The tile kernels that exist, and what they are launched with.
#pragma once

#include <cuda.h>

#include <span>

#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/linear/format.h"
#include "backend/cuda/kernels/linear/output.h"

namespace bora::cuda {

struct TileParams {
  CUtensorMap x_map;  // [m, k] in boxes of the tile's tokens x 64 columns, 128-byte swizzle
  const uint8_t* weights;
  float4* workspace;  // [block][published][warpgroup][token tile][thread]
  uint32_t* flags;    // [block][warpgroup]: 1 when its pieces are published
  LinearOut out;
  int64_t row_tile_bytes;
  int32_t row_tiles;    // of 16 rows
  int32_t token_tiles;  // the tiles of a row of tiles
  int32_t tiles;
  int32_t tile_step;  // > 0: a block takes every tile_step-th tile; 0: runs of units
  int32_t run;        // units a block, one more for the first longer_runs
  int32_t longer_runs;
  int32_t published;  // pieces that a block may publish
  int32_t pairs;      // y and residual take 4-byte accesses
  int32_t pieces;
  int32_t piece_k[9];
  int32_t piece_block[9];
};

struct TileEntry {
  LinearFormat format;
  int32_t tokens = 0;
  bool f16 = false;
  Status (*launch)(const TileParams& params, const Grid& grid, const LaunchOn& on) = nullptr;
};

std::span<const TileEntry> tile_bf16();
std::span<const TileEntry> tile_f16();
std::span<const TileEntry> tile_fp8_bf16();
std::span<const TileEntry> tile_fp8_block_bf16();
std::span<const TileEntry> tile_int8_g32_bf16();
std::span<const TileEntry> tile_int4_g128_bf16();
std::span<const TileEntry> tile_int4_g128_zero_bf16();
std::span<const TileEntry> tile_int4_g32_bf16();
std::span<const TileEntry> tile_int4_g32_zero_bf16();

}  // namespace bora::cuda
