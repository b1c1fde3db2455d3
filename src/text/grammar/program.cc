// Building and cleaning a Program. All passes are worklists: nothing recurses on the size of the input.
#include "text/grammar/program.h"

#include <algorithm>

namespace bora::text {

size_t Program::bytes() const {
  size_t n = nodes.capacity() * sizeof(Node) + edges.capacity() * sizeof(NodeId) + rules.capacity() * sizeof(Rule);
  for (const CharClass& c : classes) n += c.spans().capacity() * sizeof(CodeSpan) + sizeof(CharClass);
  return n + numbers.capacity() * sizeof(NumberRange) + repeats.capacity() * sizeof(RepeatBounds);
}

ProgramBuilder::ProgramBuilder() {
  add({NodeKind::kReturn});
  add({NodeKind::kDead});
}

NodeId ProgramBuilder::add(Node node) {
  program_.nodes.push_back(node);
  return static_cast<NodeId>(program_.nodes.size() - 1);
}

NodeId ProgramBuilder::span(uint32_t lo, uint32_t hi, bool json, NodeId next) {
  Node node{NodeKind::kChar};
  node.json = json;
  node.a = lo;
  node.b = hi;
  node.next = next;
  return add(node);
}

NodeId ProgramBuilder::byte(uint8_t lo, uint8_t hi, NodeId next) {
  Node node{NodeKind::kByte};
  node.a = lo;
  node.b = hi;
  node.next = next;
  return add(node);
}

RuleId ProgramBuilder::embed(const Program& other) {
  auto node_base = static_cast<uint32_t>(program_.nodes.size());
  auto edge_base = static_cast<uint32_t>(program_.edges.size());
  auto class_base = static_cast<uint32_t>(program_.classes.size());
  auto number_base = static_cast<uint32_t>(program_.numbers.size());
  auto repeat_base = static_cast<uint32_t>(program_.repeats.size());
  auto rule_base = static_cast<uint32_t>(program_.rules.size());
  for (Node n : other.nodes) {
    if (n.next != kNoNode) n.next += node_base;
    if (n.kind == NodeKind::kSplit) n.a += edge_base;
    if (n.kind == NodeKind::kChar && n.is_class) n.a += class_base;
    if (n.kind == NodeKind::kNumber) n.a += number_base;
    if (n.kind == NodeKind::kCall || n.kind == NodeKind::kRepeat) n.a += rule_base;
    if (n.kind == NodeKind::kRepeat) n.b += repeat_base;
    // One shared return, so that the ends of embedded rules are found by its id.
    if (n.next == node_base) n.next = ret();
    program_.nodes.push_back(n);
  }
  for (NodeId e : other.edges) program_.edges.push_back(e == 0 ? ret() : e + node_base);
  program_.classes.insert(program_.classes.end(), other.classes.begin(), other.classes.end());
  program_.numbers.insert(program_.numbers.end(), other.numbers.begin(), other.numbers.end());
  program_.repeats.insert(program_.repeats.end(), other.repeats.begin(), other.repeats.end());
  for (Rule r : other.rules) {
    r.entry = r.entry == 0 ? ret() : r.entry + node_base;
    if (r.entry == kNoNode + node_base) r.entry = kNoNode;
    r.nullable = r.productive = false;
    program_.rules.push_back(r);
  }
  return other.root + rule_base;
}

NodeId ProgramBuilder::chr(uint32_t c, bool json, NodeId next) { return span(c, c, json, next); }

NodeId ProgramBuilder::cls(const CharClass& set, bool json, NodeId next) {
  if (set.empty()) return dead();
  if (set.spans().size() == 1) return span(set.spans()[0].lo, set.spans()[0].hi, json, next);
  std::vector<std::pair<uint32_t, uint32_t>> key;
  for (CodeSpan s : set.spans()) key.emplace_back(s.lo, s.hi);
  auto [it, fresh] = class_ids_.emplace(std::move(key), static_cast<uint32_t>(program_.classes.size()));
  if (fresh) program_.classes.push_back(set);
  Node node{NodeKind::kChar};
  node.json = json;
  node.is_class = true;
  node.a = it->second;
  node.next = next;
  return add(node);
}

NodeId ProgramBuilder::literal(std::string_view utf8, bool json, NodeId next) {
  std::vector<uint32_t> points;
  for (size_t pos = 0; pos < utf8.size();) {
    auto c = decode_utf8(utf8, &pos);
    if (!c) return dead();  // not text: no output may spell it
    points.push_back(*c);
  }
  for (size_t i = points.size(); i-- > 0;) next = chr(points[i], json, next);
  return next;
}

NodeId ProgramBuilder::string_body(uint32_t min, uint32_t max, NodeId next) {
  if (min > max) return dead();
  Node node{NodeKind::kString};
  node.a = min;
  node.b = max;
  node.next = next;
  return add(node);
}

NodeId ProgramBuilder::number(const NumberRange& range, NodeId next) {
  if (!satisfiable(range)) return dead();
  Node node{NodeKind::kNumber};
  node.a = static_cast<uint32_t>(program_.numbers.size());
  node.next = next;
  program_.numbers.push_back(range);
  return add(node);
}

bool ProgramBuilder::is_quote(NodeId node) const {
  const Node& n = program_.nodes[node];
  return n.kind == NodeKind::kChar && !n.json && !n.is_class && n.a == '"' && n.b == '"';
}

NodeId ProgramBuilder::ws(NodeId next) {
  Node node{NodeKind::kWs};
  node.next = next;
  return add(node);
}

NodeId ProgramBuilder::reserve() { return add({NodeKind::kSplit}); }

void ProgramBuilder::set_split(NodeId node, std::vector<NodeId> options) {
  program_.nodes[node].a = static_cast<uint32_t>(program_.edges.size());
  program_.nodes[node].b = static_cast<uint32_t>(options.size());
  program_.edges.insert(program_.edges.end(), options.begin(), options.end());
}

NodeId ProgramBuilder::split(std::vector<NodeId> options) {
  std::erase(options, dead());
  if (options.empty()) return dead();
  if (options.size() == 1) return options[0];
  NodeId node = reserve();
  set_split(node, std::move(options));
  return node;
}

NodeId ProgramBuilder::call(RuleId rule, NodeId next) {
  Node node{NodeKind::kCall};
  node.a = rule;
  node.next = next;
  return add(node);
}

NodeId ProgramBuilder::repeat(RuleId body, uint32_t min, uint32_t max, NodeId next) {
  if (max == 0) return next;
  if (min == 1 && max == 1) return call(body, next);
  Node node{NodeKind::kRepeat};
  node.a = body;
  node.b = static_cast<uint32_t>(program_.repeats.size());
  node.next = next;
  program_.repeats.push_back({min, max});
  return add(node);
}

RuleId ProgramBuilder::new_rule() {
  program_.rules.emplace_back();
  return static_cast<RuleId>(program_.rules.size() - 1);
}

// A node is kept if it reaches kReturn through rules that can end themselves.
void ProgramBuilder::mark_productive() {
  std::vector<Node>& nodes = program_.nodes;
  std::vector<std::vector<NodeId>> callers(program_.rules.size());
  std::vector<uint32_t> start(nodes.size() + 1);
  auto each_next = [&](NodeId id, auto&& visit) {
    const Node& n = nodes[id];
    if (n.kind == NodeKind::kSplit) {
      for (uint32_t i = 0; i < n.b; ++i) visit(program_.edges[n.a + i]);
    } else if (n.next != kNoNode) {
      visit(n.next);
    }
  };
  for (NodeId id = 0; id < nodes.size(); ++id) {
    each_next(id, [&](NodeId to) { ++start[to + 1]; });
    if (nodes[id].kind == NodeKind::kCall || nodes[id].kind == NodeKind::kRepeat) callers[nodes[id].a].push_back(id);
  }
  for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  std::vector<NodeId> before(start.back());
  std::vector<uint32_t> fill(start.begin(), start.end() - 1);
  for (NodeId id = 0; id < nodes.size(); ++id) {
    each_next(id, [&](NodeId to) { before[fill[to]++] = id; });
  }
  std::multimap<NodeId, RuleId> entries;
  for (RuleId r = 0; r < program_.rules.size(); ++r) {
    if (program_.rules[r].entry != kNoNode) entries.emplace(program_.rules[r].entry, r);
  }
  node_ok_.assign(nodes.size(), 0);
  std::vector<NodeId> work = {ret()};
  node_ok_[ret()] = 1;
  auto reach = [&](NodeId id) {
    if (node_ok_[id]) return;
    const Node& n = nodes[id];
    if (n.kind == NodeKind::kDead) return;
    if (n.kind == NodeKind::kSplit) {
      node_ok_[id] = 1;
      work.push_back(id);
      return;
    }
    if (n.next == kNoNode || !node_ok_[n.next]) return;
    bool skip = n.kind == NodeKind::kRepeat && program_.repeats[n.b].min == 0;
    bool called = n.kind == NodeKind::kCall || n.kind == NodeKind::kRepeat;
    if (called && !skip && !program_.rules[n.a].productive) return;
    node_ok_[id] = 1;
    work.push_back(id);
  };
  while (!work.empty()) {
    NodeId id = work.back();
    work.pop_back();
    for (uint32_t i = start[id]; i < start[id + 1]; ++i) reach(before[i]);
    auto [lo, hi] = entries.equal_range(id);
    for (auto it = lo; it != hi; ++it) {
      program_.rules[it->second].productive = true;
      for (NodeId caller : callers[it->second]) reach(caller);
    }
  }
}

void ProgramBuilder::prune() {
  for (NodeId id = 0; id < program_.nodes.size(); ++id) {
    Node& n = program_.nodes[id];
    if (n.kind == NodeKind::kSplit) {
      uint32_t kept = 0;
      for (uint32_t i = 0; i < n.b; ++i) {
        NodeId to = program_.edges[n.a + i];
        if (node_ok_[to]) program_.edges[n.a + kept++] = to;
      }
      n.b = kept;
    } else if (!node_ok_[id]) {
      n = Node{};
    } else if (n.kind == NodeKind::kRepeat && !program_.rules[n.a].productive) {
      // Only the zero-round path is left.
      n.kind = NodeKind::kSplit;
      n.a = static_cast<uint32_t>(program_.edges.size());
      n.b = 1;
      program_.edges.push_back(n.next);
    }
  }
}

void ProgramBuilder::mark_nullable() {
  // Every pass either finds a new nullable rule or is the last one.
  std::vector<RuleId> open;
  for (RuleId r = 0; r < program_.rules.size(); ++r) open.push_back(r);
  std::vector<uint32_t> seen(program_.nodes.size(), 0);
  uint32_t stamp = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = 0; k < open.size();) {
      ++stamp;
      std::vector<NodeId> work = {program_.rules[open[k]].entry};
      bool nullable = false;
      while (!work.empty() && !nullable) {
        NodeId id = work.back();
        work.pop_back();
        if (id == kNoNode || seen[id] == stamp) continue;
        seen[id] = stamp;
        const Node& n = program_.nodes[id];
        switch (n.kind) {
          case NodeKind::kReturn:
            nullable = true;
            break;
          case NodeKind::kSplit:
            work.insert(work.end(), program_.edges.begin() + n.a, program_.edges.begin() + n.a + n.b);
            break;
          case NodeKind::kWs:
            work.push_back(n.next);
            break;
          case NodeKind::kString:
            if (n.a == 0) work.push_back(n.next);
            break;
          case NodeKind::kCall:
            if (program_.rules[n.a].nullable) work.push_back(n.next);
            break;
          case NodeKind::kRepeat:
            if (program_.repeats[n.b].min == 0 || program_.rules[n.a].nullable) work.push_back(n.next);
            break;
          default:
            break;
        }
      }
      if (nullable) {
        program_.rules[open[k]].nullable = true;
        open[k] = open.back();
        open.pop_back();
        changed = true;
      } else {
        ++k;
      }
    }
  }
}

