// Builder: writes a graph in the order in which a model reads. The first error sticks: later calls return invalid
// values and `finish` reports it, so model code needs no checks between ops.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/ops.h"

namespace bora::ir {

class Builder {
 public:
  explicit Builder(Graph* graph) : graph_(graph) {}  // `graph` outlives this

  Graph& graph() { return *graph_; }
  const Status& status() const { return status_; }
  void fail(Status status);  // keeps the first

  // Declarations.
  Value input(std::string_view name, DType dtype, std::vector<Dim> shape);
  WeightId weight(WeightDecl decl);        // sets decl.id
  int32_t group(const StateGroup& group);  // an equal group is reused; creates its GroupInputs
  StateId state(StateSpec spec);
  void begin_entry(std::string_view name);
  void output(std::string_view name, Value value);  // of the current entry

  // Emits one node and returns its outputs.
  struct Emit {
    std::string_view op;
    std::vector<Value> in = {};
    std::vector<WeightId> weights = {};
    std::vector<StateId> reads = {}, writes = {};
    Attrs attrs = {};
  };
  std::vector<Value> emit(Emit emit);
  Value emit1(Emit e);  // REQUIRES: the op has one output

  // Creates the batch inputs that every causal text model has.
  void standard_batch();

  Status finish();  // first error, or validate()

 private:
  Graph* graph_;
  Status status_;
};

}  // namespace bora::ir
