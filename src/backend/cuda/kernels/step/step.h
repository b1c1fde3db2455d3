// The small kernels of a step: embedding, norms, rope with KV append, activations, elementwise, logits
// processing, sampling.
//
// Every launch is asynchronous on its stream, allocates nothing, may be captured, and computes each row by an
// arithmetic that depends on the row's own width only: never on the number of rows or on which block computes
// it. Pointers are device pointers aligned to 16 bytes; strides are elements. Bad arguments return a status
// with words and launch nothing. Activations are bf16 or f16 (`dtype`); logits are float32.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/common/stream.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace bora::cuda {

// out[t, :] = table[ids[t], :] * scale. A negative id leaves its row alone; an id beyond the vocabulary gives
// zeros.
struct EmbedArgs {
  DType dtype = DType::kBF16;
  const int32_t* ids = nullptr;  // [tokens]
  const void* table = nullptr;   // [vocab, dim]
  void* out = nullptr;           // [tokens, dim]
  int64_t out_stride = 0;
  int32_t tokens = 0, vocab = 0, dim = 0;  // dim a multiple of 8
  float scale = 1;
};
Status launch_embed(const EmbedArgs& args, const LaunchOn& on);

// y = x / sqrt(mean(x^2) + eps) * w, or * (1 + w) with plus_one; w null: no weight. With `residual`, x is
// first replaced by round(x + residual), which is also written to residual_out. Rows may be heads: row r lies
// at token r / heads, head r % heads.
struct NormArgs {
  DType dtype = DType::kBF16;
  const void* in = nullptr;
  const void* weight = nullptr;    // [dim]
  const void* residual = nullptr;  // as in, stride residual_stride; or null
  void* residual_out = nullptr;    // may be the residual itself
  void* out = nullptr;
  int64_t in_stride = 0, out_stride = 0, residual_stride = 0;  // from token to token
  int32_t tokens = 0, heads = 1, dim = 0;  // dim: of one head when heads > 1; a multiple of 8, at most 16384
  float eps = 1e-5f;
  bool plus_one = false;
};
Status launch_norm(const NormArgs& args, const LaunchOn& on);

// From a merged projection qkv[t] = [q_heads | kv_heads | kv_heads] x head_dim: optional norm of each q and k
// head, rotation of the first rot_dim dims by the table's row of the position, q to q_out, k and v to the
// paged cache at slot[t] (kv_layout.h). All in float32, one rounding at the end. Rotation of a pair (a, b) by
// (cos, sin): (a cos - b sin, b cos + a sin).
struct RopeAppendArgs {
  DType dtype = DType::kBF16;
  const void* qkv = nullptr;
  int64_t qkv_stride = 0;
  void* q_out = nullptr;  // [tokens, q_heads, head_dim], stride q_stride
  int64_t q_stride = 0;
  const float* rope = nullptr;    // [positions, rot_dim / 2, 2] cos, sin; null = no rotation
  int32_t rot_dim = 0;            // a multiple of 16
  bool interleaved = false;       // pairs (2i, 2i + 1); else (i, i + rot_dim / 2)
  const int32_t* pos = nullptr;   // [tokens]
  const int32_t* slot = nullptr;  // [tokens] block * block_tokens + token in block; -1 = nowhere
  const void* q_norm = nullptr;   // [head_dim] or null
  const void* k_norm = nullptr;
  float eps = 1e-6f;
  bool plus_one = false;
  void* k = nullptr;
  void* v = nullptr;
  int64_t block_stride = 0;  // bytes
  int32_t block_tokens = 16;
  int32_t tokens = 0, q_heads = 0, kv_heads = 0, head_dim = 0;  // head_dim a multiple of 16, at most 256
};
Status launch_rope_append(const RopeAppendArgs& args, const LaunchOn& on);

enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kSigmoid, kRelu, kRelu2 };

// out = act(gate) * up; up null: out = act(gate). float32 inside, one rounding.
struct ActivationArgs {
  DType dtype = DType::kBF16;
  Activation act = Activation::kSilu;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* out = nullptr;
  int64_t gate_stride = 0, up_stride = 0, out_stride = 0;
  int32_t tokens = 0, dim = 0;
};
Status launch_activation(const ActivationArgs& args, const LaunchOn& on);

// out = a + b, one rounding; any of them may be the same.
struct AddArgs {
  DType dtype = DType::kBF16;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  int64_t count = 0;  // a multiple of 8
};
Status launch_add(const AddArgs& args, const LaunchOn& on);

// out = in as float32: logits of a 16-bit head for the sampler.
struct WidenArgs {
  DType dtype = DType::kBF16;
  const void* in = nullptr;
  float* out = nullptr;
  int64_t count = 0;  // a multiple of 8
};
Status launch_widen(const WidenArgs& args, const LaunchOn& on);

