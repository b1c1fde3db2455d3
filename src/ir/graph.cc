#include "ir/graph.h"

#include <algorithm>

#include "ir/ops.h"

namespace bora::ir {

void Attrs::set(std::string_view name, Item value) {
  for (auto& [n, v] : items_) {
    if (n == name) {
      v = std::move(value);
      return;
    }
  }
  items_.emplace_back(std::string(name), std::move(value));
}

const Attrs::Item* Attrs::find(std::string_view name) const {
  for (const auto& [n, v] : items_) {
    if (n == name) return &v;
  }
  return nullptr;
}

namespace {

template <typename T>
const T* typed(const Attrs& attrs, std::string_view name) {
  const Attrs::Item* item = attrs.find(name);
  return item == nullptr ? nullptr : std::get_if<T>(item);
}

}  // namespace

bool Attrs::get_bool(std::string_view name, bool fallback) const {
  const bool* v = typed<bool>(*this, name);
  return v ? *v : fallback;
}

int64_t Attrs::get_int(std::string_view name, int64_t fallback) const {
  const int64_t* v = typed<int64_t>(*this, name);
  return v ? *v : fallback;
}

double Attrs::get_double(std::string_view name, double fallback) const {
  const double* v = typed<double>(*this, name);
  return v ? *v : fallback;
}

std::string_view Attrs::get_string(std::string_view name, std::string_view fallback) const {
  const std::string* v = typed<std::string>(*this, name);
  return v ? std::string_view(*v) : fallback;
}

std::span<const double> Attrs::get_doubles(std::string_view name) const {
  const auto* v = typed<std::vector<double>>(*this, name);
  return v ? std::span<const double>(*v) : std::span<const double>();
}

int64_t RowMap::source(int64_t r) const {
  if (kind == Kind::kIdentity) return r;
  const int64_t half = head_dim / 2, head = r / head_dim, i = r % head_dim;
  return head * head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
}

const Entry* Graph::entry(std::string_view name) const {
  for (const Entry& e : entries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

namespace {

Status check_weight(const Graph& g, const WeightDecl& w) {
  const std::string who = "weight " + (w.parts.empty() ? std::string("?") : w.parts[0].name);
  if (w.parts.empty() || w.shape.empty() || w.axes.size() != w.shape.size())
    return internal_error(who + ": incomplete");
  int64_t row = 0;
  for (const Part& p : w.parts) {
    if (p.row != row || p.rows < 1) return internal_error(who + ": parts do not cover the rows in order");
    row += p.rows;
  }
  if (row != w.shape[0]) return internal_error(who + ": parts do not cover the rows");
  if (w.same_as.valid() && w.same_as.id >= static_cast<int32_t>(g.weights.size()))
    return internal_error(who + ": tied to nothing");
  return {};
}

Status check_references(const Graph& g, const Node& n, std::vector<bool>* defined) {
  const std::string who = "node " + std::string(n.op ? n.op->name : "?");
  if (n.op == nullptr) return internal_error("a node without an op");
  for (Value v : n.in) {
    if (!v.valid() || v.id >= static_cast<int32_t>(g.values.size()))
      return internal_error(who + ": input out of range");
    if (!(*defined)[static_cast<size_t>(v.id)]) return internal_error(who + ": uses a value before it is defined");
  }
  for (WeightId w : n.weights) {
    if (!w.valid() || w.id >= static_cast<int32_t>(g.weights.size()))
      return internal_error(who + ": weight out of range");
  }
  for (const auto* states : {&n.reads, &n.writes}) {
    for (StateId s : *states) {
      if (!s.valid() || s.id >= static_cast<int32_t>(g.states.size()))
        return internal_error(who + ": state out of range");
    }
  }
  for (Value v : n.out) {
    if (!v.valid() || v.id >= static_cast<int32_t>(g.values.size()))
      return internal_error(who + ": output out of range");
    if ((*defined)[static_cast<size_t>(v.id)]) return internal_error(who + ": defines a value twice");
    (*defined)[static_cast<size_t>(v.id)] = true;
  }
  return {};
}

}  // namespace

Status validate(const Graph& graph) {
  Graph copy = graph;  // infer checks existing outputs and must not change the original
  for (const WeightDecl& w : graph.weights) BORA_TRY(check_weight(graph, w));
  for (const StateSpec& s : graph.states) {
    if (s.group < 0 || s.group >= static_cast<int32_t>(graph.groups.size()) || s.per_unit.empty()) {
      return internal_error("state " + s.name + ": no such group, or no size");
    }
  }
  std::vector<bool> defined(graph.values.size(), true);
  for (const Node& n : graph.nodes) {
    for (Value v : n.out) {
      if (v.valid() && v.id < static_cast<int32_t>(defined.size())) defined[static_cast<size_t>(v.id)] = false;
    }
  }
  for (Node& n : copy.nodes) {
    BORA_TRY(check_references(graph, n, &defined));
    BORA_TRY_CONTEXT(n.op->infer(n, copy), "node " + std::string(n.op->name));
  }
  int32_t at = 0;
  for (const Entry& e : graph.entries) {
    if (e.first != at || e.count < 0) return internal_error("entry " + e.name + ": nodes are not contiguous");
    at += e.count;
    for (const auto& [name, v] : e.outputs) {
      if (!v.valid() || v.id >= static_cast<int32_t>(graph.values.size()))
        return internal_error("output " + name + ": no value");
    }
  }
  if (at != static_cast<int32_t>(graph.nodes.size())) return internal_error("nodes outside of every entry");
  return {};
}

namespace {

std::string dims_text(const ValueInfo& info) {
  static constexpr const char* kSyms[] = {"", "T", "S", "R", "P"};
  std::string out(dtype_name(info.dtype));
  out += "[";
  for (size_t i = 0; i < info.shape.size(); ++i) {
    const Dim d = info.shape[i];
    if (i > 0) out += ",";
    if (d.sym == Sym::kNone)
      out += std::to_string(d.n);
    else
      out += (d.n == 1 ? "" : std::to_string(d.n)) + kSyms[static_cast<size_t>(d.sym)];
  }
  return out + "]";
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string out;
  for (const Entry& e : graph.entries) {
    out += e.name + ":\n";
    for (int32_t i = e.first; i < e.first + e.count; ++i) {
      const Node& n = graph.nodes[static_cast<size_t>(i)];
      out += "  ";
      for (Value v : n.out) out += "%" + std::to_string(v.id) + ":" + dims_text(graph.info(v)) + " ";
      out += "= " + std::string(n.op->name);
      for (Value v : n.in) out += " %" + std::to_string(v.id);
      for (WeightId w : n.weights) out += " @" + graph.weight(w).parts[0].name;
      for (StateId s : n.reads) out += " <" + graph.state(s).name;
      for (StateId s : n.writes) out += " >" + graph.state(s).name;
      out += "\n";
    }
    for (const auto& [name, v] : e.outputs) out += "  " + name + " = %" + std::to_string(v.id) + "\n";
  }
  return out;
}

}  // namespace bora::ir
