#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D80R64 = {DType::kF16, 80, 64, 80, launch_tiles<__half, 80, 4, false>};
}  // namespace bora::cuda
