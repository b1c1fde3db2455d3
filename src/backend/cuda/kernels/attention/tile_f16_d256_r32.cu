#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D256R32 = {DType::kF16, 256, 32, 80, launch_tiles<__half, 256, 2, false>};
}  // namespace bora::cuda
