#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kTileBf16D96R16 = {DType::kBF16, 96, 16, 80, launch_tiles<__nv_bfloat16, 96, 1, false>};
}  // namespace bora::cuda
