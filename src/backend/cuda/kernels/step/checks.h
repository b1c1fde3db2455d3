// Argument checks shared by the launchers of this folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tensor/dtype.h"

namespace bora::cuda {

inline bool aligned16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }

// Present (unless optional) and aligned to 16 bytes.
inline Status check_pointer(const char* op, const char* name, const void* p, bool optional = false) {
  if (p == nullptr && !optional) return invalid_argument(std::string(op) + ": " + name + " is null");
  if (!aligned16(p)) return invalid_argument(std::string(op) + ": " + name + " is not aligned to 16 bytes");
  return ok_status();
}

inline Status check_half(const char* op, DType t) {
  if (t == DType::kBF16 || t == DType::kF16) return ok_status();
  return unimplemented(std::string(op) + ": activations of " + std::string(dtype_name(t)) +
                       "; bf16 and f16 have kernels");
}

// 0 < value <= most, a multiple of `unit`.
inline Status check_size(const char* op, const char* name, int64_t value, int64_t unit, int64_t most) {
  if (value > 0 && value <= most && value % unit == 0) return ok_status();
  return invalid_argument(std::string(op) + ": " + name + " = " + std::to_string(value) + "; a multiple of " +
                          std::to_string(unit) + " up to " + std::to_string(most) + " is needed");
}

inline Status check_stride(const char* op, const char* name, int64_t stride, int64_t unit) {
  if (stride % unit == 0) return ok_status();
  return invalid_argument(std::string(op) + ": " + name + " = " + std::to_string(stride) + " is no multiple of " +
                          std::to_string(unit) + " elements");
}

}  // namespace bora::cuda
