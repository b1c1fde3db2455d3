// Weights by declaration: what a graph needs from a checkpoint, told by name and axes. Loading, quantizing, sharding,
// adapter targets, export and the memory plan are all derived from these records.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quant/scheme.h"

namespace bora::ir {

struct WeightId {
  int32_t id = -1;
  bool valid() const { return id >= 0; }
  bool operator==(const WeightId&) const = default;
};

// What an extent means; sharding cuts along these.
enum class Axis : uint8_t { kNone, kHidden, kVocab, kHeads, kKvHeads, kHeadDim, kFfn, kExperts };

// How rows of a stored matrix map to rows of the declared one. Blocks lie along K, so a row map never touches codes.
struct RowMap {
  enum class Kind : uint8_t {
    kIdentity,
    kDeinterleave
  };  // kDeinterleave: pairs (2j, 2j+1) of a head -> (j, j + D/2)
  Kind kind = Kind::kIdentity;
  int32_t head_dim = 0;
  // Row of the stored matrix that row r of the declared one comes from.
  int64_t source(int64_t r) const;
};

// One stored tensor inside a declared weight. q, k and v of a merged projection keep their names.
struct Part {
  std::string name;    // canonical (Hugging Face) name: "model.layers.0.self_attn.q_proj.weight"
  std::string source;  // name in the checkpoint at hand (GGUF: "blk.0.attn_q.weight")
  int64_t row = 0;     // first row in the declared matrix
  int64_t rows = 0;
  RowMap row_map;
};

struct WeightDecl {
  WeightId id;
  std::vector<Part> parts;     // ascending rows, covering all
  std::vector<int64_t> shape;  // [rows, cols] of a matrix, [n] of a vector
  std::vector<Axis> axes;      // parallel to shape
  bool quantizable = false;    // a linear's matrix; vectors and norms are not
  WeightId same_as;            // tied: shares the other's storage (head = embedding)
};

// What the checkpoint's index says of a declaration, before any weight is read. Parts of unlike scheme are bound as
// several linears.
struct WeightBinding {
  WeightId id;
  std::vector<const quant::Scheme*> schemes;  // by part
};

}  // namespace bora::ir
