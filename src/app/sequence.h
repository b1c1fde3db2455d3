// One sequence on a device's program: what line tools run. Positions from 0; one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/weights.h"
#include "formats/checkpoint.h"
#include "model/family.h"

namespace bora::app {

using CheckpointWeights = engine::CheckpointStore;

// Bounds for `seqs` sequences of `positions` and steps of `tokens` rows.
device::Bounds bounds_for(const ir::Graph& graph, int32_t positions, int32_t tokens, int32_t seqs);

class Sequence {
 public:
  static Result<std::unique_ptr<Sequence>> create(device::Device& device, const model::Model& model,
                                                  device::WeightStore* weights, int32_t positions, int32_t tokens);
  // Feeds ids at the next positions; logits are wanted of the last `rows`.
  Status feed(std::span<const int32_t> ids, int32_t rows);
  std::span<const float> logits() const { return program_->logits(); }
  std::span<const float> tap(std::string_view name) const { return program_->tap(name); }
  int32_t length() const { return length_; }

 private:
  Sequence() = default;
  std::unique_ptr<device::Program> program_;
  std::unique_ptr<device::Stream> stream_;
  device::Bounds bounds_;
  std::vector<int32_t> table_;
  int32_t length_ = 0;
  size_t groups_ = 0;
  device::StepId step_ = 0;
  device::StepResult result_;
};

}  // namespace bora::app
