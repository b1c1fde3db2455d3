// The paged key-value cache as the CUDA kernels see it.
//
// A block holds `block_tokens` tokens (16 or a larger power of two). Keys and values are two base pointers
// with one stride in bytes from block to block, so that a caller may put the blocks of all layers beside each
// other. Inside a block every kv head has one contiguous chunk of block_tokens * head_dim elements, eight
// tokens after eight:
//
//   chunk = [token / 8][slab][token % 8][64 elements = 128 bytes]
//   slabs of head_dim 64: 128 bytes, 80: 128 + 32, 96: 128 + 64, 128: 128 + 128, 256: 4 x 128
//
// In a slab the 16-byte pieces of a token's row are permuted by the token (the shared-memory swizzle of 128,
// 64 and 32 bytes): a plain linear copy of any run of 8-token groups lands in shared memory free of bank
// conflicts, for ldmatrix as for wgmma. A block of 16 tokens is one bulk copy (4 KB at head_dim 128), and no
// tensor map is needed. The append kernel pays nothing for it.
//
// Plain integers; included by host and device code.
#pragma once

#include <cstdint>

namespace bora::cuda {

// Bytes of one token's row in slab `slab` (elements of 2 bytes).
constexpr int32_t kv_slab_bytes(int32_t head_dim, int32_t slab) {
  const int32_t left = (head_dim - slab * 64) * 2;
  return left < 128 ? left : 128;
}

constexpr int32_t kv_slabs(int32_t head_dim) { return (head_dim + 63) / 64; }

// XOR applied to the 16-byte piece index of token `token` in a slab whose rows have `row_bytes` (128, 64 or
// 32).
constexpr int32_t kv_swizzle(int32_t token, int32_t row_bytes) {
  return (token / (128 / row_bytes)) & (row_bytes / 16 - 1);
}

// Byte offset of element `dim` of token `token` inside a (block, head) chunk.
constexpr int64_t kv_offset(int32_t head_dim, int32_t token, int32_t dim) {
  const int32_t slab = dim / 64;
  const int32_t row = kv_slab_bytes(head_dim, slab);
  const int32_t piece = (dim % 64) / 8;
  return int64_t{token / 8} * head_dim * 16 + slab * 1024 + token % 8 * row +
         ((piece ^ kv_swizzle(token % 8, row)) * 16) + (dim % 8) * 2;
}

// Bytes of one (block, head) chunk, and of a block that holds nothing else.
constexpr int64_t kv_chunk_bytes(int32_t head_dim, int32_t block_tokens) {
  return int64_t{head_dim} * block_tokens * 2;
}
constexpr int64_t kv_block_bytes(int32_t head_dim, int32_t block_tokens, int32_t kv_heads) {
  return kv_chunk_bytes(head_dim, block_tokens) * kv_heads;
}

}  // namespace bora::cuda
