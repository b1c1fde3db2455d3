// q5_0: 32 weights, float16 scale, 5-bit codes (the fifth bits in one word): d * (q - 16).
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  nibbles32(b + 6, o->codes);
  fifth_bits32(load_u32(b + 2), o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(r.codes[i] - 16) * d;
}

}  // namespace

extern const Scheme kQ5_0;
const Scheme kQ5_0{.name = "q5_0",
                   .gguf_type = 6,
                   .block = 32,
                   .block_bytes = 22,
                   .pieces = {32, false},
                   .bits = 5.5,
                   .components = weight_component(),
                   .check = check_one_component,
                   .decode = decode_blocks<read, values>,
                   .read_block = read};

}  // namespace bora::quant
