#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D80R16 = {DType::kF16, 80, 16, 80, launch_tiles<__half, 80, 1, false>};
}  // namespace bora::cuda
