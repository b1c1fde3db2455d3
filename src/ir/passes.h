// Passes: Graph -> Graph, before compile.
#pragma once

#include "ir/graph.h"

namespace bora::ir {

// Replaces every fused node that options.claims does not take (null: takes none) by its definition.
Status expand_pass(Graph& graph, const PassOptions& options);
// Joins simple nodes into fused ones where options.claims takes them (null: none). The graph keeps its outputs.
Status fuse_pass(Graph& graph, const PassOptions& options);

}  // namespace bora::ir
