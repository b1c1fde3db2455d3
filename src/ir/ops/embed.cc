// embed: rows of a table.
#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 1, 1, 0, 0));
  BORA_TRY(expect_index(graph, node.in[0], "ids", Sym::kTokens));
  const WeightDecl& w = graph.weight(node.weights[0]);
  if (w.shape.size() != 2) return invalid_argument("the table must be a matrix [vocab, n]");
  return set_out(&node, &graph, 0,
                 {DType::kF32, {{Sym::kTokens, 1}, {Sym::kNone, static_cast<int32_t>(w.shape[1])}}, ""});
}

Status reference(const Node& node, HostTensors& t) {
  const WeightDecl& decl = t.graph().weight(node.weights[0]);
  BORA_ASSIGN(const std::span<const float> table, t.weight(node.weights[0]));
  const std::span<const int32_t> ids = t.in_i32(node.in[0]);
  const std::span<double> out = t.out(node.out[0]);
  const size_t n = static_cast<size_t>(decl.shape[1]);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= decl.shape[0]) {
      return out_of_range("token id " + std::to_string(ids[i]) + " is outside the vocabulary of " +
                          std::to_string(decl.shape[0]));
    }
    for (size_t j = 0; j < n; ++j) out[i * n + j] = static_cast<double>(table[static_cast<size_t>(ids[i]) * n + j]);
  }
  return {};
}

}  // namespace

extern const Op kEmbed;
const Op kEmbed{.name = "embed",
                .summary = "ids [T] int32, table [vocab, n] -> [T, n] float32: the rows of the ids.",
                .infer = infer,
                .reference = reference};

}  // namespace bora::ir
