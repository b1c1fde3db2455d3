#include "backend/cuda/kernels/linear/pack.h"

#include <cstring>
#include <string>

#include "tensor/half.h"

namespace bora::cuda {
namespace {

// Where a weight lies in its block: byte offset, and for 4 bits the shift inside the 32-bit word at that offset.
struct Place {
  int32_t byte = 0;
  int32_t shift = 0;
};

Place place_of(const LinearFormat& format, int32_t row, int32_t column) {
  const int32_t step = column / 16, in_step = column % 16;
  const int32_t lane = (row % 8) * 4 + (in_step % 8) / 2;
  const int32_t reg = row / 8 + 2 * (in_step / 8);
  const int32_t half = in_step % 2;
  switch (format.bits()) {
    case 16:
      return {step * 512 + lane * 16 + reg * 4 + half * 2, 0};
    case 8:
      return {step / 2 * 512 + lane * 16 + (step % 2 * 2 + reg / 2) * 4 + half * 2 + reg % 2, 0};
    default:
      return {step / 4 * 512 + lane * 16 + step % 4 * 4, reg * 4 + half * 16};
  }
}

struct BlockPlace {
  int64_t byte = 0;    // of the block in the packed matrix
  int32_t column = 0;  // inside the block
};

BlockPlace block_of(const LinearFormat& format, const LinearShape& shape, int64_t row, int64_t column) {
  int32_t piece = 0;
  while (piece + 1 < shape.pieces && column >= shape.piece_k[piece + 1]) ++piece;
  const int64_t in_piece = column - shape.piece_k[piece];
  const int64_t block = shape.piece_block[piece] + in_piece / format.block_k();
  return {(row / 16 * shape.piece_block[shape.pieces] + block) * format.block_bytes(),
          static_cast<int32_t>(in_piece % format.block_k())};
}

void put16(uint8_t* to, uint16_t value) { std::memcpy(to, &value, 2); }
uint16_t get16(const uint8_t* from) {
  uint16_t value;
  std::memcpy(&value, from, 2);
  return value;
}

constexpr uint16_t kBf16Of128 = 0x4300;  // 128 + z has the bits of 128 plus z, since its unit is 1

Status check_sizes(const LinearFormat& format, const PlainWeights& w) {
  if (w.n <= 0 || w.k <= 0 || w.n > (int64_t{1} << 30) || w.k > (int64_t{1} << 30)) {
    return invalid_argument("packing a linear: shape [" + std::to_string(w.n) + ", " + std::to_string(w.k) + "]");
  }
  const auto expect = [](const char* what, size_t have, int64_t want) {
    if (static_cast<int64_t>(have) == want) return ok_status();
    return invalid_argument(std::string("packing a linear: ") + what + ": " + std::to_string(have) +
                            " values, expected " + std::to_string(want));
  };
  const bool grouped = format.codes == Codes::kInt8 || format.codes == Codes::kInt4;
  const bool group_ok = grouped ? format.group == 32 || format.group == 64 || format.group == 128 : format.group == 0;
  if (!group_ok) return invalid_argument("packing a linear: groups of " + std::to_string(format.group) + " columns");
  if (format.zeros && format.codes != Codes::kInt4)
    return invalid_argument("packing a linear: zero points without INT4");
  if (format.block_scale && format.codes != Codes::kFp8) {
    return invalid_argument("packing a linear: 128 x 128 scales without FP8");
  }
  const bool wide = format.codes == Codes::k16;
  BORA_TRY(expect("16-bit codes", w.codes16.size(), wide ? w.n * w.k : 0));
  BORA_TRY(expect("8-bit codes", w.codes8.size(), wide ? 0 : w.n * w.k));
  const int64_t groups = grouped ? (w.k + format.group - 1) / format.group : 0;
  BORA_TRY(expect("scales", w.scales.size(), w.n * groups));
  BORA_TRY(expect("zero points", w.zeros.size(), format.zeros ? w.n * groups : 0));
  const int64_t blocks = ((w.n + 127) / 128) * ((w.k + 127) / 128);
  BORA_TRY(expect("block scales", w.block_scales.size(), format.block_scale ? blocks : 0));
  BORA_TRY(expect("row order", w.order.size(), w.order.empty() ? 0 : w.n));
  if (format.block_scale && !w.order.empty()) {
    return invalid_argument("packing a linear: 128 x 128 scales with a row order");
  }
  for (const int32_t row : w.order) {
    if (row < 0 || row >= w.n)
      return invalid_argument("packing a linear: row order names row " + std::to_string(row));
  }
  if (format.codes == Codes::kInt4) {
    for (const uint8_t c : w.codes8) {
      if (c > 15) return invalid_argument("packing a linear: a 4-bit code of " + std::to_string(c));
    }
    for (const uint8_t z : w.zeros) {
      if (z > 15) return invalid_argument("packing a linear: a zero point of " + std::to_string(z));
    }
  }
  return ok_status();
}

// Blocks start out as weights of value 0, which stay wherever a block is longer than its piece or a tile than the
// matrix.
void clear_block(const LinearFormat& format, uint8_t* block) {
  std::memset(block, format.codes == Codes::kInt4 ? 0x88 : 0, static_cast<size_t>(format.code_bytes()));
  std::memset(block + format.code_bytes(), 0, static_cast<size_t>(format.side_bytes()));
  if (!format.zeros) return;
  uint8_t* zeros = block + format.code_bytes() + format.groups() * 32;
  for (int32_t i = 0; i < format.groups() * 16; ++i) put16(zeros + 2 * i, kBf16Of128 + 8);
}

void pack_row(const LinearFormat& format, const LinearShape& shape, const PlainWeights& w, int64_t row,
              uint8_t* out) {
  const int64_t from = w.order.empty() ? row : w.order[static_cast<size_t>(row)];
  const int32_t in_tile = static_cast<int32_t>(row % 16);
  const int64_t groups = format.group == 0 ? 0 : (w.k + format.group - 1) / format.group;
  for (int64_t column = 0; column < w.k; ++column) {
    const BlockPlace at = block_of(format, shape, row, column);
    uint8_t* block = out + at.byte;
    const Place place = place_of(format, in_tile, at.column);
    const size_t source = static_cast<size_t>(from * w.k + column);
    if (format.codes == Codes::k16) {
      put16(block + place.byte, w.codes16[source]);
    } else if (format.codes == Codes::kInt4) {
      uint32_t word;
      std::memcpy(&word, block + place.byte, 4);
      word = (word & ~(15u << place.shift)) | (uint32_t{w.codes8[source]} << place.shift);
      std::memcpy(block + place.byte, &word, 4);
    } else {
      block[place.byte] = w.codes8[source];
    }
    uint8_t* side = block + format.code_bytes();
    if (format.block_scale) {
      const int64_t across = (w.k + 127) / 128;
      std::memcpy(side, &w.block_scales[static_cast<size_t>(from / 128 * across + column / 128)], 4);
    }
    if (format.group == 0 || at.column % format.group != 0) continue;
    const size_t group = static_cast<size_t>(from * groups + column / format.group);
    const int32_t slot = at.column / format.group * 16 + in_tile;
    put16(side + 2 * slot, w.scales[group]);
    if (format.zeros)
      put16(side + format.groups() * 32 + 2 * slot, static_cast<uint16_t>(kBf16Of128 + w.zeros[group]));
  }
}

}  // namespace

Result<std::vector<uint8_t>> pack_linear(const LinearFormat& format, const PlainWeights& weights) {
  BORA_TRY(check_sizes(format, weights));
  const LinearShape shape = linear_shape(format, weights.n, weights.k);
  std::vector<uint8_t> out(static_cast<size_t>(packed_bytes(format, weights.n, weights.k)));
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(format.block_bytes())) clear_block(format, &out[at]);
  for (int64_t row = 0; row < weights.n; ++row) pack_row(format, shape, weights, row, out.data());
  return out;
}

