// iq4_nl: 32 weights, float16 scale, 4-bit codes that index a table: d * table[q].
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  nibbles32(b + 2, o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kValues[r.codes[i]]);
}

}  // namespace

extern const Scheme kIq4Nl;
const Scheme kIq4Nl{.name = "iq4_nl",
                    .gguf_type = 20,
                    .block = 32,
                    .block_bytes = 18,
                    .pieces = {32, false},
                    .bits = 4.5,
                    .components = weight_component(),
                    .check = check_one_component,
                    .decode = decode_blocks<read, values>,
                    .read_block = read};

}  // namespace bora::quant
