#include "ir/interpreter.h"

#include <algorithm>
#include <map>
#include <string>

#include "ir/passes.h"
#include "tensor/half.h"

namespace bora::ir {
namespace {

double round_to(DType dtype, double v) {
  const float f = static_cast<float>(v);
  if (dtype == DType::kBF16) return static_cast<double>(bf16_to_f32(f32_to_bf16(f)));
  if (dtype == DType::kF16) return static_cast<double>(f16_to_f32(f32_to_f16(f)));
  if (dtype == DType::kF32) return static_cast<double>(f);
  return v;  // kF64: the exact oracle
}

class InterpreterImpl : public Interpreter, public HostTensors {
 public:
  InterpreterImpl(Graph graph, WeightSource weights) : graph_(std::move(graph)), source_(std::move(weights)) {}

  Status init(const InterpreterOptions& options) {
    if (options.blocks.size() != graph_.groups.size())
      return invalid_argument("blocks are given for another number of groups");
    blocks_ = options.blocks;
    for (const StateSpec& s : graph_.states) {
      int64_t unit = 1;
      for (int32_t d : s.per_unit) unit *= d;
      const StateGroup& g = graph_.groups[static_cast<size_t>(s.group)];
      const int64_t slots =
          int64_t{options.blocks[static_cast<size_t>(s.group)]} * (g.keep == Keep::kLast ? 1 : g.block);
      states_.emplace_back(static_cast<size_t>(slots * unit), 0.0);
      units_.push_back(static_cast<size_t>(unit));
    }
    values_.resize(graph_.values.size());
    return {};
  }

  Status run(std::string_view entry, const HostBatch& batch) override {
    const Entry* e = graph_.entry(entry);
    if (e == nullptr) return not_found("the graph has no entry '" + std::string(entry) + "'");
    batch_ = &batch;
    entry_ = e;
    BORA_TRY(bind_inputs(batch));
    for (int32_t i = e->first; i < e->first + e->count; ++i) {
      const Node& n = graph_.nodes[static_cast<size_t>(i)];
      for (Value v : n.out) values_[static_cast<size_t>(v.id)].assign(static_cast<size_t>(size_of(v)), 0.0);
      BORA_TRY_CONTEXT(n.op->reference(n, *this), n.op->name);
    }
    return {};
  }

  Result<std::span<const double>> output(std::string_view name) const override {
    if (entry_ != nullptr) {
      for (const auto& [n, v] : entry_->outputs) {
        if (n == name) return std::span<const double>(values_[static_cast<size_t>(v.id)]);
      }
    }
    return not_found("no output '" + std::string(name) + "'");
  }

  const Graph& graph() const override { return graph_; }
  const HostBatch& batch() const override { return *batch_; }
  int64_t extent(Sym sym) const override {
    switch (sym) {
      case Sym::kTokens:
        return batch_->tokens;
      case Sym::kSeqs:
        return batch_->seqs;
      case Sym::kRows:
        return static_cast<int64_t>(batch_->rows.size());
      case Sym::kPages:
        return batch_->groups.empty() ? 0 : batch_->groups[0].pages;
      case Sym::kNone:
        break;
    }
    return 1;
  }
  std::span<const double> in(Value v) const override { return values_[static_cast<size_t>(v.id)]; }
  std::span<const int32_t> in_i32(Value v) const override { return indexes_.at(v.id); }
  std::span<double> out(Value v) override { return values_[static_cast<size_t>(v.id)]; }

  Result<std::span<const float>> weight(WeightId w) override {
    if (graph_.weight(w).same_as.valid()) return weight(graph_.weight(w).same_as);
    std::vector<float>& cached = weights_[w.id];
    if (cached.empty()) BORA_TRY(source_(graph_.weight(w), &cached));
    return std::span<const float>(cached);
  }
  std::span<const double> state(StateId s, int64_t slot) const override {
    const size_t id = storage(s), unit = units_[id];
    return std::span<const double>(states_[id]).subspan(static_cast<size_t>(slot) * unit, unit);
  }
  void store_state(StateId s, int64_t slot, std::span<const double> unit) override {
    const size_t id = storage(s);
    for (size_t i = 0; i < unit.size(); ++i) {
      states_[id][static_cast<size_t>(slot) * units_[id] + i] = round_to(graph_.states[id].dtype, unit[i]);
    }
  }

