#include "ir/builder.h"

namespace bora::ir {

void Builder::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Value Builder::input(std::string_view name, DType dtype, std::vector<Dim> shape) {
  graph_->values.push_back({dtype, std::move(shape), std::string(name)});
  return {static_cast<int32_t>(graph_->values.size()) - 1};
}

WeightId Builder::weight(WeightDecl decl) {
  decl.id = {static_cast<int32_t>(graph_->weights.size())};
  graph_->weights.push_back(std::move(decl));
  return graph_->weights.back().id;
}

int32_t Builder::group(const StateGroup& group) {
  for (size_t i = 0; i < graph_->groups.size(); ++i) {
    if (graph_->groups[i] == group) return static_cast<int32_t>(i);
  }
  const int32_t id = static_cast<int32_t>(graph_->groups.size());
  const std::string prefix = "group" + std::to_string(id) + ".";
  graph_->groups.push_back(group);
  GroupInputs in;
  if (group.keep == Keep::kLast) {
    in.load = input(prefix + "load", DType::kI32, {{Sym::kSeqs, 1}});
    in.store = input(prefix + "store", DType::kI32, {{Sym::kTokens, 1}});
  } else {
    in.table = input(prefix + "table", DType::kI32, {{Sym::kSeqs, 1}, {Sym::kPages, 1}});
    in.slot = input(prefix + "slot", DType::kI32, {{Sym::kTokens, 1}});
  }
  graph_->group_inputs.push_back(in);
  return id;
}

StateId Builder::state(StateSpec spec) {
  graph_->states.push_back(std::move(spec));
  return {static_cast<int32_t>(graph_->states.size()) - 1};
}

void Builder::begin_entry(std::string_view name) {
  graph_->entries.push_back({std::string(name), static_cast<int32_t>(graph_->nodes.size()), 0, {}});
}

void Builder::output(std::string_view name, Value value) {
  if (graph_->entries.empty()) return fail(internal_error("an output outside of an entry"));
  graph_->entries.back().outputs.emplace_back(std::string(name), value);
}

std::vector<Value> Builder::emit(Emit e) {
  if (!status_.ok()) return std::vector<Value>(8);
  if (graph_->entries.empty()) {
    fail(internal_error("a node outside of an entry"));
    return std::vector<Value>(8);
  }
  Node node;
  node.op = find_op(e.op);
  if (node.op == nullptr) {
    fail(internal_error("no op '" + std::string(e.op) + "'"));
    return std::vector<Value>(8);
  }
  node.in = std::move(e.in);
  node.weights = std::move(e.weights);
  node.reads = std::move(e.reads);
  node.writes = std::move(e.writes);
  node.attrs = std::move(e.attrs);
  for (Value v : node.in) {
    if (!v.valid()) fail(internal_error(std::string(e.op) + ": an input is missing"));
  }
  if (status_.ok()) fail(node.op->infer(node, *graph_).with_context(e.op));
  if (!status_.ok()) return std::vector<Value>(8);
  std::vector<Value> out = node.out;
  graph_->nodes.push_back(std::move(node));
  ++graph_->entries.back().count;
  return out;
}

Value Builder::emit1(Emit e) {
  std::vector<Value> out = emit(std::move(e));
  return out.empty() ? Value{} : out[0];
}

void Builder::standard_batch() {
  Batch& b = graph_->batch;
  const Dim t{Sym::kTokens, 1}, s{Sym::kSeqs, 1}, r{Sym::kRows, 1};
  b.ids = input("ids", DType::kI32, {t});
  b.pos = input("pos", DType::kI32, {t});
  b.seq = input("seq", DType::kI32, {t});
  b.seq_begin = input("seq_begin", DType::kI32, {s});
  b.kv_len = input("kv_len", DType::kI32, {s});
  b.rows = input("rows", DType::kI32, {r});
}

Status Builder::finish() {
  if (!status_.ok()) return status_;
  return validate(*graph_);
}

}  // namespace bora::ir
