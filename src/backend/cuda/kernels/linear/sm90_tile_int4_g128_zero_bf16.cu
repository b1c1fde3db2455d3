#include "backend/cuda/kernels/linear/sm90_tile.cuh"

namespace bora::cuda {

std::span<const TileEntry> tile_int4_g128_zero_bf16() {
  return kTileEntries<FormatOf<Codes::kInt4, 128, true>, __nv_bfloat16>;
}

}  // namespace bora::cuda
