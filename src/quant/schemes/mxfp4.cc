// mxfp4: 32 weights, one power-of-two scale (e8m0), e2m1 codes: d / 2 * table[q] with doubled values. `d` is
// bfloat16.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void read(const uint8_t* b, RawBlock* o) {
  // 2^(e - 128): the table holds doubled values. Exact in bfloat16, the two subnormal ones too.
  const float scale =
      b[0] < 2 ? (b[0] == 0 ? 0x1p-128f : 0x1p-127f) : std::bit_cast<float>(uint32_t{b[0] - 1u} << 23);
  o->d = f32_to_bf16(scale);
  nibbles32(b + 1, o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = bf16_to_f32(r.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kValues[r.codes[i]]);
}

}  // namespace

extern const Scheme kMxfp4;
const Scheme kMxfp4{.name = "mxfp4",
                    .gguf_type = 39,
                    .block = 32,
                    .block_bytes = 17,
                    .pieces = {32, false},
                    .bits = 4.25,
                    .components = weight_component(),
                    .check = check_one_component,
                    .decode = decode_blocks<read, values>,
                    .read_block = read};

}  // namespace bora::quant
