#include "backend/cuda/kernels/linear/sm90_tile.cuh"

namespace bora::cuda {

std::span<const TileEntry> tile_int8_g32_bf16() { return kTileEntries<FormatOf<Codes::kInt8, 32>, __nv_bfloat16>; }

}  // namespace bora::cuda
