#include "ir/ops/op.h"

namespace bora::ir {

Status expect_counts(const Node& node, size_t in, size_t weights, size_t reads, size_t writes) {
  if (node.in.size() == in && node.weights.size() == weights && node.reads.size() == reads &&
      node.writes.size() == writes)
    return {};
  return invalid_argument("takes " + std::to_string(in) + " inputs, " + std::to_string(weights) + " weights, " +
                          std::to_string(reads) + " read and " + std::to_string(writes) + " written states");
}

Status expect_matrix(const Graph& graph, Value v, std::string_view what, Sym* rows, int32_t* n) {
  const ValueInfo& info = graph.info(v);
  if (info.dtype == DType::kI32 || info.shape.size() != 2 || info.shape[1].sym != Sym::kNone) {
    return invalid_argument(std::string(what) + " must be a float matrix [rows, n]");
  }
  *rows = info.shape[0].sym;
  *n = info.shape[1].n;
  return {};
}

Status expect_index(const Graph& graph, Value v, std::string_view what, Sym sym) {
  const ValueInfo& info = graph.info(v);
  if (info.dtype != DType::kI32 || info.shape.empty() || info.shape[0].sym != sym) {
    return invalid_argument(std::string(what) + " must be an int32 index");
  }
  return {};
}

Status expect_weight(const Graph& graph, WeightId w, std::string_view what, std::vector<int64_t> shape) {
  if (graph.weight(w).shape == shape) return {};
  return invalid_argument(std::string(what) + " '" + graph.weight(w).parts[0].name + "' has another shape");
}

Status set_out(Node* node, Graph* graph, size_t i, ValueInfo info) {
  if (node->out.size() > i) {
    const ValueInfo& have = graph->info(node->out[i]);
    if (have.dtype == info.dtype && have.shape == info.shape) return {};
    return invalid_argument("output " + std::to_string(i) + " has another type or shape");
  }
  graph->values.push_back(std::move(info));
  node->out.push_back({static_cast<int32_t>(graph->values.size()) - 1});
  return {};
}

}  // namespace bora::ir
