// Packed weights: how a matrix [n, k] lies in memory for the linear kernels. One layout a format, the same for every
// device.
//
// The matrix is cut into *row tiles* of 16 rows (the last one filled up with zeros) and, along K, into the canonical
// pieces, each filled up to whole *blocks* of block_k columns. A row tile holds its blocks in order of K, piece after
// piece, so that a piece of a row tile is one run of bytes:
//
//   [row tile][piece][block] -> chunks of 512 bytes, then the block's side data (scales, zero points)
//
// A chunk is 32 lanes x 16 bytes in the order of the A operand of mma.m16n8k16: lane = 4 * g + t holds, for each k16
// step of the chunk, rows g and g + 8 and columns 2t, 2t+1, 2t+8, 2t+9, as the four registers a0 (g; 2t..), a1 (g+8;
// 2t..), a2 (g; 2t+8..), a3 (g+8; 2t+8..). So one 16-byte load is one (16 bits), two (8 bits) or four (4 bits)
// operands:
//
//   16 bits  word r                  = a_r                                              one k16 step
//    8 bits  word 2s + r/2           = a_r of step s; even r: bytes 0, 2; odd r: bytes 1, 3      two steps
//    4 bits  word s, bits 4r, 16+4r  = a_r of step s                                    four steps
//
// Side data: one array of 16 values a group (f16 scales), then one of zero points (bf16 of 128 + zero); for FP8
// blocks of 128 x 128 one f32 a block, 32 bytes with the filling.
#pragma once

#include <cstdint>

#include "quant/pieces.h"

namespace bora::cuda {

enum class Codes : uint8_t { k16, kFp8, kInt8, kInt4 };  // how one weight is coded; a closed set of operand layouts

struct LinearFormat {
  Codes codes = Codes::k16;
  int32_t group = 0;         // columns that share an f16 scale: 32, 64 or 128 (INT8, INT4); 0 = none
  bool zeros = false;        // INT4: a zero point a group instead of 8
  bool block_scale = false;  // FP8: a scale for each 128 x 128 block

  constexpr int32_t bits() const { return codes == Codes::k16 ? 16 : codes == Codes::kInt4 ? 4 : 8; }
  constexpr int32_t block_k() const { return codes == Codes::k16 ? 64 : 128; }
  constexpr int32_t code_bytes() const { return 2 * block_k() * bits(); }  // 16 rows x block_k
  constexpr int32_t groups() const { return group == 0 ? 0 : block_k() / group; }
  constexpr int32_t side_bytes() const {
    if (block_scale) return 32;
    return groups() * 32 * (zeros ? 2 : 1);
  }
  constexpr int32_t block_bytes() const { return code_bytes() + side_bytes(); }
  constexpr quant::PieceRule rule() const { return {group > 0 ? group : 1, codes == Codes::kFp8}; }
};

// Where the blocks of each piece lie; the same for every row tile.
struct LinearShape {
  int64_t n = 0, k = 0;
  int32_t row_tiles = 0;
  int32_t pieces = 0;
  int32_t piece_k[9] = {};      // first column of piece i
  int32_t piece_block[9] = {};  // first block of piece i; [pieces] = blocks of a row tile
};

constexpr LinearShape linear_shape(const LinearFormat& format, int64_t n, int64_t k) {
  LinearShape s;
  const quant::Pieces cut = quant::k_pieces(k, format.rule());
  s.n = n;
  s.k = k;
  s.row_tiles = static_cast<int32_t>((n + 15) / 16);
  s.pieces = cut.count;
  for (int32_t i = 0; i < cut.count; ++i) {
    const int64_t length = cut.end(i) - cut.begin(i);
    s.piece_k[i] = static_cast<int32_t>(cut.begin(i));
    s.piece_block[i + 1] =
        s.piece_block[i] + static_cast<int32_t>((length + format.block_k() - 1) / format.block_k());
  }
  s.piece_k[cut.count] = static_cast<int32_t>(k);
  return s;
}

constexpr int64_t packed_bytes(const LinearFormat& format, int64_t n, int64_t k) {
  const LinearShape s = linear_shape(format, n, k);
  return int64_t{s.row_tiles} * s.piece_block[s.pieces] * format.block_bytes();
}

}  // namespace bora::cuda
