// The kernels of one level; compiled with its instruction set. The lanes come first: the generic files are written
// over them.
// clang-format off
#include "backend/cpu/vec_avx512.h"
#include "backend/cpu/kernels_inl.h"
// clang-format on

namespace bora::cpu {

const Kernels kKernelsAvx512Vnni{.quantize = quantize,
                                 .linear_q = linear_q,
                                 .linear_f = linear_f,
                                 .rms_norm = rms_norm,
                                 .add = add,
                                 .scale = scale,
                                 .silu_mul = silu_mul,
                                 .gelu_tanh_mul = gelu_tanh_mul,
                                 .attention = attention,
                                 .store_kv = store_kv};

}  // namespace bora::cpu
