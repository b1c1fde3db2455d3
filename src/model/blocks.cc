#include "model/blocks.h"

#include <cmath>

namespace bora::model {

using ir::Axis;
using ir::Value;
using ir::WeightId;

Weights Weights::operator/(std::string_view name) const {
  Weights out = *this;
  out.prefix_ += (prefix_.empty() ? "" : ".") + std::string(name);
  return out;
}

WeightId Weights::declare(std::vector<PartSpec> parts, std::string_view suffix, std::vector<int64_t> shape,
                          std::vector<Axis> axes, bool quantizable) const {
  ir::WeightDecl decl;
  decl.shape = std::move(shape);
  decl.axes = std::move(axes);
  decl.quantizable = quantizable;
  int64_t row = 0;
  for (const PartSpec& p : parts) {
    ir::Part part;
    part.name = prefix_ + (prefix_.empty() || p.name.empty() ? "" : ".") + std::string(p.name) + std::string(suffix);
    part.source = source_(part.name);
    part.row = row;
    part.rows = p.rows;
    part.row_map = p.row_map;
    row += p.rows;
    decl.parts.push_back(std::move(part));
  }
  return builder_->weight(std::move(decl));
}

WeightId Weights::matrix(std::vector<PartSpec> parts, int64_t cols, Axis rows_axis, Axis cols_axis) const {
  int64_t rows = 0;
  for (const PartSpec& p : parts) rows += p.rows;
  return declare(std::move(parts), ".weight", {rows, cols}, {rows_axis, cols_axis}, true);
}

WeightId Weights::bias(std::vector<PartSpec> parts, Axis axis) const {
  int64_t rows = 0;
  for (const PartSpec& p : parts) rows += p.rows;
  return declare(std::move(parts), ".bias", {rows}, {axis}, false);
}

WeightId Weights::vector(std::string_view name, int64_t n) const {
  return declare({{name, n}}, ".weight", {n}, {Axis::kNone}, false);
}

Value norm(ir::Builder& b, WeightId weight, Value x, double eps, double plus) {
  ir::Attrs attrs;
  attrs.set("eps", eps);
  if (plus != 0) attrs.set("plus", plus);
  return b.emit1({.op = "norm", .in = {x}, .weights = {weight}, .attrs = std::move(attrs)});
}

namespace {

Value rotate(ir::Builder& b, Value x, const AttentionSpec& spec) {
  ir::Attrs attrs;
  attrs.set("head_dim", int64_t{spec.head_dim});
  attrs.set("inv_freq", spec.rope.inv_freq);
  attrs.set("attention_factor", spec.rope.attention_factor);
  return b.emit1({.op = "rope", .in = {x, b.graph().batch.pos}, .attrs = std::move(attrs)});
}

Value head_norm(ir::Builder& b, const Weights& w, std::string_view name, Value x, const AttentionSpec& spec) {
  ir::Attrs attrs;
  attrs.set("eps", spec.norm_eps);
  attrs.set("group", int64_t{spec.head_dim});
  if (spec.norm_plus != 0) attrs.set("plus", spec.norm_plus);
  return b.emit1({.op = "norm", .in = {x}, .weights = {w.vector(name, spec.head_dim)}, .attrs = std::move(attrs)});
}

struct Cache {
  ir::StateId k, v;
  ir::GroupInputs inputs;
};

Cache make_cache(ir::Builder& b, int32_t layer, const AttentionSpec& spec, const BuildOptions& options) {
  const ir::StateGroup group{.keep = spec.window > 0 ? ir::Keep::kWindow : ir::Keep::kAll,
                             .window = spec.window,
                             .block = options.block,
                             .align = 16};
  const int32_t id = b.group(group);
  const auto state = [&](std::string_view which) {
    return b.state({.name = "layers." + std::to_string(layer) + "." + std::string(which),
                    .group = id,
                    .dtype = options.kv_dtype,
                    .per_unit = {spec.kv_heads, spec.head_dim},
                    .shard = Axis::kKvHeads,
                    .same_as = {}});
  };
  Cache c;
  c.k = state("k");
  c.v = state("v");
  c.inputs = b.graph().group_inputs[static_cast<size_t>(id)];
  return c;
}

}  // namespace

Value attention(ir::Builder& b, const Weights& w, Value x, int32_t hidden, int32_t layer, const AttentionSpec& spec,
                const BuildOptions& options) {
  const int64_t q_rows = int64_t{spec.heads} * spec.head_dim, kv_rows = int64_t{spec.kv_heads} * spec.head_dim;
  ir::RowMap pairs;
  if (spec.paired_rows) pairs = {ir::RowMap::Kind::kDeinterleave, spec.head_dim};
  const std::vector<Weights::PartSpec> parts{
      {"q_proj", q_rows, pairs}, {"k_proj", kv_rows, pairs}, {"v_proj", kv_rows}};
  std::vector<WeightId> weights{w.matrix(parts, hidden, Axis::kHeads, Axis::kHidden)};
  if (spec.qkv_bias) weights.push_back(w.bias(parts, Axis::kHeads));
  std::vector<Value> qkv = b.emit({.op = "linear", .in = {x}, .weights = weights});
  Value q = qkv[0], k = qkv[1];
  if (spec.qk_norm) {
    q = head_norm(b, w, "q_norm", q, spec);
    k = head_norm(b, w, "k_norm", k, spec);
  }
  q = rotate(b, q, spec);
  k = rotate(b, k, spec);
  const Cache cache = make_cache(b, layer, spec, options);
  b.emit({.op = "kv_append", .in = {k, qkv[2], cache.inputs.slot}, .writes = {cache.k, cache.v}});
  ir::Attrs attrs;
  attrs.set("heads", int64_t{spec.heads});
  attrs.set("kv_heads", int64_t{spec.kv_heads});
  attrs.set("head_dim", int64_t{spec.head_dim});
  attrs.set("scale", spec.scale);
  if (spec.window > 0) attrs.set("window", int64_t{spec.window});
  const ir::Batch& batch = b.graph().batch;
  const Value mixed = b.emit1({.op = "attention",
                               .in = {q, batch.pos, batch.seq, cache.inputs.table},
                               .reads = {cache.k, cache.v},
                               .attrs = std::move(attrs)});
  std::vector<WeightId> out{w.matrix({{"o_proj", hidden}}, q_rows, Axis::kHidden, Axis::kHeads)};
  if (spec.out_bias) out.push_back(w.bias({{"o_proj", hidden}}, Axis::kHidden));
  return b.emit1({.op = "linear", .in = {mixed}, .weights = out});
}

Value gated_mlp(ir::Builder& b, const Weights& w, Value x, int32_t hidden, int32_t ffn, std::string_view kind,
                bool bias) {
  const std::vector<Weights::PartSpec> parts{{"gate_proj", ffn}, {"up_proj", ffn}};
  std::vector<WeightId> in{w.matrix(parts, hidden, Axis::kFfn, Axis::kHidden)};
  if (bias) in.push_back(w.bias(parts, Axis::kFfn));
  const std::vector<Value> both = b.emit({.op = "linear", .in = {x}, .weights = in});
  ir::Attrs attrs;
  attrs.set("kind", std::string(kind));
  const Value gated = b.emit1({.op = "activation_gate", .in = {both[0], both[1]}, .attrs = std::move(attrs)});
  std::vector<WeightId> out{w.matrix({{"down_proj", hidden}}, ffn, Axis::kHidden, Axis::kFfn)};
  if (bias) out.push_back(w.bias({{"down_proj", hidden}}, Axis::kHidden));
  return b.emit1({.op = "linear", .in = {gated}, .weights = out});
}

void finish_logits(ir::Builder& b, const Weights& root, Value x, WeightId embedding, const DecoderSettings& s,
                   double norm_plus, double softcap, const BuildOptions& options) {
  const Value rows = b.emit1({.op = "gather_rows", .in = {x, b.graph().batch.rows}});
  const Value normed = norm(b, root.vector("model.norm", s.hidden), rows, s.eps, norm_plus);
  WeightId head = root.matrix({{"lm_head", s.vocab}}, s.hidden, Axis::kVocab, Axis::kHidden);
  if (s.tied && head.valid()) b.graph().weights[static_cast<size_t>(head.id)].same_as = embedding;
  ir::Attrs attrs;
  if (softcap > 0) attrs.set("softcap", softcap);
  const Value logits = b.emit1({.op = "head", .in = {normed}, .weights = {head}, .attrs = std::move(attrs)});
  if (options.hidden_outputs) b.output("hidden.final_norm", normed);
  b.output("logits", logits);
}

Status build_pre_norm(ir::Builder& b, const Weights& root, const DecoderSettings& s, bool mlp_bias,
                      const std::function<AttentionSpec(int32_t)>& spec, const BuildOptions& options) {
  b.standard_batch();
  b.begin_entry("forward");
  const WeightId table = root.matrix({{"model.embed_tokens", s.vocab}}, s.hidden, Axis::kVocab, Axis::kHidden);
  Value x = b.emit1({.op = "embed", .in = {b.graph().batch.ids}, .weights = {table}});
  if (options.hidden_outputs) b.output("hidden.embed", x);
  for (int32_t layer = 0; layer < s.layers; ++layer) {
    const Weights l = root / "model.layers" / layer;
    const Value a = norm(b, l.vector("input_layernorm", s.hidden), x, s.eps);
    x = b.emit1({.op = "add", .in = {x, attention(b, l / "self_attn", a, s.hidden, layer, spec(layer), options)}});
    const Value m = norm(b, l.vector("post_attention_layernorm", s.hidden), x, s.eps);
    x = b.emit1({.op = "add", .in = {x, gated_mlp(b, l / "mlp", m, s.hidden, s.ffn, "silu", mlp_bias)}});
    if (options.hidden_outputs) b.output("hidden.layers." + std::to_string(layer), x);
  }
  finish_logits(b, root, x, table, s, 0, 0, options);
  return b.status();
}

}  // namespace bora::model
