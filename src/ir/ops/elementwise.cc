// add, scale, activation_gate: element by element.
#include <cmath>

#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer_two(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 2, 0, 0, 0));
  Sym rows, other;
  int32_t n = 0, m = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the first input", &rows, &n));
  BORA_TRY(expect_matrix(graph, node.in[1], "the second input", &other, &m));
  if (rows != other || n != m) return invalid_argument("inputs of unlike shape");
  return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""});
}

Status infer_gate(Node& node, Graph& graph) {
  const std::string_view kind = node.attrs.get_string("kind", "");
  if (kind != "silu" && kind != "gelu_tanh") return invalid_argument("kind must be silu or gelu_tanh");
  return infer_two(node, graph);
}

Status infer_scale(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 1, 0, 0, 0));
  if (node.attrs.find("factor") == nullptr) return invalid_argument("needs a factor");
  Sym rows;
  int32_t n = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the input", &rows, &n));
  return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""});
}

Status reference_add(const Node& node, HostTensors& t) {
  const std::span<const double> a = t.in(node.in[0]), b = t.in(node.in[1]);
  const std::span<double> out = t.out(node.out[0]);
  for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + b[i];
  return {};
}

Status reference_scale(const Node& node, HostTensors& t) {
  const std::span<const double> a = t.in(node.in[0]);
  const std::span<double> out = t.out(node.out[0]);
  // The factor is a float32 number everywhere.
  const double factor = static_cast<double>(static_cast<float>(node.attrs.get_double("factor", 1)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] * factor;
  return {};
}

Status reference_gate(const Node& node, HostTensors& t) {
  const std::span<const double> gate = t.in(node.in[0]), up = t.in(node.in[1]);
  const std::span<double> out = t.out(node.out[0]);
  const bool silu = node.attrs.get_string("kind", "") == "silu";
  for (size_t i = 0; i < out.size(); ++i) {
    const double g = gate[i];
    const double a = silu ? g / (1 + std::exp(-g))
                          : 0.5 * g * (1 + std::tanh(0.79788456080286535588 * (g + 0.044715 * g * g * g)));
    out[i] = a * up[i];
  }
  return {};
}

}  // namespace

extern const Op kAdd;
const Op kAdd{
    .name = "add", .summary = "a, b [rows, n] -> a + b float32.", .infer = infer_two, .reference = reference_add};
extern const Op kScale;
const Op kScale{.name = "scale",
                .summary = "x [rows, n] -> x * factor float32; attribute factor, rounded to float32.",
                .infer = infer_scale,
                .reference = reference_scale};
extern const Op kActivationGate;
const Op kActivationGate{
    .name = "activation_gate",
    .summary =
        "gate, up [rows, n] -> f(gate) * up float32; attribute kind: silu x / (1 + e^-x), gelu_tanh "
        "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).",
    .infer = infer_gate,
    .reference = reference_gate};

}  // namespace bora::ir
