#include "backend/cuda/kernels/linear/sm90_tile.cuh"

namespace bora::cuda {

std::span<const TileEntry> tile_fp8_block_bf16() {
  return kTileEntries<FormatOf<Codes::kFp8, 0, false, true>, __nv_bfloat16>;
}

}  // namespace bora::cuda
