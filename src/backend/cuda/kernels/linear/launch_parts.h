// What the launchers of both forms do alike. Host code.
#pragma once

#include <string>

#include "backend/cuda/kernels/linear/format.h"
#include "base/status.h"

namespace bora::cuda {

// The cut of K as a kernel's parameters take it.
template <typename Params>
void set_pieces(const LinearShape& shape, Params* p) {
  p->pieces = shape.pieces;
  for (int32_t i = 0; i < 9; ++i) {
    p->piece_k[i] = shape.piece_k[i];
    p->piece_block[i] = shape.piece_block[i];
  }
}

inline Status no_linear_kernel(const LinearFormat& format) {
  return unimplemented("linear: no kernel for " + std::to_string(format.bits()) + "-bit weights in groups of " +
                       std::to_string(format.group) + " with these activations and this plan");
}

}  // namespace bora::cuda
