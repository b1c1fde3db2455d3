#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/ops/op.h"
#include "ir/passes.h"

namespace bora::ir {
namespace {

WeightDecl decl(const std::string& name, std::vector<int64_t> shape) {
  WeightDecl d;
  d.parts.push_back({name, name, 0, shape[0], {}});
  d.axes.assign(shape.size(), Axis::kNone);
  d.shape = std::move(shape);
  return d;
}

// embed -> norm -> linear(2 parts) -> gate -> add twice -> head, one layer of attention between.
struct Small {
  Graph graph;
  Status status;
  explicit Small(bool with_attention = true) {
    Builder b(&graph);
    b.standard_batch();
    b.begin_entry("forward");
    const WeightId table = b.weight(decl("table", {10, 4}));
    Value x = b.emit1({.op = "embed", .in = {graph.batch.ids}, .weights = {table}});
    if (with_attention) {
      const int32_t g = b.group({.keep = Keep::kAll, .window = 0, .block = 2, .align = 2});
      const StateId k = b.state(
          {.name = "k", .group = g, .dtype = DType::kF64, .per_unit = {1, 4}, .shard = Axis::kNone, .same_as = {}});
      const StateId v = b.state(
          {.name = "v", .group = g, .dtype = DType::kF64, .per_unit = {1, 4}, .shard = Axis::kNone, .same_as = {}});
      b.emit({.op = "kv_append", .in = {x, x, graph.group_inputs[0].slot}, .writes = {k, v}});
      Attrs a;
      a.set("heads", int64_t{1});
      a.set("kv_heads", int64_t{1});
      a.set("head_dim", int64_t{4});
      a.set("scale", 0.5);
      const Value y = b.emit1({.op = "attention",
                               .in = {x, graph.batch.pos, graph.batch.seq, graph.group_inputs[0].table},
                               .reads = {k, v},
                               .attrs = a});
      Attrs eps;
      eps.set("eps", 1e-6);
      x = b.emit1({.op = "add", .in = {x, y}});
      x = b.emit1({.op = "norm", .in = {x}, .weights = {b.weight(decl("norm", {4}))}, .attrs = eps});
    }
    const Value rows = b.emit1({.op = "gather_rows", .in = {x, graph.batch.rows}});
    b.output("logits", b.emit1({.op = "head", .in = {rows}, .weights = {table}}));
    status = b.finish();
  }
};

Status numbers(const WeightDecl& d, std::vector<float>* out) {
  int64_t n = 1;
  for (int64_t s : d.shape) n *= s;
  for (int64_t i = 0; i < n; ++i) out->push_back(static_cast<float>((i * 7 + 3) % 11) / 8 - 0.5f);
  return {};
}

struct Step {
  std::vector<int32_t> ids, pos, seq, begin, len, rows, table, slot;
  HostBatch batch(int32_t pages) {
    HostBatch b;
    b.tokens = static_cast<int32_t>(ids.size());
    b.seqs = static_cast<int32_t>(len.size());
    b.ids = ids;
    b.pos = pos;
    b.seq = seq;
    b.seq_begin = begin;
    b.kv_len = len;
    b.rows = rows;
    b.groups.push_back({table, pages, slot, {}, {}});
    return b;
  }
};

TEST(Ops, EveryRecordIsComplete) {
  std::set<std::string_view> names;
  for (const Op* op : ops()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
    EXPECT_FALSE(op->summary.empty()) << op->name;
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->expand == nullptr, op->reference == nullptr) << op->name << " is primitive or fused, not both";
    EXPECT_EQ(op->expand != nullptr, op->tolerance > 0) << op->name;
    EXPECT_EQ(find_op(op->name), op);
  }
  EXPECT_EQ(find_op("none"), nullptr);
}

TEST(Graph, BuildsValidatesAndPrints) {
  Small s;
  ASSERT_TRUE(s.status.ok()) << s.status.message();
  const std::string text = to_string(s.graph);
  EXPECT_NE(text.find("kv_append"), std::string::npos);
  EXPECT_NE(text.find("f32[R,10]"), std::string::npos);
}

TEST(Graph, MutantsAreRefused) {
  const Small good;
  const std::pair<const char*, void (*)(Graph&)> mutants[] = {
      {"value out of range", [](Graph& g) { g.nodes[2].in[0].id = 999; }},
      {"use before definition", [](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }},
      {"defined twice", [](Graph& g) { g.nodes[3].out = g.nodes[0].out; }},
      {"weight out of range", [](Graph& g) { g.nodes[0].weights[0].id = 7; }},
      {"state out of range", [](Graph& g) { g.nodes[1].writes[0].id = 9; }},
      {"wrong output shape", [](Graph& g) { g.values[static_cast<size_t>(g.nodes[0].out[0].id)].shape[1].n = 5; }},
      {"node outside of entries", [](Graph& g) { --g.entries[0].count; }},
      {"state of no group", [](Graph& g) { g.states[0].group = 3; }},
      {"parts that leave a hole", [](Graph& g) { g.weights[0].parts[0].rows = 9; }},
      {"output of no value", [](Graph& g) { g.entries[0].outputs[0].second.id = -1; }}};
  for (const auto& [name, change] : mutants) {
    Graph bad = good.graph;
    change(bad);
    EXPECT_FALSE(validate(bad).ok()) << name;
  }
}

TEST(Builder, TheFirstErrorSticksAndNamesTheOp) {
  Graph g;
  Builder b(&g);
  b.standard_batch();
  b.begin_entry("forward");
  const Value x = b.emit1({.op = "embed", .in = {g.batch.ids}, .weights = {b.weight(decl("t", {10, 4}))}});
  b.emit1({.op = "linear", .in = {x}, .weights = {b.weight(decl("w", {3, 5}))}});
  b.emit1({.op = "nonsense", .in = {x}});
  const Status s = b.finish();
  EXPECT_NE(s.message().find("linear: weight 'w'"), std::string::npos) << s.message();
}

TEST(Infer, RefusesWhatDoesNotFit) {
  const auto try_emit = [](std::string_view op, Attrs attrs, int inputs, bool weight) {
    Graph g;
    Builder b(&g);
    b.standard_batch();
    b.begin_entry("forward");
    const Value x = b.emit1({.op = "embed", .in = {g.batch.ids}, .weights = {b.weight(decl("t", {10, 6}))}});
    Builder::Emit e{.op = op, .attrs = std::move(attrs)};
    for (int i = 0; i < inputs; ++i) e.in.push_back(i == 1 && op == "rope" ? g.batch.pos : x);
    if (weight) e.weights.push_back(b.weight(decl("w", {5})));
    b.emit(std::move(e));
    return b.status();
  };
  Attrs eps, group, freq, kind, factor;
  eps.set("eps", 1e-6);
  group.set("eps", 1e-6);
  group.set("group", int64_t{4});
  freq.set("head_dim", int64_t{2});
  freq.set("inv_freq", std::vector<double>{1, 2});
  kind.set("kind", std::string("swish"));
  factor.set("factor", 2.0);
  EXPECT_FALSE(try_emit("norm", {}, 1, false).ok());     // no eps
  EXPECT_FALSE(try_emit("norm", eps, 1, true).ok());     // weight of another size
  EXPECT_FALSE(try_emit("norm", group, 1, false).ok());  // group does not divide
  EXPECT_FALSE(try_emit("rope", freq, 2, false).ok());   // rotates more than a head
  EXPECT_FALSE(try_emit("activation_gate", kind, 2, false).ok());
  EXPECT_FALSE(try_emit("scale", {}, 1, false).ok());
  EXPECT_FALSE(try_emit("add", {}, 1, false).ok());
  EXPECT_TRUE(try_emit("norm", eps, 1, false).ok());
  EXPECT_TRUE(try_emit("scale", factor, 1, false).ok());
}

// Values worked out apart from the ops, in the order of their definitions.
TEST(Interpreter, AttentionOverPagesByHand) {
  Small s;
  auto in = Interpreter::create(s.graph, numbers, {.blocks = {4}});
  ASSERT_TRUE(in.ok()) << in.status().message();
  // Two sequences of one step: positions 0..2 in blocks 3 and 1, positions 0..1 in block 2.
  Step step{.ids = {1, 5, 2, 5, 3},
            .pos = {0, 1, 2, 0, 1},
            .seq = {0, 0, 0, 1, 1},
            .begin = {0, 3, 5},
            .len = {3, 2},
            .rows = {2, 4},
            .table = {3, 1, 2, 0},
            .slot = {6, 7, 2, 4, 5}};
  ASSERT_TRUE((*in)->run("forward", step.batch(2)).ok());
  const std::span<const double> logits = *(*in)->output("logits");
  std::vector<float> table, weight;
  ASSERT_TRUE(numbers(s.graph.weights[0], &table).ok());
  ASSERT_TRUE(numbers(s.graph.weights[1], &weight).ok());
  const auto expect_row = [&](std::vector<int> ids, std::span<const double> got) {
    double score[8], sum = 0, y[4] = {};
    const float* q = &table[static_cast<size_t>(ids.back() * 4)];
    for (size_t i = 0; i < ids.size(); ++i) {
      double dot = 0;
      for (int d = 0; d < 4; ++d) dot += double{q[d]} * table[static_cast<size_t>(ids[i] * 4 + d)];
      sum += score[i] = std::exp(dot * 0.5);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int d = 0; d < 4; ++d) y[d] += score[i] / sum * table[static_cast<size_t>(ids[i] * 4 + d)];
    }
    double squares = 0;
    for (int d = 0; d < 4; ++d) squares += std::pow(y[d] += q[d], 2);
    for (int v = 0; v < 10; ++v) {
      double want = 0;
      for (int d = 0; d < 4; ++d)
        want += y[d] / std::sqrt(squares / 4 + 1e-6) * weight[static_cast<size_t>(d)] *
                table[static_cast<size_t>(v * 4 + d)];
      EXPECT_NEAR(got[static_cast<size_t>(v)], want, 1e-12);
    }
  };
  expect_row({1, 5, 2}, logits.first(10));
  expect_row({5, 3}, logits.last(10));
}

