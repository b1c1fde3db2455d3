// Instruction-set levels of x86-64 that kernels are built for, chosen at start by CPUID. The program itself is plain
// x86-64: it starts anywhere and says what is missing.
//
// Quantized weights give the same bits at every level; so do the other kernels of this folder, which use the same
// operations on sixteen lanes in the same order, whatever the register width.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace bora::cpu {

struct Kernels;  // kernels.h

struct IsaLevel {
  std::string_view name;   // "avx2", "avx512-vnni", "avx512-bf16", "amx"
  std::string_view needs;  // in words
  bool (*present)();       // does this machine have it?
  const Kernels* kernels;  // never null
};

// From weakest to strongest.
std::span<const IsaLevel* const> isa_levels();
// The strongest present, or the one of that name. kFailedPrecondition: the machine has none, or not that one (the
// message says what is missing); kInvalidArgument: no such name.
Result<const IsaLevel*> choose_isa(std::string_view name);

}  // namespace bora::cpu
