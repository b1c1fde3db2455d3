#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D64R64 = {DType::kBF16, 64, 64, 80, launch_tiles<__nv_bfloat16, 64, 4, false>};
}  // namespace bora::cuda
