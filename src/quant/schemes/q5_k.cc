// q5_k: as q4_k with a fifth bit a code, in planes of 32 bytes.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  o->m = load_u16(b + 2);
  six_bit_pairs(b + 4, o);
  nibbles256(b + 48, o->codes);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      o->codes[g * 32 + i] = static_cast<uint8_t>(o->codes[g * 32 + i] | (b[16 + i] >> g & 1) << 4);
    }
  }
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

extern const Scheme kQ5K;
const Scheme kQ5K{.name = "q5_k",
                  .gguf_type = 13,
                  .block = 256,
                  .block_bytes = 176,
                  .pieces = {256, false},
                  .bits = 5.5,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode_blocks<read, values>,
                  .read_block = read};

}  // namespace bora::quant
