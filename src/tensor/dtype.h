// Element types of host and device tensors. A closed set: quantized blocks are schemes (quant), not dtypes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bora {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

constexpr int32_t dtype_bytes(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

std::string_view dtype_name(DType t);                                // "f32", "bf16", "f8_e4m3", "i32", …
std::optional<DType> dtype_from_safetensors(std::string_view name);  // "F32", "BF16", "F8_E4M3", …

}  // namespace bora
