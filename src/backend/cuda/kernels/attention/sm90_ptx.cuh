// Instructions of sm_90a that the prefill kernel needs: mbarriers, bulk copies, wgmma, register hand-over.
#pragma once

#include "backend/cuda/kernels/attention/ptx.cuh"

namespace bora::cuda {

__device__ __forceinline__ void barrier_init(uint32_t at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count));
}
__device__ __forceinline__ void barrier_arrive(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void barrier_arrive_expect(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t at, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(at),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void bulk_copy(uint32_t dst, const void* src, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
               "l"(src), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Barrier `id` over `threads` threads: wait, or only announce.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int N>
__device__ __forceinline__ void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ __forceinline__ void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// Shared-memory matrix in 128-byte swizzle. K-major: `stride` = bytes between groups of 8 rows. MN-major:
// `leading` = bytes between groups of 64 columns, `stride` = bytes between groups of 8 k.
__device__ __forceinline__ uint64_t wgmma_matrix(uint32_t at, int leading, int stride) {
  return (uint64_t{1} << 62) | (static_cast<uint64_t>(stride >> 4) << 32) |
         (static_cast<uint64_t>(leading >> 4) << 16) | ((at & 0x3ffff) >> 4);
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Keeps the compiler from moving uses of accumulators across a wait.
template <int N>
__device__ __forceinline__ void pin(float (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int N>
__device__ __forceinline__ void pin(uint32_t (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

#define BORA_R8(d, i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define BORA_R32(d, i) BORA_R8(d, i), BORA_R8(d, i + 8), BORA_R8(d, i + 16), BORA_R8(d, i + 24)
#define BORA_L32                                                                                            \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%" \
  "28,%29,%30,%31"
#define BORA_L64                                                                                       \
  BORA_L32                                                                                             \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%" \
  "56,%57,%58,%59,%60,%61,%62,%63"

// d[64 rows, N] = (accumulate ? d : 0) + a b, one 16-deep step; N = 2 * size of d. Two overloads by N, two by
// where a lies.
#define BORA_WGMMA(ELEMENT, NAME)                                                                            \
  __device__ __forceinline__ void wgmma(float(&d)[64], uint64_t a, uint64_t b, int accumulate, ELEMENT) {    \
    asm volatile(                                                                                            \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                         \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" BORA_L64                           \
        "}, %64, %65, p, 1, 1, 0, 0;\n}\n"                                                                   \
        : BORA_R32(d, 0), BORA_R32(d, 32)                                                                    \
        : "l"(a), "l"(b), "r"(accumulate));                                                                  \
  }                                                                                                          \
  __device__ __forceinline__ void wgmma_values(float(&d)[64], const uint32_t* a, uint64_t b, int accumulate, \
                                               ELEMENT) {                                                    \
    asm volatile(                                                                                            \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                                         \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" BORA_L64                           \
        "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}\n"                                                        \
        : BORA_R32(d, 0), BORA_R32(d, 32)                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                              \
  }                                                                                                          \
  __device__ __forceinline__ void wgmma_values(float(&d)[32], const uint32_t* a, uint64_t b, int accumulate, \
                                               ELEMENT) {                                                    \
    asm volatile(                                                                                            \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                         \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" BORA_L32                            \
        "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;\n}\n"                                                        \
        : BORA_R32(d, 0)                                                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                              \
  }
BORA_WGMMA(__nv_bfloat16, "bf16")
BORA_WGMMA(__half, "f16")
#undef BORA_WGMMA

}  // namespace bora::cuda
