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
#include "ir/pick.h"
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
  int32_t histories = 0;        // slots of token history that picks use, each of pages * block tokens; 0: no picks
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

// One token to be picked (or, with a target, to be scored) from a row of logits.
//
// A choice's tokens stand in a history slot of the program, so that a step can be planned before the one before it was
// read: positions below `position` are what penalties look at, and the picked token is written at `position`. What lies
// there beyond is forgotten first; a step that is repeated, a choice that was put back and a fork need nothing else.
struct PickRow {
  int32_t row = 0;       // index into StepPatch::rows
  int32_t slot = 0;      // below Bounds::histories; a slot serves one choice at a time
  int32_t position = 0;  // of the token: the logits row's position + 1
  int32_t prompt = 0;    // positions below it are the prompt
  int32_t target = -1;   // >= 0: nothing is picked or written; this token's log-probability is reported
  int32_t mask = -1;     // row of StepPatch::masks, -1 = none
  // Tokens that the host knows and the slot may lack, written at history_begin before anything is read.
  std::span<const int32_t> history;
  int32_t history_begin = 0;
  const ir::PickParams* params = nullptr;
};

// A copy of a whole block inside a state group (copy on write), run before the step in the given order.
struct BlockCopy {
  int32_t group = 0;
  BlockId from = -1, to = -1;
};

// Everything it points to stays as it is until the step is collected. `forward` reads all but picks and masks, `pick`
// (launched next, with the same id) those two; a step without picks needs no `pick`.
struct StepPatch {
  StepId id = 0;
  int32_t tokens = 0, seqs = 0;
  // `ids_from` [tokens] or empty: >= 0 names the pick of the step launched just before whose token this row takes (its
  // entry in `ids` is ignored). `cont` and `adapter` may be empty.
  std::span<const int32_t> ids, pos, seq, seq_begin, kv_len, rows, origin, cont, ids_from, adapter;
  std::vector<GroupPatch> groups;
  std::span<const BlockCopy> copies;
  std::span<const PickRow> picks;
  std::span<const uint32_t> masks;  // [n, ceil(V / 32)]: bit set = allowed
};

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
};

struct PickedRow {
  int32_t id = -1;      // the token picked, or the target; -1: no logit was a number or every token was forbidden
  float logprob = 0;    // natural logarithm, of softmax over the raw logits; only when logprobs >= 0
  int32_t rank = 0;     // tokens with a greater raw logit; only when logprobs >= 0
  int32_t first = 0, count = 0;  // its alternatives in StepResult::top, best first
};

struct StepResult {
  StepId id = 0;
  std::vector<PickedRow> rows;  // by pick; capacity is kept from step to step
  std::vector<TokenLogprob> top;
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
  // The device has a form of its own of this declaration: its source need not stay in memory. Views stay valid.
  virtual void dont_need(const ir::WeightDecl&) {}
};

struct Bindings {
  WeightStore* weights = nullptr;              // outlives compile
  std::span<const ir::WeightBinding> schemes;  // by weight id
};

class Program {
 public:
  virtual ~Program() = default;
  // Queues an entry's work and returns; the step's numbers are checked here, so a wrong one is an error and no
  // accident.
  // Up to Bounds::in_flight steps may be launched and not collected.
  virtual Status launch(std::string_view entry, const StepPatch& patch, Stream& stream) = 0;
  // Blocks until all that was launched under this id is done; fills *out. Steps are collected in the order of their
  // launch. An error is final for the program.
  virtual Status collect(StepId id, StepResult* out) = 0;
  // Raw logits of the last collected step, [rows, vocab] float32, for tests and tools; valid while no later step was
  // launched; empty if the program keeps none.
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
  bool computes = true;  // false: never taken unless it is named
};

}  // namespace bora::device
