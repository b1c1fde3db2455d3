#include "app/sequence.h"

#include <algorithm>
#include <numeric>

namespace bora::app {

device::Bounds bounds_for(const ir::Graph& graph, int32_t positions, int32_t tokens, int32_t seqs) {
  device::Bounds b;
  b.pages = (positions + 15) / 16;
  b.tokens = tokens;
  b.seqs = seqs;
  b.rows = 64;
  for (size_t g = 0; g < graph.groups.size(); ++g) b.blocks.push_back(b.pages * seqs);
  return b;
}

Result<std::unique_ptr<Sequence>> Sequence::create(device::Device& device, const model::Model& model,
                                                   device::WeightStore* weights, int32_t positions, int32_t tokens) {
  std::unique_ptr<Sequence> s(new Sequence());
  s->bounds_ = bounds_for(model.graph, positions, tokens, 1);
  s->bounds_.rows = std::max(s->bounds_.rows, tokens);  // tools ask for the logits of every row
  s->groups_ = model.graph.groups.size();
  s->table_.resize(static_cast<size_t>(s->bounds_.pages));
  std::iota(s->table_.rbegin(), s->table_.rend(), 0);
  BORA_ASSIGN(s->program_, device.compile(model.graph, s->bounds_, {weights, model.bindings}));
  BORA_ASSIGN(s->stream_, device.stream());
  return s;
}

Status Sequence::feed(std::span<const int32_t> ids, int32_t rows) {
  const int32_t n = static_cast<int32_t>(ids.size());
  if (n < 1 || n > bounds_.tokens || rows > n || length_ + n > bounds_.pages * 16) {
    return out_of_range("the sequence or the step would be longer than what was reserved");
  }
  std::vector<int32_t> pos(ids.size()), seq(ids.size(), 0), wanted, slot;
  std::iota(pos.begin(), pos.end(), length_);
  for (int32_t r = n - rows; r < n; ++r) wanted.push_back(r);
  for (int32_t p : pos) slot.push_back(table_[static_cast<size_t>(p / 16)] * 16 + p % 16);
  const int32_t begin[2] = {0, n}, kv_len[1] = {length_ + n};
  device::StepPatch patch;
  patch.id = ++step_;
  patch.tokens = n;
  patch.seqs = 1;
  patch.ids = ids;
  patch.pos = pos;
  patch.seq = seq;
  patch.seq_begin = begin;
  patch.kv_len = kv_len;
  patch.rows = wanted;
  for (size_t g = 0; g < groups_; ++g) patch.groups.push_back({table_, slot, {}, {}});
  BORA_TRY(program_->launch("forward", patch, *stream_));
  BORA_TRY(program_->collect(step_, &result_));
  length_ += n;
  return {};
}

}  // namespace bora::app
