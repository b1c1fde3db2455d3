// norm: root mean square, over whole rows or over groups of a row (per head).
#include <cmath>

#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer(Node& node, Graph& graph) {
  if (node.in.size() != 1 || node.weights.size() > 1) return invalid_argument("takes one input and perhaps a weight");
  Sym rows;
  int32_t n = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the input", &rows, &n));
  const int64_t group = node.attrs.get_int("group", n);
  if (group < 1 || n % group != 0)
    return invalid_argument("group " + std::to_string(group) + " does not divide " + std::to_string(n));
  if (node.attrs.get_double("eps", 0) <= 0) return invalid_argument("eps must be positive");
  if (!node.weights.empty()) BORA_TRY(expect_weight(graph, node.weights[0], "the weight", {group}));
  return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""});
}

Status reference(const Node& node, HostTensors& t) {
  const std::span<const double> x = t.in(node.in[0]);
  const std::span<double> out = t.out(node.out[0]);
  const size_t n = static_cast<size_t>(t.graph().info(node.in[0]).shape[1].n);
  const size_t group = static_cast<size_t>(node.attrs.get_int("group", static_cast<int64_t>(n)));
  const double eps = node.attrs.get_double("eps", 0), plus = node.attrs.get_double("plus", 0);
  std::span<const float> weight;
  if (!node.weights.empty()) {
    BORA_ASSIGN(weight, t.weight(node.weights[0]));
  }
  for (size_t at = 0; at < x.size(); at += group) {
    double squares = 0;
    for (size_t j = 0; j < group; ++j) squares += x[at + j] * x[at + j];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(group) + eps);
    for (size_t j = 0; j < group; ++j) {
      out[at + j] = x[at + j] * inverse * (weight.empty() ? 1.0 : static_cast<double>(weight[j]) + plus);
    }
  }
  return {};
}

}  // namespace

extern const Op kNorm;
const Op kNorm{
    .name = "norm",
    .summary =
        "x [rows, n], optional weight [group] -> [rows, n] float32: x / sqrt(mean(x^2) + eps) * (weight + plus) "
        "over each `group` of a row. Attributes eps > 0, group (n), plus (0; 1 for weights stored minus one).",
    .infer = infer,
    .reference = reference};

}  // namespace bora::ir