PackedWeight unpack_one(const LinearFormat& format, const LinearShape& shape, std::span<const uint8_t> packed,
                        int64_t row, int64_t column) {
  const BlockPlace at = block_of(format, shape, row, column);
  const uint8_t* block = packed.data() + at.byte;
  const int32_t in_tile = static_cast<int32_t>(row % 16);
  const Place place = place_of(format, in_tile, at.column);
  PackedWeight w;
  if (format.codes == Codes::k16) {
    w.code = get16(block + place.byte);
  } else if (format.codes == Codes::kInt4) {
    uint32_t word;
    std::memcpy(&word, block + place.byte, 4);
    w.code = static_cast<uint16_t>(word >> place.shift & 15);
    w.zero = 8;
  } else {
    w.code = block[place.byte];
  }
  const uint8_t* side = block + format.code_bytes();
  if (format.block_scale) std::memcpy(&w.scale, side, 4);
  if (format.group > 0) {
    const int32_t slot = at.column / format.group * 16 + in_tile;
    w.scale = f16_to_f32(get16(side + 2 * slot));
    if (format.zeros) w.zero = get16(side + format.groups() * 32 + 2 * slot) - kBf16Of128;
  }
  return w;
}

std::vector<int32_t> swiglu_order(int64_t n) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  for (int64_t row = 0; row < n; ++row) {
    const int64_t pair = row / 16 * 8 + row % 8;
    order[static_cast<size_t>(row)] = static_cast<int32_t>(row % 16 < 8 ? pair : n / 2 + pair);
  }
  return order;
}

}  // namespace bora::cuda