TEST(Interpreter, WrongStepsAreErrors) {
  Small s;
  auto in = Interpreter::create(s.graph, numbers, {.blocks = {4}});
  Step step{.ids = {99}, .pos = {0}, .seq = {0}, .begin = {0, 1}, .len = {1}, .rows = {0}, .table = {0}, .slot = {0}};
  EXPECT_EQ((*in)->run("forward", step.batch(1)).code(), Code::kOutOfRange);
  EXPECT_EQ((*in)->run("backward", step.batch(1)).code(), Code::kNotFound);
  step.ids = {1};
  for (auto change : {+[](Step& x) { x.slot = {8}; }, +[](Step& x) { x.table = {4}; }, +[](Step& x) { x.pos = {2}; },
                      +[](Step& x) { x.seq = {1}; }, +[](Step& x) { x.slot.clear(); }}) {
    Step bad = step;
    change(bad);
    EXPECT_FALSE((*in)->run("forward", bad.batch(1)).ok());
  }
  step.rows = {3};
  EXPECT_FALSE((*in)->run("forward", step.batch(1)).ok());
  EXPECT_FALSE(Interpreter::create(s.graph, numbers, {.blocks = {}}).ok());
  EXPECT_FALSE((*in)->output("nothing").ok());
}

// An op of its own joins by one record: nothing else changes.
Status infer_negate(Node& node, Graph& graph) {
  BORA_TRY(expect_counts(node, 1, 0, 0, 0));
  return set_out(&node, &graph, 0, graph.info(node.in[0]));
}
Status reference_negate(const Node& node, HostTensors& t) {
  const std::span<const double> x = t.in(node.in[0]);
  const std::span<double> out = t.out(node.out[0]);
  for (size_t i = 0; i < x.size(); ++i) out[i] = -x[i];
  return {};
}
const Op kNegate{
    .name = "negate", .summary = "x -> -x", .infer = infer_negate, .expand = nullptr, .reference = reference_negate};

