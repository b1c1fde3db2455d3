#include "backend/cuda/kernels/linear/sm90_tile.cuh"

namespace bora::cuda {

std::span<const TileEntry> tile_f16() { return kTileEntries<FormatOf<Codes::k16>, __half>; }

}  // namespace bora::cuda
