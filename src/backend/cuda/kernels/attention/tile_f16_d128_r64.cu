#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D128R64 = {DType::kF16, 128, 64, 80, launch_tiles<__half, 128, 4, false>};
}  // namespace bora::cuda
