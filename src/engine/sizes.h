// How large a model is made on a device: context, cache blocks and bounds, from what was asked and the memory that is
// there. Private to the module.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "engine/host.h"
#include "engine/memory.h"
#include "kv/pool.h"
#include "model/family.h"
#include "sched/scheduler.h"

namespace bora::engine {

struct Sizes {
  device::Bounds bounds;
  sched::Limits limits;
  std::vector<kv::GroupSpec> groups;
  device::MemoryPlan plan;
};

// kInvalidArgument: an option is out of its range. kResourceExhausted: it does not fit; bytes and options are named.
Result<Sizes> choose_sizes(const device::Device& device, const model::Model& model, const ModelOptions& options,
                           const AvailableMemory& memory);

}  // namespace bora::engine
