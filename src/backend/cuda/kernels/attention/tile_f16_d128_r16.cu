#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D128R16 = {DType::kF16, 128, 16, launch_tiles<__half, 128, 1>};
}  // namespace bora::cuda
