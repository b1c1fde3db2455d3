#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D96R64 = {DType::kF16, 96, 64, 80, launch_tiles<__half, 96, 4, false>};
}  // namespace bora::cuda
