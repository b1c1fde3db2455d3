// q5_1: 32 weights, float16 scale and minimum, 5-bit codes: d * q + m.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  o->m = load_u16(b + 2);
  nibbles32(b + 8, o->codes);
  fifth_bits32(load_u32(b + 4), o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  const float m = f16_to_f32(r.m);
  for (int i = 0; i < 32; ++i) {
    const float scaled = static_cast<float>(r.codes[i]) * d;
    out[i] = scaled + m;
  }
}

}  // namespace

extern const Scheme kQ5_1;
const Scheme kQ5_1{.name = "q5_1",
                   .gguf_type = 7,
                   .block = 32,
                   .block_bytes = 24,
                   .pieces = {32, false},
                   .bits = 6.0,
                   .components = weight_component(),
                   .check = check_one_component,
                   .decode = decode_blocks<read, values>,
                   .read_block = read};

}  // namespace bora::quant
