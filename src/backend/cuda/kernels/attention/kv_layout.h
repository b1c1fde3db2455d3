// The paged key-value cache as the CUDA kernels see it.
//
// A block holds `block_tokens` tokens (16 or a larger power of two). Keys and values are two base pointers with one stride
// in bytes from block to block, so that a caller may put the blocks of all layers beside each other. Inside a block every
// kv head has one contiguous chunk of block_tokens * head_dim elements, cut into slabs of at most 64 elements:
//
//   chunk = [slab][token][64 elements = 128 bytes]      head_dim 80: slabs of 128 + 32 bytes, 96: 128 + 64 bytes
//
// In a slab the 16-byte pieces of a token's row are permuted by the token (the shared-memory swizzle of 128, 64 and
// 32 bytes): a plain linear copy of 16 tokens of a slab lands in shared memory free of bank conflicts, for ldmatrix as for
// wgmma, and no tensor map is needed. The append kernel pays nothing for it.
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

// XOR applied to the 16-byte piece index of token `token` in a slab whose rows have `row_bytes` (128, 64 or 32).
constexpr int32_t kv_swizzle(int32_t token, int32_t row_bytes) {
  return (token / (128 / row_bytes)) & (row_bytes / 16 - 1);
}

// Byte offset of element `dim` of token `token` (0 <= token < block_tokens) inside a (block, head) chunk.
constexpr int64_t kv_offset(int32_t head_dim, int32_t block_tokens, int32_t token, int32_t dim) {
  const int32_t slab = dim / 64;
  const int32_t row = kv_slab_bytes(head_dim, slab);
  const int32_t piece = (dim % 64) / 8;
  return int64_t{slab} * block_tokens * 128 + int64_t{token} * row + ((piece ^ kv_swizzle(token, row)) * 16) +
         (dim % 8) * 2;
}

// Bytes of one (block, head) chunk, and of a block that holds nothing else.
constexpr int64_t kv_chunk_bytes(int32_t head_dim, int32_t block_tokens) { return int64_t{head_dim} * block_tokens * 2; }
constexpr int64_t kv_block_bytes(int32_t head_dim, int32_t block_tokens, int32_t kv_heads) {
  return kv_chunk_bytes(head_dim, block_tokens) * kv_heads;
}

}  // namespace bora::cuda
