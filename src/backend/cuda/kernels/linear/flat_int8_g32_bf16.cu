#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_int8_g32_bf16() { return kFlatEntries<FormatOf<Codes::kInt8, 32>, __nv_bfloat16>; }

}  // namespace bora::cuda
