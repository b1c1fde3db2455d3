// f32: weights as they are.
#include "quant/schemes/blocks.h"

namespace bora::quant {
namespace {

void decode(const CodedMatrix& m, int64_t begin, int64_t end, float* out) {
  const std::byte* from = m.components[0].bytes.data() + begin * m.cols * 4;
  for (int64_t i = 0; i < (end - begin) * m.cols; ++i) {
    float v;
    std::memcpy(&v, from + i * 4, 4);
    out[i] = v;
  }
}

Status encode(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) {
  const size_t begin = out->size();
  out->resize(begin + static_cast<size_t>(rows * cols) * 4);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float v = in[i];
    std::memcpy(out->data() + begin + i * 4, &v, 4);
  }
  return {};
}

}  // namespace

extern const Scheme kF32;
const Scheme kF32{.name = "f32",
                  .gguf_type = 0,
                  .block = 1,
                  .block_bytes = 4,
                  .pieces = {1, false},
                  .bits = 32,
                  .components = weight_component(),
                  .check = check_one_component,
                  .decode = decode,
                  .encode = encode};

}  // namespace bora::quant
