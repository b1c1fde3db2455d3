// The list of schemes, and look-ups in it.
#include <limits>
#include <string>

#include "quant/scheme.h"

namespace bora::quant {

extern const Scheme kQ4_0;
extern const Scheme kQ4_1;
extern const Scheme kQ5_0;
extern const Scheme kQ5_1;
extern const Scheme kQ8_0;
extern const Scheme kQ2K;
extern const Scheme kQ3K;
extern const Scheme kQ4K;
extern const Scheme kQ5K;
extern const Scheme kQ6K;
extern const Scheme kIq4Nl;
extern const Scheme kIq4Xs;
extern const Scheme kMxfp4;
extern const Scheme kF32;
extern const Scheme kF16;
extern const Scheme kBF16;

namespace {

const Scheme* const kSchemes[] = {&kQ4_0, &kQ4_1, &kQ5_0,  &kQ5_1,  &kQ8_0,  &kQ2K, &kQ3K, &kQ4K,
                                  &kQ5K,  &kQ6K,  &kIq4Nl, &kIq4Xs, &kMxfp4, &kF32, &kF16, &kBF16};

struct DTypeScheme {
  DType dtype;
  const Scheme* scheme;
};
const DTypeScheme kDense[] = {{DType::kF32, &kF32}, {DType::kF16, &kF16}, {DType::kBF16, &kBF16}};

}  // namespace

std::span<const Scheme* const> schemes() { return kSchemes; }

const Scheme* find_scheme(std::string_view name) {
  for (const Scheme* s : kSchemes) {
    if (s->name == name) return s;
  }
  return nullptr;
}

const Scheme* scheme_of_gguf(uint32_t ggml_type) {
  for (const Scheme* s : kSchemes) {
    if (s->gguf_type >= 0 && static_cast<uint32_t>(s->gguf_type) == ggml_type) return s;
  }
  return nullptr;
}

const Scheme* scheme_of_dtype(DType dtype) {
  for (const DTypeScheme& d : kDense) {
    if (d.dtype == dtype) return d.scheme;
  }
  return nullptr;
}

Result<int64_t> coded_bytes(const Scheme& scheme, int64_t rows, int64_t cols) {
  if (rows < 0 || cols < 0) return invalid_argument("negative extents");
  if (cols % scheme.block != 0) {
    return invalid_argument(std::string(scheme.name) + " codes " + std::to_string(scheme.block) +
                            " weights together; rows of " + std::to_string(cols) + " are no multiple of that");
  }
  const __int128 bytes = static_cast<__int128>(rows) * (cols / scheme.block) * scheme.block_bytes;
  if (bytes > std::numeric_limits<int64_t>::max()) return invalid_argument("a tensor of more than 2^63 bytes");
  return static_cast<int64_t>(bytes);
}

}  // namespace bora::quant
