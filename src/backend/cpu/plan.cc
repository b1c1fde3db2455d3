#include "backend/cpu/plan.h"

#include <algorithm>
#include <string>

#include "backend/cpu/kernels.h"
#include "ir/ops.h"

namespace bora::cpu {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t rows_bound(ir::Sym sym, const device::Bounds& b) {
  switch (sym) {
    case ir::Sym::kTokens:
      return b.tokens;
    case ir::Sym::kSeqs:
      return b.seqs;
    case ir::Sym::kRows:
      return b.rows;
    case ir::Sym::kPages:
      return b.pages;
    case ir::Sym::kNone:
      break;
  }
  return 1;
}

ir::WeightId storage_of(const ir::Graph& g, ir::WeightId w) {
  return g.weight(w).same_as.valid() ? g.weight(w).same_as : w;
}

Status use_weights(const ir::Graph& graph, Plan* plan) {
  plan->weights.resize(graph.weights.size());
  for (const ir::Node& n : graph.nodes) {
    for (size_t i = 0; i < n.weights.size(); ++i) {
      WeightPlan& w = plan->weights[static_cast<size_t>(storage_of(graph, n.weights[i]).id)];
      const bool linear = n.op->name == "linear" || n.op->name == "head";
      const WeightUse use = n.op->name == "embed" ? WeightUse::kTable
                            : linear && i == 0    ? WeightUse::kMatrix
                                                  : WeightUse::kVector;
      // A table that is also multiplied with is packed; its rows are decoded from the file in either case.
      if (w.use == WeightUse::kUnused || use == WeightUse::kMatrix) w.use = use;
    }
  }
  return {};
}

Status plan_matrix(const ir::WeightDecl& decl, const ir::WeightBinding& binding, WeightPlan* w, int64_t* at) {
  const bool one = std::all_of(binding.schemes.begin(), binding.schemes.end(),
                               [&](const quant::Scheme* s) { return s == binding.schemes[0]; });
  const size_t step = one ? decl.parts.size() : 1;
  for (size_t p = 0; p < decl.parts.size(); p += step) {
    MatrixPlan m;
    m.scheme = binding.schemes[p];
    m.recipe = find_recipe(*m.scheme);
    if (m.recipe == nullptr) {
      return unimplemented("weight '" + decl.parts[p].name + "': the CPU backend has no kernel for " +
                           std::string(m.scheme->name));
    }
    m.first_part = static_cast<int32_t>(p);
    m.parts = static_cast<int32_t>(step);
    for (size_t k = p; k < p + step; ++k) m.rows += decl.parts[k].rows;
    m.cols = decl.shape[1];
    const int32_t block = m.recipe->bits >= 16 ? 1 : std::max(m.scheme->block, kBlock);
    if (m.cols % block != 0) {
      return unimplemented("weight '" + decl.parts[p].name + "': rows of " + std::to_string(m.cols) +
                           " are no multiple of " + std::to_string(block));
    }
    m.bytes = packed_bytes(*m.recipe, m.rows, m.cols);
    m.offset = *at;
    *at = round_up(*at + m.bytes, 4096);
    w->matrices.push_back(m);
  }
  return {};
}

Status plan_weights(const ir::Graph& graph, std::span<const ir::WeightBinding> bindings, Plan* plan) {
  BORA_TRY(use_weights(graph, plan));
  if (bindings.size() != graph.weights.size()) return invalid_argument("bindings for another number of weights");
  for (size_t i = 0; i < graph.weights.size(); ++i) {
    WeightPlan& w = plan->weights[i];
    const ir::WeightDecl& decl = graph.weights[i];
    if (w.use == WeightUse::kMatrix) {
      BORA_TRY(plan_matrix(decl, bindings[i], &w, &plan->weight_bytes));
    } else if (w.use == WeightUse::kVector) {
      w.count = decl.shape[0];
      w.offset = plan->weight_bytes / 4;
      plan->weight_bytes = round_up(plan->weight_bytes + w.count * 4, 64);
    }
  }
  return {};
}

// Places by lifetime: a value's floats go back once its last reader has run. Outputs of an entry live to the end.
class Places {
 public:
  int64_t take(int64_t floats) {
    floats = round_up(floats, 16);
    size_t best = holes_.size();
    for (size_t i = 0; i < holes_.size(); ++i) {
      const bool fits = holes_[i].second >= floats;
      if (fits && (best == holes_.size() || holes_[i].second < holes_[best].second)) best = i;
    }
    if (best == holes_.size()) {
      end_ += floats;
      return end_ - floats;
    }
    const int64_t at = holes_[best].first;
    holes_[best].first += floats;
    holes_[best].second -= floats;
    return at;
  }
  void give(int64_t at, int64_t floats) { holes_.emplace_back(at, round_up(floats, 16)); }
  int64_t end() const { return end_; }

