#include "backend/cuda/kernels/attention/tile_kernel.cuh"

namespace bora::cuda {
extern const TileKernel kSm90TileBf16D80R16 = {DType::kBF16, 80, 16, 90, launch_tiles<__nv_bfloat16, 80, 1, true>};
}  // namespace bora::cuda