TEST(Ops, AnOpOfItsOwnIsOneRecord) {
  Small s(false);
  Graph g = s.graph;
  Node n;
  n.op = &kNegate;
  n.in = {g.entries[0].outputs[0].second};
  ASSERT_TRUE(n.op->infer(n, g).ok());
  g.entries[0].outputs[0].second = n.out[0];
  g.nodes.push_back(n);
  ++g.entries[0].count;
  ASSERT_TRUE(validate(g).ok()) << validate(g).message();
  auto a = Interpreter::create(s.graph, numbers, {}), b = Interpreter::create(g, numbers, {});
  Step step{.ids = {4}, .pos = {0}, .seq = {0}, .begin = {0, 1}, .len = {1}, .rows = {0}, .table = {}, .slot = {}};
  HostBatch batch = step.batch(0);
  batch.groups.clear();
  ASSERT_TRUE((*a)->run("forward", batch).ok() && (*b)->run("forward", batch).ok());
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ((*(*b)->output("logits"))[i], -(*(*a)->output("logits"))[i]);
}

bool take_all(const void*, const Node&, const Graph&) { return true; }

TEST(Passes, FuseAndExpandKeepTheNumbers) {
  Small s;
  Graph fused = s.graph;
  ASSERT_TRUE(fuse_pass(fused, {.claims = take_all}).ok());
  EXPECT_EQ(fused.nodes.size() + 1, s.graph.nodes.size());
  EXPECT_NE(to_string(fused).find("add_norm"), std::string::npos);
  Graph same = s.graph;
  ASSERT_TRUE(fuse_pass(same, {}).ok());
  EXPECT_EQ(to_string(same), to_string(s.graph));
  Step step{.ids = {1, 5},
            .pos = {0, 1},
            .seq = {0, 0},
            .begin = {0, 2},
            .len = {2},
            .rows = {1},
            .table = {3},
            .slot = {6, 7}};
  auto a = Interpreter::create(s.graph, numbers, {.blocks = {4}}),
       b = Interpreter::create(fused, numbers, {.blocks = {4}});
  ASSERT_TRUE(a.ok() && b.ok()) << b.status().message();
  ASSERT_TRUE((*a)->run("forward", step.batch(1)).ok() && (*b)->run("forward", step.batch(1)).ok());
  const auto x = *(*a)->output("logits"), y = *(*b)->output("logits");
  EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  ASSERT_TRUE(expand_pass(fused, {.claims = take_all}).ok());
  EXPECT_NE(to_string(fused).find("add_norm"), std::string::npos);
  ASSERT_TRUE(expand_pass(fused, {}).ok());
  EXPECT_EQ(to_string(fused).find("add_norm"), std::string::npos);
}

TEST(RowMap, PairsComeApart) {
  const RowMap pairs{RowMap::Kind::kDeinterleave, 4};
  std::vector<int64_t> got;
  for (int64_t r = 0; r < 8; ++r) got.push_back(pairs.source(r));
  EXPECT_EQ(got, (std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
}

}  // namespace
}  // namespace bora::ir
