// What the op files share: checks of inputs and outputs. Private to the ops.
#pragma once

#include <string>

#include "ir/interpreter.h"
#include "ir/ops.h"

namespace bora::ir {

// Exactly these counts; the message says what the op takes.
Status expect_counts(const Node& node, size_t in, size_t weights, size_t reads, size_t writes);
// A float matrix [rows, n]; fills n.
Status expect_matrix(const Graph& graph, Value v, std::string_view what, Sym* rows, int32_t* n);
// An int32 vector over `sym`.
Status expect_index(const Graph& graph, Value v, std::string_view what, Sym sym);
// A weight of this shape.
Status expect_weight(const Graph& graph, WeightId w, std::string_view what, std::vector<int64_t> shape);
// Declares output i, or checks it when it exists.
Status set_out(Node* node, Graph* graph, size_t i, ValueInfo info);

// Position -> slot of a paged state.
inline int64_t slot_of(std::span<const int32_t> table, int32_t pages, int32_t block, int64_t seq, int64_t position) {
  return int64_t{table[static_cast<size_t>(seq * pages + position / block)]} * block + position % block;
}

}  // namespace bora::ir
