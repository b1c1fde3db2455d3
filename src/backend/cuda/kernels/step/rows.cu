// Embedding, row gather, add and activations: one pass, 16 bytes a thread, bound by memory.
#include "backend/cuda/kernels/common/launch.cuh"
#include "backend/cuda/kernels/step/checks.h"
#include "backend/cuda/kernels/step/step.h"
#include "backend/cuda/kernels/step/vector.cuh"

namespace bora::cuda {
namespace {

constexpr int kThreads = 256;

dim3 row_grid(int32_t dim, int32_t rows) { return dim3((dim / 8 + kThreads - 1) / kThreads, rows); }

template <typename T>
__global__ void embed_kernel(const __grid_constant__ EmbedArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int piece = blockIdx.x * kThreads + threadIdx.x, token = blockIdx.y;
  const int32_t id = p.ids[token];
  if (piece >= p.dim / 8 || id < 0) return;
  float x[8] = {};
  if (id < p.vocab) load8(x, static_cast<const T*>(p.table) + int64_t{id} * p.dim + piece * 8);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] *= p.scale;
  store8(static_cast<T*>(p.out) + token * p.out_stride + piece * 8, x);
}

__global__ void gather_kernel(const __grid_constant__ GatherArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int piece = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (piece >= p.dim / 8) return;
  const uint16_t* from = static_cast<const uint16_t*>(p.in) + p.rows[row] * p.in_stride + piece * 8;
  *reinterpret_cast<uint4*>(static_cast<uint16_t*>(p.out) + row * p.out_stride + piece * 8) =
      *reinterpret_cast<const uint4*>(from);
}

template <typename T>
__global__ void add_kernel(const __grid_constant__ AddArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 8;
  if (at >= p.count) return;
  float a[8], b[8];
  load8(a, static_cast<const T*>(p.a) + at);
  load8(b, static_cast<const T*>(p.b) + at);
#pragma unroll
  for (int i = 0; i < 8; ++i) a[i] += b[i];
  store8(static_cast<T*>(p.out) + at, a);
}

template <typename T>
__global__ void widen_kernel(const __grid_constant__ WidenArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 8;
  if (at >= p.count) return;
  float x[8];
  load8(x, static_cast<const T*>(p.in) + at);
  *reinterpret_cast<float4*>(p.out + at) = make_float4(x[0], x[1], x[2], x[3]);
  *reinterpret_cast<float4*>(p.out + at + 4) = make_float4(x[4], x[5], x[6], x[7]);
}

__global__ void advance_kernel(const __grid_constant__ AdvanceArgs p, int32_t block_shift) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= p.rows) return;
  const int32_t at = p.pos[row] + 1;
  p.pos[row] = at;
  p.kv_len[row] = at + 1;
  const int32_t block = p.table[int64_t{row} * p.table_stride + (at >> block_shift)];
  p.slot[row] = (block << block_shift) + (at & (p.block_tokens - 1));
}

template <Activation kAct>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kAct == Activation::kSilu) return x / (1.0f + exp2f(-x * kLog2e));
  if constexpr (kAct == Activation::kSigmoid) return 1.0f / (1.0f + exp2f(-x * kLog2e));
  if constexpr (kAct == Activation::kGeluTanh) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  }
  if constexpr (kAct == Activation::kGeluErf) return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
  if constexpr (kAct == Activation::kRelu) return fmaxf(x, 0.0f);
  const float r = fmaxf(x, 0.0f);
  return r * r;
}

template <typename T, Activation kAct>
__global__ void activation_kernel(const __grid_constant__ ActivationArgs p) {
  ptx::wait_for_producers();
  ptx::release_dependents();
  const int piece = blockIdx.x * kThreads + threadIdx.x, token = blockIdx.y;
  if (piece >= p.dim / 8) return;
  float g[8], u[8];
  load8(g, static_cast<const T*>(p.gate) + token * p.gate_stride + piece * 8);
  if (p.up != nullptr) load8(u, static_cast<const T*>(p.up) + token * p.up_stride + piece * 8);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float a = activate<kAct>(g[i]);
    g[i] = p.up != nullptr ? a * u[i] : a;
  }
  store8(static_cast<T*>(p.out) + token * p.out_stride + piece * 8, g);
}

using ActivationKernel = void (*)(ActivationArgs);
struct ActivationRow {
  Activation act;
  ActivationKernel bf16, f16;
};
template <Activation kAct>
constexpr ActivationRow row() {
  return {kAct, activation_kernel<__nv_bfloat16, kAct>, activation_kernel<__half, kAct>};
}

}  // namespace

Status launch_embed(const EmbedArgs& a, const LaunchOn& on) {
  BORA_TRY(check_half("embed", a.dtype));
  BORA_TRY(check_pointer("embed", "ids", a.ids));
  BORA_TRY(check_pointer("embed", "table", a.table));
  BORA_TRY(check_pointer("embed", "out", a.out));
  BORA_TRY(check_size("embed", "dim", a.dim, 8, 1 << 20));
  BORA_TRY(check_size("embed", "tokens", a.tokens, 1, 65535));
  BORA_TRY(check_stride("embed", "out_stride", a.out_stride, 8));
  const Grid grid{row_grid(a.dim, a.tokens), kThreads};
  return a.dtype == DType::kBF16 ? launch("embed", embed_kernel<__nv_bfloat16>, grid, on, a)
                                 : launch("embed", embed_kernel<__half>, grid, on, a);
}

