// Devices: where programs run. The engine sees these interfaces only; backends implement them and join by one list.
//
// A Program is a compiled graph. A step is launched as integers (StepPatch) and collected later (StepResult); up to
// Bounds::in_flight steps may be on the way. launch never blocks, allocates or moves an address: everything is
// reserved from Bounds at compile time, and the plan in bytes is known before any weight is read. Kernel choice,
// fusion and adapter support follow from graph and bounds, never from a batch.
//
// Threads: Device is thread-safe. A Program is driven by one executor thread; extents and state_format may be asked
// from any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"
#include "ir/weights.h"

namespace bora::device {

using StepId = int64_t;
using BlockId = int32_t;
using LayoutId = std::string;  // names a packing: "rows", "cpu-q4-16x", "cuda-int4-g128"

struct Bounds {
  int32_t tokens = 0;  // T: rows of a step
  int32_t seqs = 0;    // S
  int32_t rows = 0;    // R >= 64
  int32_t pages = 0;   // P: width of a block table
  int32_t drafts = 0;  // a sequence and step
  int32_t adapters = 0, rank = 0;
  int32_t in_flight = 1;        // steps launched and not collected
  std::vector<int32_t> blocks;  // by state group
};

struct MemoryPlan {
  uint64_t weights = 0, states = 0, workspace = 0, graphs = 0, pinned_host = 0;
  uint64_t total() const { return weights + states + workspace + graphs; }
};

// A reserved address range; memory comes and goes under it (sleep, swap) and addresses never change.
class Region {
 public:
  virtual ~Region() = default;
  virtual uint64_t size() const = 0;
  virtual Status commit() = 0;
  virtual void decommit() = 0;
};

struct Extent {
  uint64_t offset = 0, bytes = 0;
};

// Integers of one step for the host-written rows; rows with cont = 1 are filled on the device by `advance`.
struct GroupPatch {
  std::span<const int32_t> table;        // [seqs * pages]
  std::span<const int32_t> slot;         // [tokens]
  std::span<const int32_t> load, store;  // [seqs], [tokens]; empty unless kLast
};

// Parameters of one logits row in `pick`. Neutral values switch a processor off.
struct PickParams {
  float temperature = 0;  // 0 = greedy
  float top_p = 1, min_p = 0, typical_p = 1, top_n_sigma = 0;
  int32_t top_k = 0;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  uint64_t seed = 0;  // of the choice; noise = f(seed, choice, position)
  int32_t choice = 0;
  int32_t logprobs = -1;  // alternatives wanted, -1 none
};

struct StepPatch {
  StepId id = 0;
  int32_t tokens = 0, seqs = 0;
  std::span<const int32_t> ids, pos, seq, seq_begin, kv_len, rows, origin, cont, ids_from, adapter;
  std::vector<GroupPatch> groups;
  std::span<const PickParams> pick;                    // by logits row
  std::span<const uint32_t> masks;                     // [rows, ceil(V / 32)] or empty
  std::span<const std::pair<int32_t, int32_t>> moves;  // kv_move: (from slot, to slot), run before all else
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
};

struct PickedRow {
  int32_t id = -1;
  float logprob = 0;
  int32_t accepted = 0;  // drafts that held
  std::vector<TokenLogprob> top;
};

struct StepResult {
  StepId id = 0;
  std::vector<PickedRow> rows;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status synchronize() = 0;
};

// A packed weight on a device; shared by programs (target, drafter) and counted.
class DeviceWeight {
 public:
  virtual ~DeviceWeight() = default;
  virtual const LayoutId& layout() const = 0;
  virtual uint64_t bytes() const = 0;
};

struct Shard {
  int32_t index = 0, count = 1;
};

class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // Coded rows of a declaration's parts, in order, as views into mapped files.
  virtual Result<std::vector<quant::CodedMatrix>> coded(const ir::WeightDecl& decl, Shard shard) = 0;
};

struct Bindings {
  WeightStore* weights = nullptr;              // outlives compile
  std::span<const ir::WeightBinding> schemes;  // by weight id
};

class Program {
 public:
  virtual ~Program() = default;
  virtual Status launch(std::string_view entry, const StepPatch& patch, Stream& stream) = 0;
  // Blocks until the step is done. Steps are collected in the order of their launch.
  virtual Result<StepResult> collect(StepId id) = 0;
  // Raw logits of the last collected step, [rows, vocab] float32, for tests and tools; empty if the program keeps
  // none.
  virtual std::span<const float> logits() const = 0;
  // An output of the last collected step by its name in the entry ("hidden.layers.3"); empty if it was not compiled
  // in.
  virtual std::span<const float> tap(std::string_view name) const = 0;
  // The bytes of one block of a group: a few long runs, all layers adjacent.
  virtual std::vector<Extent> extents(int32_t group, BlockId block) const = 0;
  // Two programs with equal strings may exchange blocks.
  virtual std::string state_format() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;    // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // one line: model, memory, kernel set
  virtual Result<std::unique_ptr<Region>> reserve(uint64_t bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> stream() = 0;
  // May this backend run the node as it stands?
  virtual bool claims(const ir::Node& node, const ir::Graph& graph, const Bounds& bounds) const = 0;
  virtual LayoutId layout(const ir::WeightDecl& decl, const ir::WeightBinding& binding,
                          const Bounds& bounds) const = 0;
  // Exact; allocates nothing and reads no weights.
  virtual Result<MemoryPlan> plan(const ir::Graph& graph, std::span<const ir::WeightBinding> bindings,
                                  const Bounds& bounds) const = 0;
  virtual Result<std::unique_ptr<Program>> compile(const ir::Graph& graph, const Bounds& bounds,
                                                   const Bindings& bindings) = 0;
};

// A backend: a record in the composition root's list.
struct DeviceOptions {
  int32_t threads = 0;  // 0 = all cores
  std::string isa;      // forces a level; empty = best
};
struct Backend {
  std::string_view name;  // "cpu", "cuda"
  std::string_view summary;
  // Devices present now; none is no error. `missing` says in words what would make one appear.
  Result<std::vector<std::unique_ptr<Device>>> (*open)(const DeviceOptions& options, std::string* missing);
};

}  // namespace bora::device
