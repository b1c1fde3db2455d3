// What a graph becomes on the CPU: places for values, packed weights, state blocks, and their exact sizes. Pure:
// nothing is allocated and no weight is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/packed.h"
#include "device/device.h"

namespace bora::cpu {

// One packed matrix of a declaration: all parts together when they share a scheme, else one each.
struct MatrixPlan {
  const quant::Scheme* scheme = nullptr;
  const Recipe* recipe = nullptr;
  int32_t first_part = 0, parts = 0;
  int64_t rows = 0, cols = 0, bytes = 0;
  int64_t offset = 0;  // in the weight region
};

enum class WeightUse : uint8_t { kUnused, kMatrix, kVector, kTable };

struct WeightPlan {
  WeightUse use = WeightUse::kUnused;
  std::vector<MatrixPlan> matrices;  // kMatrix
  int64_t offset = 0, count = 0;     // kVector: floats in the weight region
};

// A value's place: float32 rows with a stride, in the workspace.
struct ValuePlan {
  int64_t offset = -1;  // floats
  int64_t stride = 0;   // floats between rows
  int64_t n = 0;
};

struct StatePlan {
  int64_t offset = 0;  // bytes from the beginning of a block
};

struct GroupPlan {
  int64_t offset = 0;       // bytes, of block 0 in the state region
  int64_t block_bytes = 0;  // all states of a block, adjacent
  int32_t blocks = 0;
};

struct Plan {
  std::vector<WeightPlan> weights;  // by weight id
  std::vector<ValuePlan> values;    // by value id
  std::vector<StatePlan> states;
  std::vector<GroupPlan> groups;
  int64_t weight_bytes = 0, state_bytes = 0, workspace_bytes = 0;
};

// kUnimplemented names what this backend cannot run.
Result<Plan> make_plan(const ir::Graph& graph, std::span<const ir::WeightBinding> bindings,
                       const device::Bounds& bounds);

}  // namespace bora::cpu
