#include "ir/passes.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/ops.h"

namespace bora::ir {
namespace {

bool claimed(const Graph& graph, const Node& node, const PassOptions& options) {
  return options.claims != nullptr && options.claims(options.device, node, graph);
}

}  // namespace

Status expand_pass(Graph& graph, const PassOptions& options) {
  const std::vector<Node> nodes = std::move(graph.nodes);
  const std::vector<Entry> entries = std::move(graph.entries);
  graph.nodes.clear();
  graph.entries.clear();
  std::map<int32_t, Value> replaced;
  const auto now = [&replaced](Value v) {
    auto it = replaced.find(v.id);
    return it == replaced.end() ? v : it->second;
  };
  Builder builder(&graph);
  for (const Entry& e : entries) {
    builder.begin_entry(e.name);
    for (int32_t i = e.first; i < e.first + e.count; ++i) {
      Node node = nodes[static_cast<size_t>(i)];
      for (Value& v : node.in) v = now(v);
      if (node.op->expand == nullptr || claimed(graph, node, options)) {
        graph.nodes.push_back(std::move(node));
        ++graph.entries.back().count;
        continue;
      }
      std::vector<Value> out;
      BORA_TRY_CONTEXT(node.op->expand(node, graph, builder, &out), "expanding " + std::string(node.op->name));
      if (out.size() != node.out.size())
        return internal_error(std::string(node.op->name) + ": expands to another number of outputs");
      for (size_t k = 0; k < out.size(); ++k) replaced[node.out[k].id] = out[k];
    }
    for (const auto& [name, v] : e.outputs) builder.output(name, now(v));
  }
  return builder.finish();
}

Status fuse_pass(Graph& graph, const PassOptions& options) {
  const Op* add = find_op("add");
  const Op* norm = find_op("norm");
  const Op* fused = find_op("add_norm");
  std::vector<bool> gone(graph.nodes.size(), false);
  for (const Entry& e : graph.entries) {
    for (int32_t i = e.first; i < e.first + e.count; ++i) {
      Node& sum = graph.nodes[static_cast<size_t>(i)];
      if (sum.op != add) continue;
      for (int32_t j = i + 1; j < e.first + e.count; ++j) {
        Node& next = graph.nodes[static_cast<size_t>(j)];
        const int32_t n = graph.info(sum.out[0]).shape[1].n;
        if (next.op != norm || next.in[0] != sum.out[0] || next.weights.size() != 1 ||
            next.attrs.get_int("group", n) != n)
          continue;
        Node both = sum;
        both.op = fused;
        both.weights = next.weights;
        both.attrs = next.attrs;
        both.out.push_back(next.out[0]);
        if (!claimed(graph, both, options)) break;
        sum = std::move(both);
        gone[static_cast<size_t>(j)] = true;
        break;
      }
    }
  }
  std::vector<Node> kept;
  for (Entry& e : graph.entries) {
    const int32_t first = static_cast<int32_t>(kept.size());
    for (int32_t i = e.first; i < e.first + e.count; ++i) {
      if (!gone[static_cast<size_t>(i)]) kept.push_back(std::move(graph.nodes[static_cast<size_t>(i)]));
    }
    e.first = first;
    e.count = static_cast<int32_t>(kept.size()) - first;
  }
  graph.nodes = std::move(kept);
  return validate(graph);
}

}  // namespace bora::ir
