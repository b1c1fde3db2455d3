#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D256R16 = {DType::kBF16, 256, 16, 80, launch_tiles<__nv_bfloat16, 256, 1, false>};
}  // namespace bora::cuda
