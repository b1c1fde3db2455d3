#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D256R32 = {DType::kBF16, 256, 32, 80, launch_tiles<__nv_bfloat16, 256, 2, false>};
}  // namespace bora::cuda
