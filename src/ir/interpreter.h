// The float64 interpreter: runs a graph op by op on the host through each primitive's `reference`. It is the oracle
// of every backend and the engine of `--device reference`; it is not fast.
//
// Weights come from a callback, decoded; states live here, in the cache's dtype (values are rounded to it when
// written, as every backend does). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace bora::ir {

// Integer inputs of one step, host side, by the names of Batch and GroupInputs. Spans outlive the call of run().
struct HostBatch {
  struct Group {
    std::span<const int32_t> table;  // [S * pages]
    int32_t pages = 0;
    std::span<const int32_t> slot, load, store;
  };
  int32_t tokens = 0, seqs = 0;
  std::span<const int32_t> ids, pos, seq, seq_begin, kv_len, rows, origin, adapter;
  std::vector<Group> groups;
};

// What a primitive's reference sees.
class HostTensors {
 public:
  virtual ~HostTensors() = default;
  virtual const Graph& graph() const = 0;
  virtual const HostBatch& batch() const = 0;
  // Rows of the current step for a symbol.
  virtual int64_t extent(Sym sym) const = 0;
  // Float values as float64, row-major. `out` is sized by shape and zeroed.
  virtual std::span<const double> in(Value v) const = 0;
  virtual std::span<const int32_t> in_i32(Value v) const = 0;
  virtual std::span<double> out(Value v) = 0;
  // A weight decoded to float32, whole: [rows * cols].
  virtual Result<std::span<const float>> weight(WeightId w) = 0;
  // A state's elements of one position (or slot), float64; writes round to the state's dtype.
  virtual std::span<const double> state(StateId s, int64_t slot) const = 0;
  virtual void store_state(StateId s, int64_t slot, std::span<const double> unit) = 0;
};

struct InterpreterOptions {
  std::vector<int32_t> blocks;  // by group: number of blocks
};

class Interpreter {
 public:
  using WeightSource = std::function<Status(const WeightDecl& decl, std::vector<float>* out)>;
  // `graph` outlives this. Fused nodes are expanded first.
  static Result<std::unique_ptr<Interpreter>> create(const Graph& graph, WeightSource weights,
                                                     InterpreterOptions options);
  virtual ~Interpreter() = default;
  virtual Status run(std::string_view entry, const HostBatch& batch) = 0;
  // An output of the entry that ran last, float64 row-major. Valid until the next run.
  virtual Result<std::span<const double>> output(std::string_view name) const = 0;
};

}  // namespace bora::ir
