#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D128R64 = {DType::kBF16, 128, 64, 80, launch_tiles<__nv_bfloat16, 128, 4, false>};
}  // namespace bora::cuda
