// q2_k: 256 weights, sub-blocks of 16 with 4-bit scale and minimum, 2-bit codes: (d * sc) * q - dmin * m.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  for (int j = 0; j < 16; ++j) {
    o->sc[j] = static_cast<int8_t>(b[j] & 15);
    o->mins[j] = b[j] >> 4;
  }
  two_bits256(b + 16, o->codes);
  o->d = load_u16(b + 80);
  o->m = load_u16(b + 82);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  const float m = f16_to_f32(r.m);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(r.sc[j]), least = m * static_cast<float>(r.mins[j]);
    for (int i = 0; i < 16; ++i) {
      const float scaled = scale * static_cast<float>(r.codes[j * 16 + i]);
      out[j * 16 + i] = scaled - least;
    }
  }
}

}  // namespace

extern const Scheme kQ2K;
const Scheme kQ2K{.name = "q2_k",
                  .gguf_type = 10,
                  .block = 256,
                  .block_bytes = 84,
                  .pieces = {256, false},
                  .bits = 2.625,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode_blocks<read, values>,
                  .read_block = read};

}  // namespace bora::quant
