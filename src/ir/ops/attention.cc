// kv_append and attention: paged keys and values.
#include <algorithm>
#include <cmath>

#include "ir/ops/op.h"

namespace bora::ir {
namespace {

int32_t units(const StateSpec& s) {
  int32_t n = 1;
  for (int32_t d : s.per_unit) n *= d;
  return n;
}

Status infer_append(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 3, 0, 0, 2));
  for (size_t i = 0; i < 2; ++i) {
    Sym rows;
    int32_t n = 0;
    BORA_TRY(expect_matrix(graph, node.in[i], i == 0 ? "keys" : "values", &rows, &n));
    if (rows != Sym::kTokens || units(graph.state(node.writes[i])) != n) {
      return invalid_argument("the state holds another number of elements a position");
    }
  }
  return expect_index(graph, node.in[2], "slots", Sym::kTokens);
}

Status reference_append(const Node& node, HostTensors& t) {
  const std::span<const int32_t> slot = t.in_i32(node.in[2]);
  for (size_t i = 0; i < 2; ++i) {
    const std::span<const double> x = t.in(node.in[i]);
    const size_t n = x.size() / slot.size();
    for (size_t r = 0; r < slot.size(); ++r) {
      if (slot[r] >= 0) t.store_state(node.writes[i], slot[r], x.subspan(r * n, n));
    }
  }
  return {};
}

Status infer_attention(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 4, 0, 2, 0));
  Sym rows;
  int32_t n = 0;
  BORA_TRY(expect_matrix(graph, node.in[0], "queries", &rows, &n));
  BORA_TRY(expect_index(graph, node.in[1], "positions", Sym::kTokens));
  BORA_TRY(expect_index(graph, node.in[2], "sequences", Sym::kTokens));
  BORA_TRY(expect_index(graph, node.in[3], "the block table", Sym::kSeqs));
  const int64_t heads = node.attrs.get_int("heads", 0), kv_heads = node.attrs.get_int("kv_heads", 0);
  const int64_t dim = node.attrs.get_int("head_dim", 0);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || heads * dim != n)
    return invalid_argument("heads do not fit the queries");
  for (StateId s : node.reads) {
    if (units(graph.state(s)) != kv_heads * dim) return invalid_argument("heads do not fit the state");
  }
  if (node.attrs.get_double("scale", 0) <= 0) return invalid_argument("scale must be positive");
  return set_out(&node, &graph, 0, {DType::kF32, {{rows, 1}, {Sym::kNone, n}}, ""});
}

// One row and one head over keys [begin, pos].
void attend(const Node& node, HostTensors& t, std::span<const int64_t> slots, size_t kv_offset, const double* q,
            double* out) {
  const size_t dim = static_cast<size_t>(node.attrs.get_int("head_dim", 0));
  const double scale = node.attrs.get_double("scale", 1), cap = node.attrs.get_double("softcap", 0);
  std::vector<double> score(slots.size());
  double most = -INFINITY, sum = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::span<const double> k = t.state(node.reads[0], slots[i]);
    double dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += q[d] * k[kv_offset + d];
    dot *= scale;
    score[i] = cap > 0 ? cap * std::tanh(dot / cap) : dot;
    most = std::max(most, score[i]);
  }
  for (double& s : score) sum += s = std::exp(s - most);
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::span<const double> v = t.state(node.reads[1], slots[i]);
    for (size_t d = 0; d < dim; ++d) out[d] += score[i] / sum * v[kv_offset + d];
  }
}

Status reference_attention(const Node& node, HostTensors& t) {
  const std::span<const double> q = t.in(node.in[0]);
  const std::span<const int32_t> pos = t.in_i32(node.in[1]), seq = t.in_i32(node.in[2]), table = t.in_i32(node.in[3]);
  const std::span<double> out = t.out(node.out[0]);
  const int64_t heads = node.attrs.get_int("heads", 0), group = heads / node.attrs.get_int("kv_heads", 1);
  const int64_t dim = node.attrs.get_int("head_dim", 0), window = node.attrs.get_int("window", 0);
  const StateSpec& spec = t.graph().state(node.reads[0]);
  const int32_t block = t.graph().groups[static_cast<size_t>(spec.group)].block;
  const int32_t pages = t.batch().groups[static_cast<size_t>(spec.group)].pages;
  for (size_t r = 0; r < pos.size(); ++r) {
    std::vector<int64_t> slots;
    for (int64_t p = window > 0 ? std::max<int64_t>(0, pos[r] - window + 1) : 0; p <= pos[r]; ++p) {
      slots.push_back(slot_of(table, pages, block, seq[r], p));
    }
    for (int64_t h = 0; h < heads; ++h) {
      const size_t at = r * static_cast<size_t>(heads * dim) + static_cast<size_t>(h * dim);
      attend(node, t, slots, static_cast<size_t>(h / group * dim), q.data() + at, out.data() + at);
    }
  }
  return {};
}

}  // namespace

extern const Op kKvAppend;
const Op kKvAppend{
    .name = "kv_append",
    .summary =
        "keys, values [T, n], slot [T] -> writes row r to both states at slot[r] (-1: nowhere), rounded to the "
        "state's dtype.",
    .infer = infer_append,
    .reference = reference_append};
extern const Op kAttention;
const Op kAttention{
    .name = "attention",
    .summary =
        "q [T, heads * head_dim], pos [T], seq [T], table [S, P]; reads keys and values -> [T, heads * head_dim] "
        "float32: "
        "softmax over the positions 0..pos of the row's sequence (window > 0: the last `window` of them). Attributes "
        "heads, kv_heads, head_dim, scale, window (0), softcap (0). Backends sum tiles of 256 positions counted from "
        "0, "
        "each from fresh accumulators, merged ascending; keys and values are read in the state's dtype, also those "
        "of "
        "the step's own rows.",
    .infer = infer_attention,
    .reference = reference_attention};

}  // namespace bora::ir
