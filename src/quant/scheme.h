// A scheme: how the weights of a matrix are coded. One file a scheme, listed in schemes.cc; there is no enum of
// schemes.
//
// A weight is a logical matrix [rows, cols] (cols = K, the summed axis). In a file it is one or more *components*:
// GGUF blocks are one component, a Hugging Face quantized linear is several (codes, scales, zero points). A scheme
// says which components it needs, checks their shapes and sizes, and decodes rows exactly: code minus zero point,
// times scale, in float32 with one rounding a factor in that order. All functions are pure and may be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "quant/pieces.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace bora::quant {

struct Scheme;

// One tensor of a file. The bytes belong to the checkpoint and outlive the view; alignment is not guaranteed.
struct Component {
  std::span<const std::byte> bytes;
  DType dtype = DType::kU8;  // kU8 for block types
  Shape shape;               // as stored; for block types the logical [rows, cols]
};

// A coded matrix. REQUIRES for every function below: scheme->check(*this) is OK.
struct CodedMatrix {
  const Scheme* scheme = nullptr;
  int64_t rows = 0, cols = 0;
  std::vector<Component> components;  // in the order of scheme->components
};

// One block of a file taken apart: what packed layouts of devices are made from. Codes count from 0 (table indexes
// for lookup schemes, biased by 128 for 8-bit ones); `d` and `m` are the bits of a float16 (bfloat16 where the scheme
// says so).
struct RawBlock {
  uint8_t codes[256];     // `block` of them
  uint16_t d = 0, m = 0;  // scale; minimum, or the scale of the minima
  int8_t sc[16] = {};     // scales of sub-blocks of 32 (8 used) or 16
  uint8_t mins[16] = {};
};

struct ComponentSpec {
  std::string_view suffix;  // replaces the last name part "weight": "weight", "weight_packed", "weight_scale", …
  bool optional = false;
};

struct Scheme {
  std::string_view name;    // "bf16", "q4_0", "q4_k", …
  int32_t gguf_type = -1;   // ggml type id in GGUF files, or -1
  int32_t block = 1;        // weights of a row coded together; a row may end in a short block only if `short_block`
  int32_t block_bytes = 0;  // bytes of one block when there is one component; 0 otherwise
  bool short_block = false;
  PieceRule pieces;  // how K is cut in a dot product with this weight
  double bits = 0;   // average bits a weight, scales included
  std::span<const ComponentSpec> components;

  // Sizes, shapes, dtypes. The message names what was expected; the caller adds file and tensor.
  Status (*check)(const CodedMatrix& m) = nullptr;
  // Rows [begin, end) as float32 [end - begin, cols].
  void (*decode)(const CodedMatrix& m, int64_t begin, int64_t end, float* out) = nullptr;
  // Takes one block apart; null for dense types.
  void (*read_block)(const uint8_t* block, RawBlock* out) = nullptr;
  // Codes one matrix [rows, cols] into bytes of one component by the format's reference rounding; null = cannot be
  // written.
  Status (*encode)(const float* in, int64_t rows, int64_t cols, std::vector<std::byte>* out) = nullptr;
};

std::span<const Scheme* const> schemes();          // the list
const Scheme* find_scheme(std::string_view name);  // null if unknown
const Scheme* scheme_of_gguf(uint32_t ggml_type);  // null if unknown
const Scheme* scheme_of_dtype(DType dtype);        // f32, f16, bf16 …; null if there is none

// Bytes of [rows, cols] in a one-component scheme; error on overflow or when cols is no multiple of the block.
Result<int64_t> coded_bytes(const Scheme& scheme, int64_t rows, int64_t cols);

}  // namespace bora::quant
