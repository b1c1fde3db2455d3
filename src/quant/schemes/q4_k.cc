// q4_k: 256 weights, sub-blocks of 32 with 6-bit scale and minimum, 4-bit codes: (d * sc) * q - dmin * m.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  o->m = load_u16(b + 2);
  six_bit_pairs(b + 4, o);
  nibbles256(b + 16, o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  const float m = f16_to_f32(r.m);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(r.sc[j]), least = m * static_cast<float>(r.mins[j]);
    for (int i = 0; i < 32; ++i) {
      const float scaled = scale * static_cast<float>(r.codes[j * 32 + i]);
      out[j * 32 + i] = scaled - least;
    }
  }
}

}  // namespace

extern const Scheme kQ4K;
const Scheme kQ4K{.name = "q4_k",
                  .gguf_type = 12,
                  .block = 256,
                  .block_bytes = 144,
                  .pieces = {256, false},
                  .bits = 4.5,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode_blocks<read, values>,
                  .read_block = read};

}  // namespace bora::quant
