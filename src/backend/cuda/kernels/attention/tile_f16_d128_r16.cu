#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D128R16 = {DType::kF16, 128, 16, 80, launch_tiles<__half, 128, 1, false>};
}  // namespace bora::cuda
