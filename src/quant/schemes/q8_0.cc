// q8_0: 32 weights, float16 scale, signed 8-bit codes: d * q.
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  for (int i = 0; i < 32; ++i) o->codes[i] = static_cast<uint8_t>(b[2 + i] ^ 0x80);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(r.codes[i] - 128) * d;
}

void write(const float* x, uint8_t* b) {
  float most = 0;
  for (int i = 0; i < 32; ++i) most = std::max(most, std::abs(x[i]));
  const float d = most / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
  const uint16_t h = f32_to_f16(d);
  std::memcpy(b, &h, 2);
  for (int i = 0; i < 32; ++i) b[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * inverse)));
}

Status encode(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) {
  return encode_blocks<write>(in, rows, cols, 32, 34, out);
}

}  // namespace

extern const Scheme kQ8_0;
const Scheme kQ8_0{.name = "q8_0",
                   .gguf_type = 8,
                   .block = 32,
                   .block_bytes = 34,
                   .pieces = {32, false},
                   .bits = 8.5,
                   .components = weight_component(),
                   .check = check_one_component,
                   .decode = decode_blocks<read, values>,
                   .read_block = read,
                   .encode = encode};

}  // namespace bora::quant