 private:
  size_t storage(StateId s) const {
    const StateSpec& spec = graph_.state(s);
    return static_cast<size_t>(spec.same_as.valid() ? spec.same_as.id : s.id);
  }
  int64_t size_of(Value v) const {
    int64_t n = 1;
    for (const Dim& d : graph_.info(v).shape) n *= d.n * extent(d.sym);
    return n;
  }

  Status bind_inputs(const HostBatch& b) {
    const Batch& in = graph_.batch;
    const std::pair<Value, std::span<const int32_t>> pairs[] = {
        {in.ids, b.ids},       {in.pos, b.pos},   {in.seq, b.seq},       {in.seq_begin, b.seq_begin},
        {in.kv_len, b.kv_len}, {in.rows, b.rows}, {in.origin, b.origin}, {in.adapter, b.adapter}};
    for (const auto& [v, data] : pairs) {
      if (v.valid()) indexes_[v.id] = data;
    }
    if (b.ids.size() != static_cast<size_t>(b.tokens) || b.pos.size() != b.ids.size() ||
        b.seq.size() != b.ids.size()) {
      return invalid_argument("the step's rows are incomplete");
    }
    if (b.groups.size() != graph_.groups.size())
      return invalid_argument("the step has tables for another number of groups");
    BORA_TRY(check_indexes(b));
    for (size_t g = 0; g < b.groups.size(); ++g) {
      const GroupInputs& gi = graph_.group_inputs[g];
      if (gi.table.valid()) indexes_[gi.table.id] = b.groups[g].table;
      if (gi.slot.valid()) indexes_[gi.slot.id] = b.groups[g].slot;
      if (gi.load.valid()) indexes_[gi.load.id] = b.groups[g].load;
      if (gi.store.valid()) indexes_[gi.store.id] = b.groups[g].store;
    }
    return {};
  }

  // Positions, sequences, blocks and slots are inside what was reserved.
  Status check_indexes(const HostBatch& b) const {
    for (size_t g = 0; g < b.groups.size(); ++g) {
      const HostBatch::Group& in = b.groups[g];
      if (graph_.groups[g].keep == Keep::kLast) continue;
      const int64_t block = graph_.groups[g].block, slots = blocks_[g] * block;
      const bool whole = in.slot.size() == b.ids.size() &&
                         in.table.size() == static_cast<size_t>(b.seqs) * static_cast<size_t>(std::max(in.pages, 0));
      if (!whole) return invalid_argument("a group's table or slots are incomplete");
      for (int32_t s : in.slot) {
        if (s >= slots) return out_of_range("a slot is out of range");
      }
      for (size_t r = 0; r < b.ids.size(); ++r) {
        if (b.seq[r] < 0 || b.seq[r] >= b.seqs || b.pos[r] < 0 || b.pos[r] / block >= in.pages) {
          return out_of_range("row " + std::to_string(r) + " has a sequence or position out of range");
        }
      }
      for (int32_t id : in.table) {
        if (id >= blocks_[g]) return out_of_range("a block id is out of range");
      }
    }
    return {};
  }

  const Graph graph_;
  std::vector<int32_t> blocks_;
  WeightSource source_;
  std::map<int32_t, std::vector<float>> weights_;
  std::vector<std::vector<double>> values_, states_;
  std::vector<size_t> units_;
  std::map<int32_t, std::span<const int32_t>> indexes_;
  const HostBatch* batch_ = nullptr;
  const Entry* entry_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Interpreter>> Interpreter::create(const Graph& graph, WeightSource weights,
                                                         InterpreterOptions options) {
  Graph expanded = graph;
  BORA_TRY(expand_pass(expanded, {}));
  auto out = std::make_unique<InterpreterImpl>(std::move(expanded), std::move(weights));
  BORA_TRY(out->init(options));
  return std::unique_ptr<Interpreter>(std::move(out));
}

}  // namespace bora::ir
