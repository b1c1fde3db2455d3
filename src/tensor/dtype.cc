#include "tensor/dtype.h"

#include <array>

namespace bora {
namespace {

struct Names {
  DType type;
  std::string_view name, safetensors;
};

constexpr std::array<Names, 15> kNames{{
    {DType::kF64, "f64", "F64"},
    {DType::kF32, "f32", "F32"},
    {DType::kF16, "f16", "F16"},
    {DType::kBF16, "bf16", "BF16"},
    {DType::kF8E4M3, "f8_e4m3", "F8_E4M3"},
    {DType::kF8E5M2, "f8_e5m2", "F8_E5M2"},
    {DType::kI64, "i64", "I64"},
    {DType::kI32, "i32", "I32"},
    {DType::kI16, "i16", "I16"},
    {DType::kI8, "i8", "I8"},
    {DType::kU64, "u64", "U64"},
    {DType::kU32, "u32", "U32"},
    {DType::kU16, "u16", "U16"},
    {DType::kU8, "u8", "U8"},
    {DType::kBool, "bool", "BOOL"},
}};

}  // namespace

std::string_view dtype_name(DType t) {
  for (const Names& n : kNames) {
    if (n.type == t) return n.name;
  }
  return "?";
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Names& n : kNames) {
    if (n.safetensors == name) return n.type;
  }
  return std::nullopt;
}

}  // namespace bora
