// q4_1: 32 weights, float16 scale and minimum, 4-bit codes: d * q + m.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  o->m = load_u16(b + 2);
  nibbles32(b + 4, o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  const float m = f16_to_f32(r.m);
  for (int i = 0; i < 32; ++i) {
    const float scaled = static_cast<float>(r.codes[i]) * d;
    out[i] = scaled + m;
  }
}

void write(const float* x, uint8_t* b) {
  const float low = *std::min_element(x, x + 32), high = *std::max_element(x, x + 32);
  const float d = (high - low) / 15.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
  const uint16_t h = f32_to_f16(d), m = f32_to_f16(low);
  std::memcpy(b, &h, 2);
  std::memcpy(b + 2, &m, 2);
  const auto code = [&](float v) { return std::min(15, static_cast<int>((v - low) * inverse + 0.5f)); };
  for (int i = 0; i < 16; ++i) b[4 + i] = static_cast<uint8_t>(code(x[i]) | code(x[i + 16]) << 4);
}

Status encode(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) {
  return encode_blocks<write>(in, rows, cols, 32, 20, out);
}

}  // namespace

extern const Scheme kQ4_1;
const Scheme kQ4_1{.name = "q4_1",
                   .gguf_type = 3,
                   .block = 32,
                   .block_bytes = 20,
                   .pieces = {32, false},
                   .bits = 5.0,
                   .components = weight_component(),
                   .check = check_one_component,
                   .decode = decode_blocks<read, values>,
                   .read_block = read,
                   .encode = encode};

}  // namespace bora::quant
