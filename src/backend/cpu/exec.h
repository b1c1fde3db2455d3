// A program's steps on the CPU: each node becomes an object that every worker runs, its share each, with a barrier
// after it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/plan.h"
#include "backend/cpu/team.h"

namespace bora::cpu {

// A value during a step.
struct View {
  float* data = nullptr;
  int64_t stride = 0, n = 0;
  float* row(int64_t r) const { return data + r * stride; }
};

// What all nodes share. Integers are those of the step at hand.
struct Context {
  const Kernels* kernels = nullptr;
  Team* team = nullptr;
  int64_t tokens = 0, rows = 0;
  int32_t pages = 0;
  const int32_t *ids = nullptr, *pos = nullptr, *seq = nullptr, *wanted = nullptr;
  std::vector<const int32_t*> tables, slots;  // by group
  std::vector<QuantRows> quant;               // [0] shared by all workers, [1 + w] worker w's own
  std::vector<std::vector<float>> scratch;    // by worker
};

class Exec {
 public:
  virtual ~Exec() = default;
  // Worker's share. A node that needs several phases calls the team's barrier itself; one follows every node.
  virtual void run(Context& c, int32_t worker) = 0;
};

// Where compiled nodes find values, weights and states.
struct Layout {
  const ir::Graph* graph = nullptr;
  const Plan* plan = nullptr;
  device::WeightStore* store = nullptr;
  std::byte* weights = nullptr;
  float* workspace = nullptr;
  std::byte* states = nullptr;
  View view(ir::Value v) const {
    const ValuePlan& p = plan->values[static_cast<size_t>(v.id)];
    return {workspace + p.offset, p.stride, p.n};
  }
};

// kUnimplemented names the op.
Result<std::unique_ptr<Exec>> make_exec(const ir::Node& node, const Layout& layout);
// Can this backend run the node?
bool runs(const ir::Node& node);

}  // namespace bora::cpu