// The next decode step of sequences of one row each: pos += 1, kv_len = pos + 1, slot = where that position lies.
struct AdvanceArgs {
  int32_t* pos = nullptr;          // [rows]
  int32_t* kv_len = nullptr;       // [rows]
  int32_t* slot = nullptr;         // [rows]
  const int32_t* table = nullptr;  // [rows, table_stride] block ids
  int32_t table_stride = 0, rows = 0, block_tokens = 16;
};
Status launch_advance(const AdvanceArgs& args, const LaunchOn& on);

// out[r, :] = in[rows[r], :].
struct GatherArgs {
  DType dtype = DType::kBF16;
  const void* in = nullptr;
  const int32_t* rows = nullptr;
  void* out = nullptr;
  int64_t in_stride = 0, out_stride = 0;
  int32_t count = 0, dim = 0;
};
Status launch_gather_rows(const GatherArgs& args, const LaunchOn& on);

// ---- logits: float32 [rows, vocab], row_stride a multiple of 4 elements ----

// One record a logits row, on the device. Neutral values switch a step off.
struct SampleParams {
  float temperature = 0;  // 0 = greedy
  float top_p = 1, min_p = 0;
  int32_t top_k = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int32_t choice = 0;
  uint64_t seed = 0;
  int32_t position = 0;  // of the token that is chosen
  int32_t state = -1;    // row of counts and seen; -1 = no penalties
};

struct BiasEntry {
  int32_t row, token;
  float value;
};

// In place and in this order: softcap, repetition penalty (x > 0 ? x / r : x * r, tokens seen in prompt or
// output), frequency and presence penalties (output counts), bias, mask (a cleared bit gives -inf).
struct ProcessArgs {
  float* logits = nullptr;
  int64_t row_stride = 0;
  int32_t rows = 0, vocab = 0;
  float softcap = 0;
  const SampleParams* params = nullptr;  // null: no penalties
  const uint32_t* seen = nullptr;        // [states, ceil(vocab / 32)]
  const int32_t* counts = nullptr;       // [states, vocab]
  const BiasEntry* bias = nullptr;       // one entry a (row, token) at most
  int32_t bias_count = 0;
  const uint32_t* mask = nullptr;  // [rows, ceil(vocab / 32)], or null
};
Status launch_process_logits(const ProcessArgs& args, const LaunchOn& on);

// seen and counts of each row's state take up the chosen token (negative ids: nothing). Rows have distinct
// states.
struct CountArgs {
  const int32_t* ids = nullptr;  // [rows]
  const SampleParams* params = nullptr;
  uint32_t* seen = nullptr;
  int32_t* counts = nullptr;
  int32_t rows = 0, vocab = 0;
};
Status launch_count_tokens(const CountArgs& args, const LaunchOn& on);

enum class LogitsType : uint8_t { kF32, kBF16 };

// ids[r] = the largest logit's index, the lowest among equals; NaN counts as -inf. `scratch` holds rows x 16
// bytes, zeroed once by the caller; the kernel leaves it zeroed.
struct ArgmaxArgs {
  const void* logits = nullptr;
  int64_t row_stride = 0;
  int32_t rows = 0, vocab = 0;
  int32_t* ids = nullptr;
  void* scratch = nullptr;
  LogitsType type = LogitsType::kF32;
};
Status launch_argmax(const ArgmaxArgs& args, const LaunchOn& on);

// Samples a token a row. Order: by logit descending, then index ascending. top_k keeps the first k; top_p
// keeps the shortest prefix whose mass reaches p of what top_k left; min_p drops tokens below min_p of the
// most likely. Masses are integers round(2^27 e^((x - max) / T)), so their sums are exact in any order. Among
// the kept, the largest of x / T + Gumbel noise (noise.h) wins: an exact draw from the renormalised
// distribution. Rows with temperature 0 take the largest.
struct SampleArgs {
  const float* logits = nullptr;
  int64_t row_stride = 0;
  int32_t rows = 0, vocab = 0;  // vocab at most 262,144
  const SampleParams* params = nullptr;
  int32_t* ids = nullptr;
  void* scratch = nullptr;  // as for argmax
};
Status launch_sample(const SampleArgs& args, const LaunchOn& on);

// log softmax of the chosen tokens and of the `top` most likely of each row (in order).
struct LogprobArgs {
  const float* logits = nullptr;
  int64_t row_stride = 0;
  int32_t rows = 0, vocab = 0, top = 0;  // top at most 64
  const int32_t* ids = nullptr;          // [rows] chosen, or null
  float* chosen = nullptr;               // [rows]
  int32_t* top_ids = nullptr;            // [rows, top]
  float* top_logprobs = nullptr;         // [rows, top]
};
Status launch_logprobs(const LogprobArgs& args, const LaunchOn& on);

}  // namespace bora::cuda