Status launch_gather_rows(const GatherArgs& a, const LaunchOn& on) {
  BORA_TRY(check_half("gather_rows", a.dtype));
  BORA_TRY(check_pointer("gather_rows", "in", a.in));
  BORA_TRY(check_pointer("gather_rows", "rows", a.rows));
  BORA_TRY(check_pointer("gather_rows", "out", a.out));
  BORA_TRY(check_size("gather_rows", "dim", a.dim, 8, 1 << 20));
  BORA_TRY(check_size("gather_rows", "count", a.count, 1, 65535));
  BORA_TRY(check_stride("gather_rows", "in_stride", a.in_stride, 8));
  BORA_TRY(check_stride("gather_rows", "out_stride", a.out_stride, 8));
  return launch("gather_rows", gather_kernel, Grid{row_grid(a.dim, a.count), kThreads}, on, a);
}

Status launch_add(const AddArgs& a, const LaunchOn& on) {
  BORA_TRY(check_half("add", a.dtype));
  BORA_TRY(check_pointer("add", "a", a.a));
  BORA_TRY(check_pointer("add", "b", a.b));
  BORA_TRY(check_pointer("add", "out", a.out));
  BORA_TRY(check_size("add", "count", a.count, 8, int64_t{1} << 38));
  const Grid grid{dim3(static_cast<unsigned>((a.count / 8 + kThreads - 1) / kThreads)), kThreads};
  return a.dtype == DType::kBF16 ? launch("add", add_kernel<__nv_bfloat16>, grid, on, a)
                                 : launch("add", add_kernel<__half>, grid, on, a);
}

Status launch_widen(const WidenArgs& a, const LaunchOn& on) {
  BORA_TRY(check_half("widen", a.dtype));
  BORA_TRY(check_pointer("widen", "in", a.in));
  BORA_TRY(check_pointer("widen", "out", a.out));
  BORA_TRY(check_size("widen", "count", a.count, 8, int64_t{1} << 38));
  const Grid grid{dim3(static_cast<unsigned>((a.count / 8 + kThreads - 1) / kThreads)), kThreads};
  return a.dtype == DType::kBF16 ? launch("widen", widen_kernel<__nv_bfloat16>, grid, on, a)
                                 : launch("widen", widen_kernel<__half>, grid, on, a);
}

Status launch_advance(const AdvanceArgs& a, const LaunchOn& on) {
  BORA_TRY(check_pointer("advance", "pos", a.pos));
  BORA_TRY(check_pointer("advance", "kv_len", a.kv_len));
  BORA_TRY(check_pointer("advance", "slot", a.slot));
  BORA_TRY(check_pointer("advance", "table", a.table));
  BORA_TRY(check_size("advance", "rows", a.rows, 1, 1 << 20));
  BORA_TRY(check_size("advance", "table_stride", a.table_stride, 1, 1 << 30));
  BORA_TRY(check_size("advance", "block_tokens", a.block_tokens, 16, 1 << 16));
  if ((a.block_tokens & (a.block_tokens - 1)) != 0)
    return invalid_argument("advance: block_tokens is no power of two");
  int32_t shift = 0;
  while ((1 << shift) < a.block_tokens) ++shift;
  const Grid grid{dim3(static_cast<unsigned>((a.rows + kThreads - 1) / kThreads)), kThreads};
  return launch("advance", advance_kernel, grid, on, a, shift);
}

Status launch_activation(const ActivationArgs& a, const LaunchOn& on) {
  static constexpr ActivationRow kRows[] = {row<Activation::kSilu>(),    row<Activation::kGeluTanh>(),
                                            row<Activation::kGeluErf>(), row<Activation::kSigmoid>(),
                                            row<Activation::kRelu>(),    row<Activation::kRelu2>()};
  BORA_TRY(check_half("activation", a.dtype));
  BORA_TRY(check_pointer("activation", "gate", a.gate));
  BORA_TRY(check_pointer("activation", "up", a.up, true));
  BORA_TRY(check_pointer("activation", "out", a.out));
  BORA_TRY(check_size("activation", "dim", a.dim, 8, 1 << 20));
  BORA_TRY(check_size("activation", "tokens", a.tokens, 1, 65535));
  BORA_TRY(check_stride("activation", "gate_stride", a.gate_stride, 8));
  BORA_TRY(check_stride("activation", "up_stride", a.up_stride, 8));
  BORA_TRY(check_stride("activation", "out_stride", a.out_stride, 8));
  for (const ActivationRow& r : kRows) {
    if (r.act != a.act) continue;
    return launch("activation", a.dtype == DType::kBF16 ? r.bf16 : r.f16, Grid{row_grid(a.dim, a.tokens), kThreads},
                  on, a);
  }
  return unimplemented("activation: unknown kind");
}

}  // namespace bora::cuda
