#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D256R16 = {DType::kF16, 256, 16, launch_tiles<__half, 256, 1>};
}  // namespace bora::cuda
