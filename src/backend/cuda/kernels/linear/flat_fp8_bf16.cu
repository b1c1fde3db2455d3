#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_fp8_bf16() { return kFlatEntries<FormatOf<Codes::kFp8>, __nv_bfloat16>; }

}  // namespace bora::cuda
