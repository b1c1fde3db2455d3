// gather_rows: the rows whose logits are wanted.
#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 2, 0, 0, 0));
  Sym rows;
  int32_t n = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the input", &rows, &n));
  if (rows != Sym::kTokens) return invalid_argument("gathers from token rows only");
  BORA_TRY(expect_index(graph, node.in[1], "rows", Sym::kRows));
  return set_out(&node, &graph, 0, {DType::kF32, {{Sym::kRows, 1}, {Sym::kNone, n}}, ""});
}

Status reference(const Node& node, HostTensors& t) {
  const std::span<const double> x = t.in(node.in[0]);
  const std::span<const int32_t> rows = t.in_i32(node.in[1]);
  const std::span<double> out = t.out(node.out[0]);
  const size_t n = static_cast<size_t>(t.graph().info(node.in[0]).shape[1].n);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || static_cast<size_t>(rows[i]) * n >= x.size())
      return out_of_range("a wanted row is not in the step");
    for (size_t j = 0; j < n; ++j) out[i * n + j] = x[static_cast<size_t>(rows[i]) * n + j];
  }
  return {};
}

}  // namespace

extern const Op kGatherRows;
const Op kGatherRows{.name = "gather_rows",
                     .summary = "x [T, n], rows [R] -> [R, n]: row rows[i] of x.",
                     .infer = infer,
                     .reference = reference};

}  // namespace bora::ir
