#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D64R64 = {DType::kF16, 64, 64, 80, launch_tiles<__half, 64, 4, false>};
}  // namespace bora::cuda
