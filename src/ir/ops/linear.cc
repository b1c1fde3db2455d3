// linear: x W^T [+ bias], one output a part of the weight; head: the same over logits rows, with an optional softcap.
#include <cmath>

#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer_parts(Node& node, Graph& graph, bool whole) {
  if (node.in.size() != 1 || node.weights.empty() || node.weights.size() > 2) {
    return invalid_argument("takes one input, a weight and perhaps a bias");
  }
  Sym rows;
  int32_t k = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the input", &rows, &k));
  const WeightDecl& w = graph.weight(node.weights[0]);
  if (w.shape.size() != 2 || w.shape[1] != k) {
    return invalid_argument("weight '" + w.parts[0].name + "' does not take rows of " + std::to_string(k));
  }
  if (node.weights.size() == 2) BORA_TRY(expect_weight(graph, node.weights[1], "the bias", {w.shape[0]}));
  if (whole)
    return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, static_cast<int32_t>(w.shape[0])}}, ""});
  for (size_t i = 0; i < w.parts.size(); ++i) {
    const int32_t n = static_cast<int32_t>(graph.weight(node.weights[0]).parts[i].rows);
    BORA_TRY(set_out(&node, &graph, i, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""}));
  }
  return {};
}

Status infer(Node& node, Graph& graph) { return infer_parts(node, graph, false); }
Status infer_head(Node& node, Graph& graph) { return infer_parts(node, graph, true); }

Status multiply(const Node& node, HostTensors& t, int64_t row, int64_t rows, std::span<double> out) {
  const WeightDecl& decl = t.graph().weight(node.weights[0]);
  BORA_ASSIGN(const std::span<const float> w, t.weight(node.weights[0]));
  std::span<const float> bias;
  if (node.weights.size() == 2) {
    BORA_ASSIGN(bias, t.weight(node.weights[1]));
  }
  const std::span<const double> x = t.in(node.in[0]);
  const int64_t k = decl.shape[1], m = static_cast<int64_t>(x.size()) / k;
  for (int64_t r = 0; r < rows; ++r) {
    const float* at = w.data() + (row + r) * k;
    for (int64_t i = 0; i < m; ++i) {
      const double* xi = x.data() + i * k;
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += xi[j] * static_cast<double>(at[j]);
      if (!bias.empty()) sum += static_cast<double>(bias[static_cast<size_t>(row + r)]);
      out[static_cast<size_t>(i * rows + r)] = sum;
    }
  }
  return {};
}

Status reference(const Node& node, HostTensors& t) {
  const WeightDecl& decl = t.graph().weight(node.weights[0]);
  for (size_t i = 0; i < decl.parts.size(); ++i) {
    BORA_TRY(multiply(node, t, decl.parts[i].row, decl.parts[i].rows, t.out(node.out[i])));
  }
  return {};
}

Status reference_head(const Node& node, HostTensors& t) {
  const std::span<double> out = t.out(node.out[0]);
  BORA_TRY(multiply(node, t, 0, t.graph().weight(node.weights[0]).shape[0], out));
  const double cap = node.attrs.get_double("softcap", 0);
  if (cap > 0) {
    for (double& v : out) v = cap * std::tanh(v / cap);
  }
  return {};
}

}  // namespace

extern const Op kLinear;
const Op kLinear{
    .name = "linear",
    .summary =
        "x [rows, k], weight [n, k] of any scheme, optional bias [n] -> one [rows, part rows] float32 a part "
        "of the weight. Sums in float32 over the canonical pieces of K.",
    .infer = infer,
    .reference = reference};
extern const Op kHead;
const Op kHead{.name = "head",
               .summary =
                   "x [R, k], weight [vocab, k] -> logits [R, vocab] float32; attribute softcap (0 = none): cap * "
                   "tanh(x / cap).",
               .infer = infer_head,
               .reference = reference_head};

}  // namespace bora::ir