 private:
  std::vector<std::pair<int64_t, int64_t>> holes_;  // begin, floats
  int64_t end_ = 0;
};

// One stretch of the workspace: a value, or the rows of one packed matrix with its parts as views into them.
struct Stretch {
  int64_t at = 0, floats = 0;
  int32_t last_use = 0;
};

void plan_values(const ir::Graph& graph, const device::Bounds& bounds, Plan* plan) {
  plan->values.resize(graph.values.size());
  std::vector<int32_t> last(graph.values.size(), -1);
  const int32_t count = static_cast<int32_t>(graph.nodes.size());
  for (int32_t i = 0; i < count; ++i) {
    for (ir::Value v : graph.nodes[static_cast<size_t>(i)].in) last[static_cast<size_t>(v.id)] = i;
    for (ir::Value v : graph.nodes[static_cast<size_t>(i)].out) last[static_cast<size_t>(v.id)] = i;
  }
  for (const ir::Entry& e : graph.entries) {
    for (const auto& [name, v] : e.outputs) last[static_cast<size_t>(v.id)] = count;
  }
  Places places;
  std::vector<Stretch> live;
  for (int32_t i = 0; i < count; ++i) {
    const ir::Node& n = graph.nodes[static_cast<size_t>(i)];
    const auto place = [&](size_t first, size_t values, int64_t width) {
      const ir::Sym sym = graph.info(n.out[first]).shape[0].sym;
      Stretch s{0, rows_bound(sym, bounds) * width, i};
      s.at = places.take(s.floats);
      int64_t column = 0;
      for (size_t k = first; k < first + values; ++k) {
        const int64_t columns = graph.info(n.out[k]).shape[1].n;
        plan->values[static_cast<size_t>(n.out[k].id)] = {s.at + column, width, columns};
        column += columns;
        s.last_use = std::max(s.last_use, last[static_cast<size_t>(n.out[k].id)]);
      }
      live.push_back(s);
    };
    if (n.op->name == "linear" || n.op->name == "head") {
      for (const MatrixPlan& m : plan->weights[static_cast<size_t>(storage_of(graph, n.weights[0]).id)].matrices) {
        const bool head = n.op->name == "head";
        place(head ? 0 : static_cast<size_t>(m.first_part), head ? 1 : static_cast<size_t>(m.parts),
              round_up(m.rows, kTileRows));
      }
    } else if (!n.out.empty()) {
      place(0, 1, round_up(graph.info(n.out[0]).shape[1].n, 16));
    }
    std::erase_if(live, [&](const Stretch& s) {
      if (s.last_use > i) return false;
      places.give(s.at, s.floats);
      return true;
    });
  }
  plan->workspace_bytes = round_up(places.end() * 4, 4096);
}

Status plan_states(const ir::Graph& graph, const device::Bounds& bounds, Plan* plan) {
  if (bounds.blocks.size() != graph.groups.size())
    return invalid_argument("bounds name blocks for another number of state groups");
  plan->states.resize(graph.states.size());
  plan->groups.resize(graph.groups.size());
  for (size_t g = 0; g < graph.groups.size(); ++g) {
    if (graph.groups[g].keep == ir::Keep::kLast) return unimplemented("recurrent state on the CPU backend");
    if (graph.groups[g].block != kKvBlock)
      return unimplemented("state blocks of another size than 16 on the CPU backend");
    GroupPlan& group = plan->groups[g];
    group.blocks = bounds.blocks[g];
    for (size_t s = 0; s < graph.states.size(); ++s) {
      const ir::StateSpec& spec = graph.states[s];
      if (spec.group != static_cast<int32_t>(g) || spec.same_as.valid()) continue;
      const bool known = spec.dtype == DType::kF32 || spec.dtype == DType::kF16 || spec.dtype == DType::kBF16;
      if (!known || spec.per_unit.size() != 2) {
        return unimplemented("state '" + spec.name + "': the CPU backend keeps [heads, width] of f32, f16 or bf16");
      }
      plan->states[s].offset = group.block_bytes;
      group.block_bytes += spec.per_unit[0] * round_up(spec.per_unit[1], 16) * kKvBlock * dtype_bytes(spec.dtype);
      group.block_bytes = round_up(group.block_bytes, 64);
    }
    group.offset = plan->state_bytes;
    plan->state_bytes = round_up(plan->state_bytes + group.block_bytes * group.blocks, 4096);
  }
  for (size_t s = 0; s < graph.states.size(); ++s) {
    const ir::StateId same = graph.states[s].same_as;
    if (same.valid()) plan->states[s] = plan->states[static_cast<size_t>(same.id)];
  }
  return {};
}

}  // namespace

Result<Plan> make_plan(const ir::Graph& graph, std::span<const ir::WeightBinding> bindings,
                       const device::Bounds& bounds) {
  if (bounds.tokens < 1 || bounds.seqs < 1 || bounds.rows < 1 || bounds.pages < 1)
    return invalid_argument("bounds must be positive");
  Plan plan;
  BORA_TRY(plan_weights(graph, bindings, &plan));
  plan_values(graph, bounds, &plan);
  BORA_TRY(plan_states(graph, bounds, &plan));
  return plan;
}

}  // namespace bora::cpu
