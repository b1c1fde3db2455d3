// q6_k: 256 weights, sub-blocks of 16 with signed 8-bit scales, 6-bit codes (4 low, 2 high bits): (d * sc) * (q -
// 32).
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  const uint8_t* low = b;
  const uint8_t* high = b + 128;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      uint8_t* to = o->codes + half * 128 + i;
      to[0] = static_cast<uint8_t>((low[i] & 15) | (high[i] & 3) << 4);
      to[32] = static_cast<uint8_t>((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
      to[64] = static_cast<uint8_t>((low[i] >> 4) | (high[i] >> 4 & 3) << 4);
      to[96] = static_cast<uint8_t>((low[i + 32] >> 4) | (high[i] >> 6) << 4);
    }
    low += 64;
    high += 32;
  }
  std::memcpy(o->sc, b + 192, 16);
  o->d = load_u16(b + 208);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int j = 0; j < 16; ++j) {
    const float scale = d * static_cast<float>(r.sc[j]);
    for (int i = 0; i < 16; ++i) out[j * 16 + i] = scale * static_cast<float>(r.codes[j * 16 + i] - 32);
  }
}

}  // namespace

extern const Scheme kQ6K;
const Scheme kQ6K{.name = "q6_k",
                  .gguf_type = 14,
                  .block = 256,
                  .block_bytes = 210,
                  .pieces = {256, false},
                  .bits = 6.5625,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode_blocks<read, values>,
                  .read_block = read};

}  // namespace bora::quant
