#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D64R16 = {DType::kF16, 64, 16, 80, launch_tiles<__half, 64, 1, false>};
}  // namespace bora::cuda
