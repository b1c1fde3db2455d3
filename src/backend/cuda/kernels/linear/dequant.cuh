// From packed words to the A operand of mma.m16n8k16, exactly: every code is a small number that bf16 and f16 hold
// without rounding; scales are applied to float32 sums, never to the operands.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/common/ptx.cuh"
#include "backend/cuda/kernels/linear/format.h"

namespace bora::cuda {

template <uint32_t kLut>
__device__ __forceinline__ uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(kLut));
  return d;
}
constexpr uint32_t kAndOr = (0xF0 & 0xCC) | 0xAA;  // (a & b) | c

template <typename T>
__device__ __forceinline__ uint32_t sub2(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ uint32_t sub2<__nv_bfloat16>(uint32_t a, uint32_t b) {
  uint32_t d;  // a * 1 - b: one instruction from sm_80 on
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(0x3F803F80u), "r"(b ^ 0x80008000u));
  return d;
}
template <>
__device__ __forceinline__ uint32_t sub2<__half>(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// Operands of step `kStep` of a chunk. `zero[h]`: INT4, 128 + zero point of row g + 8h as bf16 pairs.
template <Codes kCodes, typename T>
struct Dequant;

template <typename T>
struct Dequant<Codes::k16, T> {
  template <int kStep>
  __device__ static __forceinline__ void run(const uint4& q, const uint32_t (&)[2], uint32_t (&a)[4]) {
    a[0] = q.x, a[1] = q.y, a[2] = q.z, a[3] = q.w;
  }
};

__device__ __forceinline__ uint32_t word_of(const uint4& q, int i) {
  return i == 0 ? q.x : i == 1 ? q.y : i == 2 ? q.z : q.w;
}

// e4m3 shifted into the exponent field is the value times a power of two, denormals included; the factor brings it
// back.
template <typename T>
struct Dequant<Codes::kFp8, T> {
  __device__ static __forceinline__ uint32_t high_bytes(uint32_t q) {
    if constexpr (sizeof(T) == 2 && std::is_same_v<T, __nv_bfloat16>) {
      const uint32_t v = lop3<kAndOr>(q >> 4, 0x07F007F0u, q & 0x80008000u);
      uint32_t d;
      asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(v), "r"(0x7B807B80u), "r"(0x80008000u));  // times 2^120
      return d;
    } else {
      const uint32_t v = lop3<kAndOr>(q >> 1, 0x3F803F80u, q & 0x80008000u);
      uint32_t d;
      asm("mul.f16x2 %0, %1, %2;" : "=r"(d) : "r"(v), "r"(0x5C005C00u));  // times 2^8
      return d;
    }
  }
  template <int kStep>
  __device__ static __forceinline__ void run(const uint4& q, const uint32_t (&)[2], uint32_t (&a)[4]) {
    const uint32_t w0 = word_of(q, 2 * kStep), w1 = word_of(q, 2 * kStep + 1);
    a[0] = high_bytes(w0 << 8), a[1] = high_bytes(w0);
    a[2] = high_bytes(w1 << 8), a[3] = high_bytes(w1);
  }
};

// Two's complement as (128 + low seven bits) - (128 + sign bit), both exact under the bits of 128.
template <typename T>
struct Dequant<Codes::kInt8, T> {
  __device__ static __forceinline__ uint32_t low_bytes(uint32_t q) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return sub2<T>(lop3<kAndOr>(q, 0x007F007Fu, 0x43004300u), lop3<kAndOr>(q, 0x00800080u, 0x43004300u));
    } else {
      return sub2<T>(lop3<kAndOr>(q, 0x007F007Fu, 0x64006400u), lop3<kAndOr>(q, 0x00800080u, 0x64006400u));
    }
  }
  template <int kStep>
  __device__ static __forceinline__ void run(const uint4& q, const uint32_t (&)[2], uint32_t (&a)[4]) {
    const uint32_t w0 = word_of(q, 2 * kStep), w1 = word_of(q, 2 * kStep + 1);
    a[0] = low_bytes(w0), a[1] = low_bytes(w0 >> 8);
    a[2] = low_bytes(w1), a[3] = low_bytes(w1 >> 8);
  }
};

template <typename T>
struct Dequant<Codes::kInt4, T> {
  __device__ static __forceinline__ uint32_t low_nibbles(uint32_t q, uint32_t zero) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return sub2<T>(lop3<kAndOr>(q, 0x000F000Fu, 0x43004300u), zero);
    } else {
      // 1024 + v minus 1024 + z: the zero point's bits move over from the bf16 of 128 + z.
      return sub2<T>(lop3<kAndOr>(q, 0x000F000Fu, 0x64006400u), lop3<kAndOr>(zero, 0x007F007Fu, 0x64006400u));
    }
  }
  template <int kStep>
  __device__ static __forceinline__ void run(const uint4& q, const uint32_t (&zero)[2], uint32_t (&a)[4]) {
    const uint32_t w = word_of(q, kStep);
    a[0] = low_nibbles(w, zero[0]), a[1] = low_nibbles(w >> 4, zero[1]);
    a[2] = low_nibbles(w >> 8, zero[0]), a[3] = low_nibbles(w >> 12, zero[1]);
  }
};

}  // namespace bora::cuda
