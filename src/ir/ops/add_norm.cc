// add_norm: a residual sum and its norm in one pass. Defined by add and norm.
#include "ir/builder.h"
#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer(Node& node, Graph& graph) {
  if (node.in.size() != 2 || node.weights.size() != 1) return invalid_argument("takes two inputs and a weight");
  Sym rows, other;
  int32_t n = 0, m = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the first input", &rows, &n));
  BORA_TRY(expect_matrix(graph, node.in[1], "the second input", &other, &m));
  if (rows != other || n != m) return invalid_argument("inputs of unlike shape");
  if (node.attrs.get_double("eps", 0) <= 0) return invalid_argument("eps must be positive");
  BORA_TRY(expect_weight(graph, node.weights[0], "the weight", {n}));
  for (size_t i = 0; i < 2; ++i) BORA_TRY(set_out(&node, &graph, i, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""}));
  return {};
}

Status expand(const Node& node, const Graph&, Builder& b, std::vector<Value>* out) {
  const Value sum = b.emit1({.op = "add", .in = node.in});
  const Value norm = b.emit1({.op = "norm", .in = {sum}, .weights = node.weights, .attrs = node.attrs});
  *out = {sum, norm};
  return b.status();
}

}  // namespace

extern const Op kAddNorm;
const Op kAddNorm{.name = "add_norm",
                  .summary = "a, b [rows, n], weight [n] -> a + b, and norm(a + b) with the attributes of norm.",
                  .infer = infer,
                  .expand = expand,
                  .tolerance = 1e-6};

}  // namespace bora::ir
