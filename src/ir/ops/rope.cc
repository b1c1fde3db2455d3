// rope: rotary position embedding with any table of frequencies.
#include <cmath>

#include "ir/ops/op.h"

namespace bora::ir {
namespace {

Status infer(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 2, 0, 0, 0));
  Sym rows;
  int32_t n = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "the input", &rows, &n));
  BORA_TRY(expect_index(graph, node.in[1], "positions", rows));
  const int64_t head_dim = node.attrs.get_int("head_dim", 0), offset = node.attrs.get_int("offset", 0);
  const int64_t rotated = 2 * static_cast<int64_t>(node.attrs.get_doubles("inv_freq").size());
  if (head_dim < 1 || n % head_dim != 0) return invalid_argument("head_dim does not divide the row");
  if (rotated < 2 || offset < 0 || offset + rotated > head_dim)
    return invalid_argument("rotates more dimensions than a head has");
  return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""});
}

Status reference(const Node& node, HostTensors& t) {
  const std::span<const double> x = t.in(node.in[0]);
  const std::span<const int32_t> pos = t.in_i32(node.in[1]);
  const std::span<double> out = t.out(node.out[0]);
  const std::span<const double> freq = node.attrs.get_doubles("inv_freq");
  const size_t head_dim = static_cast<size_t>(node.attrs.get_int("head_dim", 0));
  const size_t offset = static_cast<size_t>(node.attrs.get_int("offset", 0)), half = freq.size();
  const double factor = node.attrs.get_double("attention_factor", 1);
  const bool interleaved = node.attrs.get_bool("interleaved", false);
  const size_t n = x.size() / pos.size();
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i];
  for (size_t r = 0; r < pos.size(); ++r) {
    for (size_t head = 0; head < n; head += head_dim) {
      const size_t at = r * n + head + offset;
      for (size_t j = 0; j < half; ++j) {
        const size_t a = at + (interleaved ? 2 * j : j), b = at + (interleaved ? 2 * j + 1 : j + half);
        const double angle = pos[r] * freq[j], c = std::cos(angle) * factor, s = std::sin(angle) * factor;
        out[a] = x[a] * c - x[b] * s;
        out[b] = x[b] * c + x[a] * s;
      }
    }
  }
  return {};
}

}  // namespace

extern const Op kRope;
const Op kRope{
    .name = "rope",
    .summary =
        "x [rows, heads * head_dim], pos [rows] -> rotated float32. Attributes head_dim, inv_freq (one a pair: "
        "angle = pos * inv_freq), attention_factor (1; multiplies cos and sin), interleaved (pairs (2j, 2j+1) "
        "instead of (j, j + half)), offset (0; first rotated dimension of a head).",
    .infer = infer,
    .reference = reference};

}  // namespace bora::ir
