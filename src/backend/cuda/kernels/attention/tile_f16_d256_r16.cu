#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D256R16 = {DType::kF16, 256, 16, 80, launch_tiles<__half, 256, 1, false>};
}  // namespace bora::cuda
