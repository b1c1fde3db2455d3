// The list of compiled flat kernels: one entry function a format and activation type, each in a file of its own.
#pragma once

#include <span>

#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/linear/flat_params.h"

namespace bora::cuda {

struct FlatEntry {
  LinearFormat format;
  int32_t warps = 0, rows = 0, tokens = 0;
  bool f16 = false;
  Status (*launch)(const FlatParams& params, const Grid& grid, const LaunchOn& on) = nullptr;
};

std::span<const FlatEntry> flat_bf16();
std::span<const FlatEntry> flat_f16();
std::span<const FlatEntry> flat_fp8_bf16();
std::span<const FlatEntry> flat_fp8_block_bf16();
std::span<const FlatEntry> flat_int8_g32_bf16();
std::span<const FlatEntry> flat_int4_g128_bf16();
std::span<const FlatEntry> flat_int4_g128_zero_bf16();
std::span<const FlatEntry> flat_int4_g32_bf16();
std::span<const FlatEntry> flat_int4_g32_zero_bf16();

}  // namespace bora::cuda
