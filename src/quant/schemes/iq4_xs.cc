// iq4_xs: 256 weights, sub-blocks of 32 with 6-bit scales, 4-bit codes that index a table: (d * sc) * table[q].
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  const unsigned high = load_u16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = b[4 + j / 2] >> (4 * (j % 2)) & 15;
    o->sc[j] = static_cast<int8_t>((low | static_cast<int>(high >> (2 * j) & 3u) << 4) - 32);
    nibbles32(b + 8 + 16 * j, o->codes + 32 * j);
  }
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(r.sc[j]);
    for (int i = 0; i < 32; ++i) out[j * 32 + i] = scale * static_cast<float>(kValues[r.codes[j * 32 + i]]);
  }
}

}  // namespace

extern const Scheme kIq4Xs;
const Scheme kIq4Xs{.name = "iq4_xs",
                    .gguf_type = 23,
                    .block = 256,
                    .block_bytes = 136,
                    .pieces = {256, false},
                    .bits = 4.25,
                    .components = weight_component(),
                    .check = check_one_component,
                    .decode = decode_blocks<read, values>,
                    .read_block = read};

}  // namespace bora::quant
