// A checkpoint's coded parts straight from the mapped files, as devices read them. Outlives every program compiled
// from it.
#pragma once

#include "device/device.h"
#include "formats/checkpoint.h"
#include "model/family.h"

namespace bora::engine {

class CheckpointStore : public device::WeightStore {
 public:
  explicit CheckpointStore(const formats::Checkpoint* checkpoint) : checkpoint_(checkpoint) {}
  Result<std::vector<quant::CodedMatrix>> coded(const ir::WeightDecl& decl, device::Shard) override {
    std::vector<quant::CodedMatrix> out;
    for (const ir::Part& part : decl.parts) {
      BORA_ASSIGN(quant::CodedMatrix m, model::coded_part(*checkpoint_, decl, part));
      out.push_back(std::move(m));
    }
    return out;
  }
  void dont_need(const ir::WeightDecl& decl) override {
    for (const ir::Part& part : decl.parts) {
      const formats::TensorEntry* t = checkpoint_->find(part.source);
      if (t != nullptr) checkpoint_->dont_need(*t);
    }
  }

 private:
  const formats::Checkpoint* checkpoint_;
};

}  // namespace bora::engine
