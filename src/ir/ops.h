// Ops: records in a list (ops.cc), one file an op in ops/. There is no enum; adding an op is one file and one line.
//
// A primitive has `reference`, its float64 result on the host: the oracle of every backend. A fused op has `expand`,
// its definition by simpler ops: a backend takes the fused form or the definition for a whole program. The two agree
// within the op's stated tolerance, not bit by bit.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "ir/graph.h"

namespace bora::ir {

class Builder;      // builder.h
class HostTensors;  // interpreter.h

struct Op {
  std::string_view name;
  std::string_view summary;  // inputs, weights, states, attributes, output, dtypes: one paragraph for the docs
  // Checks inputs and attributes and appends the outputs' ValueInfo (or checks them when they exist already).
  Status (*infer)(Node& node, Graph& graph) = nullptr;
  // Fused: emits the definition and returns values for node.out. Null: primitive.
  Status (*expand)(const Node& node, const Graph& graph, Builder& builder, std::vector<Value>* out) = nullptr;
  // Primitive: float64 on the host. Null: fused.
  Status (*reference)(const Node& node, HostTensors& tensors) = nullptr;
  double tolerance = 0;  // fused: largest relative difference from the definition in float32
};

std::span<const Op* const> ops();
const Op* find_op(std::string_view name);  // null if unknown

}  // namespace bora::ir
