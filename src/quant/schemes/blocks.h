// What the block schemes share: little-endian reads, bit planes, checks and decoding loops. Private to the schemes.
//
// A file's block type is described by three functions of its own file: `read` takes a block apart, `values` turns it
// into float32 with one rounding a factor in the order of the format's public definition.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "quant/scheme.h"
#include "tensor/half.h"

namespace bora::quant {

inline uint16_t load_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
inline uint32_t load_u32(const uint8_t* p) { return uint32_t{load_u16(p)} | uint32_t{load_u16(p + 2)} << 16; }

// 16 bytes of nibbles: the low ones are columns 0..15, the high ones 16..31.
void nibbles32(const uint8_t* qs, uint8_t* codes);
// 128 bytes of nibbles in four groups of 64 columns: the low nibbles of 32 bytes come first.
void nibbles256(const uint8_t* qs, uint8_t* codes);
// 64 bytes of two-bit codes: four planes of 32 columns in each half.
void two_bits256(const uint8_t* qs, uint8_t* codes);
// Bit i of `high` becomes bit 4 of code i.
void fifth_bits32(uint32_t high, uint8_t* codes);
// Eight pairs of 6-bit numbers in 12 bytes: scales and minima of sub-blocks of 32.
void six_bit_pairs(const uint8_t* p, RawBlock* out);

// The component that every one-tensor scheme has.
std::span<const ComponentSpec> weight_component();
// One component of rows * cols / block * block_bytes bytes; cols a multiple of the block.
Status check_one_component(const CodedMatrix& m);

template <void (*read)(const uint8_t*, RawBlock*), void (*values)(const RawBlock&, float*)>
void decode_blocks(const CodedMatrix& m, int64_t begin, int64_t end, float* out) {
  const Scheme& s = *m.scheme;
  const int64_t blocks = m.cols / s.block;
  const uint8_t* at = reinterpret_cast<const uint8_t*>(m.components[0].bytes.data()) + begin * blocks * s.block_bytes;
  for (int64_t i = 0; i < (end - begin) * blocks; ++i) {
    RawBlock raw;
    read(at, &raw);
    values(raw, out);
    at += s.block_bytes;
    out += s.block;
  }
}

// Codes every block of a matrix with `write`, which gets `block` floats and the place of its bytes.
template <void (*write)(const float*, uint8_t*)>
Status encode_blocks(const float* in, int64_t rows, int64_t cols, int32_t block, int32_t block_bytes,
                     std::vector<std::byte>* out) {
  if (cols % block != 0) {
    return invalid_argument("rows of " + std::to_string(cols) + " weights are no multiple of " +
                            std::to_string(block));
  }
  for (int64_t i = 0; i < rows * cols; ++i) {
    if (!std::isfinite(in[i])) return invalid_argument("weight " + std::to_string(i) + " is no finite number");
  }
  const int64_t count = rows * cols / block;
  const size_t begin = out->size();
  out->resize(begin + static_cast<size_t>(count * block_bytes));
  uint8_t* to = reinterpret_cast<uint8_t*>(out->data() + begin);
  for (int64_t i = 0; i < count; ++i) write(in + i * block, to + i * block_bytes);
  return {};
}

}  // namespace bora::quant
