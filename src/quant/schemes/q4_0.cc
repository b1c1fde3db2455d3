// q4_0: 32 weights, float16 scale, 4-bit codes: d * (q - 8).
#include <algorithm>
#include <cmath>

#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void read(const uint8_t* b, RawBlock* o) {
  o->d = load_u16(b);
  nibbles32(b + 2, o->codes);
}

void values(const RawBlock& r, float* out) {
  const float d = f16_to_f32(r.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(r.codes[i] - 8) * d;
}

void write(const float* x, uint8_t* b) {
  // The value of largest size keeps its sign and becomes -8.
  float most = 0, at = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::abs(x[i]) > most) {
      most = std::abs(x[i]);
      at = x[i];
    }
  }
  const float d = at / -8.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
  const uint16_t h = f32_to_f16(d);
  std::memcpy(b, &h, 2);
  const auto code = [&](float v) { return std::min(15, static_cast<int>(v * inverse + 8.5f)); };
  for (int i = 0; i < 16; ++i) b[2 + i] = static_cast<uint8_t>(code(x[i]) | code(x[i + 16]) << 4);
}

Status encode(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) {
  return encode_blocks<write>(in, rows, cols, 32, 18, out);
}

}  // namespace

extern const Scheme kQ4_0;
const Scheme kQ4_0{.name = "q4_0",
                   .gguf_type = 2,
                   .block = 32,
                   .block_bytes = 18,
                   .pieces = {32, false},
                   .bits = 4.5,
                   .components = weight_component(),
                   .check = check_one_component,
                   .decode = decode_blocks<read, values>,
                   .read_block = read,
                   .encode = encode};

}  // namespace bora::quant
