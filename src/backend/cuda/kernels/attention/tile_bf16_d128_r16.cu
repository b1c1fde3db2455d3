#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D128R16 = {DType::kBF16, 128, 16, 80, launch_tiles<__nv_bfloat16, 128, 1, false>};
}  // namespace bora::cuda
