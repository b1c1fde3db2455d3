// The graph: a model's step as SSA values over a closed vocabulary of ops, with state as named resources.
//
// A graph is written once by a family and read by everyone: backends compile it, the interpreter runs it in float64,
// passes rewrite it. It is not a general compiler: no shapes computed at run time, no control flow, no attribute that
// names a family.
//
// Shapes. Every activation is a matrix [rows, n]: rows is one of the bounded symbols (T tokens of the ragged batch, S
// sequences, R rows whose logits are wanted) and n a number; heads are a stride inside n, told by attributes. Index
// inputs are vectors. Nodes run in order; reads and writes of a state keep that order.
//
// State. A layer's keys, values or recurrent state is a StateSpec in a StateGroup. Where a row's state goes and where
// a sequence reads are explicit integer inputs (slot, table, load, store), so that paging, windows, trees, drafts,
// forks and rollback need no op of their own.
//
// A Graph is a value built by one thread; const access from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "ir/weights.h"
#include "tensor/dtype.h"

namespace bora::ir {

enum class Sym : uint8_t { kNone, kTokens, kSeqs, kRows, kPages };  // 1, T, S, R, P (width of a block table)

// Extent n * bound(sym); kNone: n itself.
struct Dim {
  Sym sym = Sym::kNone;
  int32_t n = 1;
  bool operator==(const Dim&) const = default;
};

struct Value {
  int32_t id = -1;
  bool valid() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};
struct StateId {
  int32_t id = -1;
  bool valid() const { return id >= 0; }
  bool operator==(const StateId&) const = default;
};

struct ValueInfo {
  DType dtype = DType::kF32;
  std::vector<Dim> shape;
  std::string name;  // inputs and outputs; empty for the rest
};

// Attributes of a node: names are those that the op's record documents.
class Attrs {
 public:
  using Item = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
  void set(std::string_view name, Item value);
  const Item* find(std::string_view name) const;
  // The value, or `fallback` when absent. A value of another type counts as absent; an op's infer refuses it.
  bool get_bool(std::string_view name, bool fallback) const;
  int64_t get_int(std::string_view name, int64_t fallback) const;
  double get_double(std::string_view name, double fallback) const;
  std::string_view get_string(std::string_view name, std::string_view fallback) const;
  std::span<const double> get_doubles(std::string_view name) const;  // empty when absent
  std::span<const std::pair<std::string, Item>> items() const { return items_; }

 private:
  std::vector<std::pair<std::string, Item>> items_;
};

// The only ragged metadata: ordinary int32 inputs, rows ordered by sequence. Absent = invalid Value.
struct Batch {
  Value ids;         // [T]
  Value pos;         // [T] or [3,T]
  Value seq;         // [T] index of the row's sequence in the step
  Value seq_begin;   // [S+1] first row of each sequence
  Value kv_len;      // [S] length after this step's rows; the device's own truth when it runs ahead
  Value rows;        // [R] which rows want logits
  Value origin;      // [T] 0 prompt, 1 generated
  Value cont;        // [S] 1 = continues from the previous pick: `advance` fills its ids, pos, slot, kv_len and load
  Value ids_from;    // [T] row of the previous pick whose token this row takes, or -1
  Value adapter;     // [S] adapter slot or -1
  Value tree;        // [T,W] ancestor bits among this step's rows
  Value embeds;      // [E,d] rows that replace embeddings
  Value embed_from;  // [T] row of `embeds` or -1
};

// Inputs of the entry `pick`, R rows. Penalty counts, DRY history and mirostat's mu are states of a kLast group, so
// that rollback and fork apply to them too.
struct PickInputs {
  Value params;  // [R,k] f32
  Value seed;    // [R,2] the 64 bits of a choice's seed
  Value mask;    // [R,V/32] bits, or absent
  Value bias;    // [n,2] sparse (row * V + token, f32 bits), or absent
};

// One set a state group.
struct GroupInputs {
  Value table;  // [S,P] block ids
  Value slot;   // [T] where a row's keys and values go (block * block_tokens + offset), -1 nowhere
  Value load;   // [S] slot a recurrent state is read from before the sequence's first row
  Value store;  // [T] slot it is written to after this row, -1 none
};

enum class Keep : uint8_t { kAll, kWindow, kLast };  // which positions a live sequence needs

struct StateGroup {
  Keep keep = Keep::kAll;
  int32_t window = 0;  // kWindow: positions that a row sees, itself included
  int32_t block = 16;  // tokens of a block; kLast: 1
  int32_t align = 16;  // prefill chunks end at multiples of this
  bool operator==(const StateGroup&) const = default;
};

struct StateSpec {
  std::string name;  // "layers.3.k"
  int32_t group = 0;
  DType dtype = DType::kF32;
  std::vector<int32_t>
      per_unit;              // elements of one position (kAll, kWindow) or one slot (kLast): [kv_heads, head_dim]
  Axis shard = Axis::kNone;  // the first extent of per_unit is cut along it
  StateId same_as;           // shares the other's storage (layers that reuse keys and values)
};

struct Op;

struct Node {
  const Op* op = nullptr;
  std::vector<Value> in, out;
  std::vector<WeightId> weights;
  std::vector<StateId> reads, writes;
  Attrs attrs;
};

// A program's way in: "forward", "pick", "encode", "draft". Owns a contiguous range of nodes.
struct Entry {
  std::string name;
  int32_t first = 0, count = 0;                        // nodes()[first, first + count)
  std::vector<std::pair<std::string, Value>> outputs;  // "logits", "hidden.embed", "hidden.layers.3", …
};

struct Graph {
  std::vector<ValueInfo> values;
  std::vector<Node> nodes;
  std::vector<Entry> entries;
  std::vector<WeightDecl> weights;
  std::vector<StateGroup> groups;
  std::vector<StateSpec> states;
  Batch batch;
  PickInputs pick;
  std::vector<GroupInputs> group_inputs;  // parallel to groups

  const ValueInfo& info(Value v) const { return values[static_cast<size_t>(v.id)]; }
  const WeightDecl& weight(WeightId w) const { return weights[static_cast<size_t>(w.id)]; }
  const StateSpec& state(StateId s) const { return states[static_cast<size_t>(s.id)]; }
  const Entry* entry(std::string_view name) const;
};

// Every reference is in range, values are defined before use, each value by one node, ops' own rules (infer) hold
// again.
Status validate(const Graph& graph);
// Text for people and for golden tests: one node a line.
std::string to_string(const Graph& graph);

// Graph -> Graph, before compile. A pass leaves a valid graph or an error.
struct PassOptions {
  int32_t shards = 1;
  int32_t max_adapters = 0, max_rank = 0;
  // fuse: may a backend take this fused node? Decided by graph and bounds, never by a batch.
  bool (*claims)(const void* device, const Node& node, const Graph& graph) = nullptr;
  const void* device = nullptr;
};
using Pass = Status (*)(Graph&, const PassOptions&);

}  // namespace bora::ir
