#include "model/run.h"

#include <algorithm>
#include <numeric>

namespace bora::model {

Result<std::unique_ptr<ReferenceRun>> ReferenceRun::create(const formats::Checkpoint& checkpoint, const Model& model,
                                                           int32_t max_positions) {
  std::unique_ptr<ReferenceRun> run(new ReferenceRun());
  run->model_ = &model;
  run->max_positions_ = max_positions;
  ir::InterpreterOptions options;
  for (const ir::StateGroup& g : model.graph.groups) {
    const int32_t pages = (max_positions + g.block - 1) / g.block;
    options.blocks.push_back(pages);
    run->tables_.emplace_back(static_cast<size_t>(pages));
    // Any order of pages gives the same numbers; the reverse one shows that tables are used.
    std::iota(run->tables_.back().rbegin(), run->tables_.back().rend(), 0);
  }
  const auto source = [&checkpoint](const ir::WeightDecl& decl, std::vector<float>* out) {
    return decode_weight(checkpoint, decl, out);
  };
  BORA_ASSIGN(run->interpreter_, ir::Interpreter::create(model.graph, source, options));
  return run;
}

Status ReferenceRun::feed(std::span<const int32_t> ids, int32_t rows) {
  const int32_t n = static_cast<int32_t>(ids.size());
  if (n < 1 || rows < 0 || rows > n) return invalid_argument("feed needs at least one id and at most as many rows");
  if (length_ + n > max_positions_) {
    return out_of_range("the sequence would have " + std::to_string(length_ + n) + " positions, room is for " +
                        std::to_string(max_positions_));
  }
  std::vector<int32_t> pos(ids.size()), seq(ids.size(), 0), wanted;
  std::iota(pos.begin(), pos.end(), length_);
  for (int32_t r = n - rows; r < n; ++r) wanted.push_back(r);
  const int32_t begin[2] = {0, n}, kv_len[1] = {length_ + n};
  ir::HostBatch batch;
  batch.tokens = n;
  batch.seqs = 1;
  batch.ids = ids;
  batch.pos = pos;
  batch.seq = seq;
  batch.seq_begin = begin;
  batch.kv_len = kv_len;
  batch.rows = wanted;
  std::vector<std::vector<int32_t>> slots;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const int32_t block = model_->graph.groups[g].block;
    slots.emplace_back();
    for (int32_t p : pos) slots.back().push_back(tables_[g][static_cast<size_t>(p / block)] * block + p % block);
  }
  for (size_t g = 0; g < tables_.size(); ++g) {
    ir::HostBatch::Group group;
    group.table = tables_[g];
    group.pages = static_cast<int32_t>(tables_[g].size());
    group.slot = slots[g];
    batch.groups.push_back(group);
  }
  BORA_TRY(interpreter_->run("forward", batch));
  length_ += n;
  return {};
}

int32_t argmax(std::span<const double> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace bora::model
