// One block of a file taken apart: the codes and scale fields that the packed layout holds. Private to packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bora::cpu {

// 256 columns of one row, or 32 of them for schemes without super-blocks.
struct RawBlock {
  uint8_t codes[256];     // as in the layout: 0 .. 2^bits - 1, table indexes for lookups, 8-bit codes biased by 128
  uint16_t d = 0, m = 0;  // f16 bits (bf16 for mxfp4): scale, and minimum or dmin
  int8_t sc[16] = {};     // a sub-block of 32 (8 used) or 16
  uint8_t mins[16] = {};
};

// The reader of a scheme's blocks; null when it has none (dense types).
using BlockReader = void (*)(const uint8_t* block, RawBlock* out);
BlockReader find_reader(std::string_view scheme);

}  // namespace bora::cpu