std::vector<RuleId> ProgramBuilder::left_calls(RuleId rule) const {
  std::vector<RuleId> out;
  std::vector<NodeId> work = {program_.rules[rule].entry};
  std::map<NodeId, bool> seen;
  while (!work.empty()) {
    NodeId id = work.back();
    work.pop_back();
    if (id == kNoNode || seen[id]) continue;
    seen[id] = true;
    const Node& n = program_.nodes[id];
    bool called = n.kind == NodeKind::kCall || n.kind == NodeKind::kRepeat;
    if (called) out.push_back(n.a);
    bool through = n.kind == NodeKind::kWs || (n.kind == NodeKind::kString && n.a == 0) ||
                   (called && program_.rules[n.a].nullable) ||
                   (n.kind == NodeKind::kRepeat && program_.repeats[n.b].min == 0);
    if (through) work.push_back(n.next);
    if (n.kind == NodeKind::kSplit) {
      work.insert(work.end(), program_.edges.begin() + n.a, program_.edges.begin() + n.a + n.b);
    }
  }
  return out;
}

Status ProgramBuilder::rank_rules() {
  size_t count = program_.rules.size();
  std::vector<std::vector<RuleId>> calls(count);
  std::vector<uint32_t> callers(count);
  for (RuleId r = 0; r < count; ++r) {
    if (!program_.rules[r].productive) continue;
    calls[r] = left_calls(r);
    for (RuleId to : calls[r]) ++callers[to];
  }
  std::vector<RuleId> work;
  for (RuleId r = 0; r < count; ++r) {
    if (callers[r] == 0) work.push_back(r);
  }
  uint32_t rank = 0;
  while (!work.empty()) {
    RuleId r = work.back();
    work.pop_back();
    program_.rules[r].rank = rank++;
    for (RuleId to : calls[r]) {
      if (--callers[to] == 0) work.push_back(to);
    }
  }
  if (rank < count) return invalid_argument("a rule reaches itself before any character (left recursion)");
  return ok_status();
}

Result<Program> ProgramBuilder::finish(RuleId root) {
  mark_productive();
  if (!program_.rules[root].productive) return invalid_argument("nothing can satisfy it: no text ends");
  prune();
  mark_nullable();
  BORA_TRY(rank_rules());
  program_.root = root;
  return std::move(program_);
}

}  // namespace bora::text
