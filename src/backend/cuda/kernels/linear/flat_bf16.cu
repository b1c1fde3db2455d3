#include "backend/cuda/kernels/linear/flat.cuh"

namespace bora::cuda {

std::span<const FlatEntry> flat_bf16() { return kFlatEntries<FormatOf<Codes::k16>, __nv_bfloat16>; }

}  // namespace bora::cuda
