// q3_k: 256 weights, sub-blocks of 16 with 6-bit scales, 3-bit codes (the third bits apart): (d * sc) * (q - 4).
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  two_bits256(b + 32, o->codes);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      o->codes[g * 32 + i] = static_cast<uint8_t>(o->codes[g * 32 + i] | (b[i] >> g & 1) << 2);
    }
  }
  const uint8_t* p = b + 96;
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
    const int high = p[8 + j % 4] >> (2 * (j / 4)) & 3;
    o->sc[j] = static_cast<int8_t>((low | high << 4) - 32);
  }
  o->d = load_u16(b + 108);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(r.sc[j]);
    for (int i = 0; i < 16; ++i) out[j * 16 + i] = scale * static_cast<float>(r.codes[j * 16 + i] - 4);
  }
}

}  // namespace

extern const Scheme kQ3K;
const Scheme kQ3K{.name = "q3_k",
                  .gguf_type = 11,
                  .block = 256,
                  .block_bytes = 110,
                  .pieces = {256, false},
                  .bits = 3.4375,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode_blocks<read, values>,
                  .read_block = read};

}  // namespace bora::quant
