// f16: weights as they are.
#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void decode(const CodedMatrix& m, int64_t begin, int64_t end, float* out) {
  const std::byte* from = m.components[0].bytes.data() + begin * m.cols * 2;
  for (int64_t i = 0; i < (end - begin) * m.cols; ++i) {
    uint16_t v;
    std::memcpy(&v, from + i * 2, 2);
    out[i] = f16_to_f32(v);
  }
}

Status encode(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) {
  const size_t begin = out->size();
  out->resize(begin + static_cast<size_t>(rows * cols) * 2);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const uint16_t v = f32_to_f16(in[i]);
    std::memcpy(out->data() + begin + i * 2, &v, 2);
  }
  return {};
}

}  // namespace

extern const Scheme kF16;
const Scheme kF16{.name = "f16",
                  .gguf_type = 1,
                  .block = 1,
                  .block_bytes = 2,
                  .pieces = {1, false},
                  .bits = 16,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode,
                  .encode = encode};

}  // namespace bora::quant
