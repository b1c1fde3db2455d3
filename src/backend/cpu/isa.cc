#include "backend/cpu/isa.h"

#include <cpuid.h>

#include <array>

#include "backend/cpu/kernels.h"

namespace bora::cpu {
namespace {

struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Cpuid cpuid(unsigned leaf, unsigned sub) {
  Cpuid r;
  if (__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d) == 0) r = {};
  return r;
}

bool bit(unsigned word, int n) { return (word >> n & 1u) != 0; }

// Which register files the operating system saves: XCR0.
unsigned enabled_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;  // OSXSAVE
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has_avx2() {
  const Cpuid one = cpuid(1, 0), seven = cpuid(7, 0);
  const bool saved = (enabled_state() & 0x6u) == 0x6u;
  return saved && bit(one.c, 12) && bit(one.c, 28) && bit(one.c, 29) && bit(seven.b, 5);
}

bool has_avx512_vnni() {
  const Cpuid seven = cpuid(7, 0);
  const bool saved = (enabled_state() & 0xE6u) == 0xE6u;
  return has_avx2() && saved && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31) &&
         bit(seven.c, 11);
}

bool has_avx512_bf16() { return has_avx512_vnni() && bit(cpuid(7, 1).a, 5); }

bool has_amx() {
  const Cpuid seven = cpuid(7, 0);
  const bool saved = (enabled_state() & 0x60000u) == 0x60000u;
  return has_avx512_bf16() && saved && bit(seven.d, 24) && bit(seven.d, 25);
}

const IsaLevel kAvx2{
    .name = "avx2", .needs = "AVX2, FMA and F16C (x86-64-v3)", .present = has_avx2, .kernels = &kKernelsAvx2};
const IsaLevel kAvx512Vnni{.name = "avx512-vnni",
                           .needs = "AVX-512 F, BW, VL, DQ and VNNI",
                           .present = has_avx512_vnni,
                           .kernels = &kKernelsAvx512Vnni};
// The next two have kernels of their own where they gain; today they run the level below.
const IsaLevel kAvx512Bf16{.name = "avx512-bf16",
                           .needs = "AVX-512 VNNI and BF16",
                           .present = has_avx512_bf16,
                           .kernels = &kKernelsAvx512Vnni};
const IsaLevel kAmx{.name = "amx",
                    .needs = "AMX int8 tiles that the system enables",
                    .present = has_amx,
                    .kernels = &kKernelsAvx512Vnni};

constexpr std::array<const IsaLevel*, 4> kLevels{&kAvx2, &kAvx512Vnni, &kAvx512Bf16, &kAmx};

}  // namespace

std::span<const IsaLevel* const> isa_levels() { return kLevels; }

Result<const IsaLevel*> choose_isa(std::string_view name) {
  const IsaLevel* best = nullptr;
  for (const IsaLevel* level : kLevels) {
    if (!name.empty() && level->name != name) continue;
    if (level->present()) best = level;
    if (level->name == name && best == nullptr) {
      return failed_precondition("this processor does not have level '" + std::string(name) + "': it needs " +
                                 std::string(level->needs));
    }
  }
  if (best != nullptr) return best;
  if (name.empty())
    return failed_precondition("this processor lacks " + std::string(kAvx2.needs) + ", which the CPU backend needs");
  std::string known;
  for (const IsaLevel* level : kLevels) known += (known.empty() ? "" : ", ") + std::string(level->name);
  return invalid_argument("no instruction-set level '" + std::string(name) + "'; known: " + known);
}

}  // namespace bora::cpu
