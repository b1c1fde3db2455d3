// The packed layout of linears on the CPU: sixteen output rows side by side, so that one activation feeds sixteen
// sums without a horizontal add. A tile is 16 rows; rows beyond the matrix are zero.
//
// Codes. A weight is scale * (code - zero) [+ minimum] with code in 0..255. For a block of 32 columns a tile holds
// *planes*:
//
//   4-bit plane, 256 bytes: four chunks of 64. Byte (row * 4 + i) of chunk c holds code (8c + i) in its low half and
//   code
//                           (8c + 4 + i) in its high half, 0 <= i < 4: after a mask and a shift each chunk is two
//                           registers of four consecutive columns a row, which is what a four-way byte dot product
//                           eats.
//   2-bit plane, 128 bytes: two chunks of 64; byte (row * 4 + i) of chunk c holds the codes 16c + 4j + i, j = 0..3,
//   two bits each,
//                           lowest first.
//   1-bit plane,  64 bytes: byte (row * 4 + i) holds the codes 4j + i, j = 0..7, one bit each.
//   8-bit plane, 512 bytes: eight chunks of 64; byte (row * 4 + i) of chunk c is code 4c + i.
//
// Scales stand before the planes of their block or super-block, one array of sixteen a field. Every field of a tile
// is 32-byte aligned and blocks follow each other, so a tile is one forward read.
//
// Which planes, zero and scale fields a scheme has is its Recipe. Floating-point weights have no planes: element (k,
// row) of a tile is at k * 16 + row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "quant/scheme.h"

namespace bora::cpu {

constexpr int32_t kTileRows = 16;
constexpr int32_t kBlock = 32;  // columns of an activation block

// How scales are stored and applied. A closed set: the arithmetic forms that kernels have.
enum class Form : uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,      // dense
  kBlock,         // d[16] f16 (or bf16) a block of 32:                 d * isum
  kBlockMin,      // d[16], m[16] f16 a block of 32:                    d * isum + m * asum
  kSuperMin,      // d, dmin f16 a 256; sc, m u8 a 32:                  (d*sc) * isum - (dmin*m) * asum
  kSuper,         // d f16 a 256; sc s8 a 32:                           (d*sc) * isum
  kSuperHalf,     // d f16 a 256; sc s8 a 16:                           d * (sc0*isum0 + sc1*isum1)
  kSuperHalfMin,  // d, dmin f16 a 256; sc, m u8 a 16:                  d * (...) - dmin * (m0*asum0 + m1*asum1)
};

struct Recipe {
  std::string_view scheme;  // of quant
  Form form = Form::kBlock;
  int32_t bits = 4;  // 2, 3 = 2 + 1, 4, 5 = 4 + 1, 6 = 4 + 2, 8
  int32_t zero = 0;
  bool lookup = false;  // codes of 4 bits index `table` (biased by `zero`)
  bool e8m0 = false;    // kBlock: scales are powers of two, stored as bf16
  std::span<const uint8_t> table = {};
};

const Recipe* find_recipe(const quant::Scheme& scheme);  // null: this backend cannot pack it

struct Packed {
  const Recipe* recipe = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t tiles = 0;  // ceil(rows / 16)
  int64_t tile_bytes = 0;
  quant::PieceRule pieces;
  const std::byte* data = nullptr;  // [tiles, tile_bytes], 64-byte aligned
  const std::byte* tile(int64_t t) const { return data + t * tile_bytes; }
};

// Bytes that `rows` x `cols` take; exact.
int64_t packed_bytes(const Recipe& recipe, int64_t rows, int64_t cols);
// Where a row of the packed matrix comes from.
struct RowSource {
  const quant::CodedMatrix* matrix = nullptr;  // all of one scheme and one number of columns
  int64_t row = 0;
};
// Writes the tiles [first, last) of the matrix with these rows. Any thread; tiles are independent. REQUIRES:
// scheme->check passed.
void pack_rows(const Recipe& recipe, std::span<const RowSource> rows, int64_t cols, int64_t first, int64_t last,
               std::byte* out);
// For tests: the code and the float value of an element, read back from the packed form.
float unpack_value(const Packed& p, int64_t row, int64_t col);

}  // namespace bora::cpu
