// Sizes of the tile form (sm_90a) that its planner, launcher and kernel share.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/linear/format.h"

namespace bora::cuda {

constexpr int32_t kTileRows = 128;  // rows of W a thread block: two warpgroups of 64
constexpr int32_t kTileRowTiles = kTileRows / 16;

// Up to 64 tokens two thread blocks fit a multiprocessor, so that the next kernel's loads start before this one ends;
// the scaled formats need the registers of both from 64 tokens on.
constexpr int32_t tile_blocks_per_sm(const LinearFormat& format, int32_t tokens) {
  return tokens <= (format.codes == Codes::k16 ? 64 : 32) ? 2 : 1;
}
constexpr int32_t tile_producer_threads(int32_t tokens) { return tokens >= 128 ? 128 : 32; }
constexpr int32_t tile_threads(int32_t tokens) { return 256 + tile_producer_threads(tokens); }
constexpr int32_t tile_x_bytes(const LinearFormat& format, int32_t tokens) { return tokens * 2 * format.block_k(); }
constexpr int32_t tile_slot_bytes(const LinearFormat& format, int32_t tokens) {
  return tile_x_bytes(format, tokens) + kTileRowTiles * format.block_bytes();
}
constexpr int32_t tile_stages(const LinearFormat& format, int32_t tokens) {
  const int32_t room = tile_blocks_per_sm(format, tokens) == 2 ? 111 * 1024 : 223 * 1024;
  const int32_t fit = room / tile_slot_bytes(format, tokens);
  return fit > 10 ? 10 : fit;
}
// Filling to a multiple of 1,024, the ring, two barriers a slot.
constexpr int64_t tile_shared_bytes(const LinearFormat& format, int32_t tokens) {
  return 1024 + int64_t{tile_stages(format, tokens)} * (tile_slot_bytes(format, tokens) + 16);
}

}  // namespace bora::cuda
