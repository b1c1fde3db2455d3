#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileF16D96R16 = {DType::kF16, 96, 16, 80, launch_tiles<__half, 96, 1, false>};
}  // namespace bora::cuda
