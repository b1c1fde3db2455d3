// Steps and interning. The order of expansion (lowest rank first) gathers all callers of a rule before the rule
// starts.
#include "text/grammar/engine.h"

#include <algorithm>

#include "text/grammar/char_steps.h"

namespace bora::text {
namespace {

constexpr size_t kMaxItems = 1 << 16;  // a configuration beyond this is treated as dead: refusing is always safe

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

}  // namespace

Engine::Engine(const Program& program) : program_(program) {
  stacks_.push_back({0, 0});
  readers_.emplace_back();
  configs_.resize(2);
  visited_.resize(64);
}

void Engine::begin() {
  work_.clear();
  out_.clear();
  pending_.clear();
  fresh_.clear();
  visited_count_ = 0;
  ++stamp_;
  accept_ = false;
  ws_ = false;
}

void Engine::push(uint32_t node, uint32_t stack, uint32_t aux) { work_.push_back({node, stack, aux}); }

bool Engine::seen(const Item& item) {
  if (visited_count_ * 2 >= visited_.size()) {
    std::vector<std::pair<Item, uint32_t>> old(visited_.size() * 2);
    old.swap(visited_);
    visited_count_ = 0;
    for (const auto& [it, stamp] : old) {
      if (stamp == stamp_) seen(it);
    }
  }
  uint64_t h = mix(mix(mix(0, item.node), item.stack), item.aux);
  for (size_t i = h & (visited_.size() - 1);; i = (i + 1) & (visited_.size() - 1)) {
    if (visited_[i].second != stamp_) {
      visited_[i] = {item, stamp_};
      ++visited_count_;
      return false;
    }
    if (visited_[i].first == item) return true;
  }
}

void Engine::pend(RuleId rule, Edge edge) { pending_.push_back({rule, edge}); }

void Engine::visit_return(uint32_t stack) {
  if (stack == 0) {
    accept_ = true;
    return;
  }
  // A rule that ended without consuming was already passed where it was called.
  if (std::find(fresh_.begin(), fresh_.end(), stack) != fresh_.end()) return;
  Range edges = stacks_[stack];
  for (uint32_t i = 0; i < edges.count; ++i) {
    Edge e = edge_pool_[edges.first + i];
    const Node& site = program_.nodes[e.site];
    if (site.kind == NodeKind::kCall) {
      push(site.next, e.parent, 0);
      continue;
    }
    RepeatBounds bounds = program_.repeats[site.b];
    uint32_t rounds = e.rounds + 1;
    if (bounds.max == kUnbounded) rounds = std::min(rounds, bounds.min);
    if (rounds >= bounds.min || program_.rules[site.a].nullable) push(site.next, e.parent, 0);
    if (bounds.max == kUnbounded || rounds < bounds.max) pend(site.a, {e.site, rounds, e.parent});
  }
}

void Engine::visit(const Item& item) {
  const Node& n = program_.nodes[item.node];
  switch (n.kind) {
    case NodeKind::kDead:
      break;
    case NodeKind::kChar:
    case NodeKind::kByte:
      out_.push_back(item);
      break;
    case NodeKind::kString: {
      uint32_t count = item.aux >> 5;
      bool home = (item.aux & 31) == kStringHome;
      if (home && count >= n.a) push(n.next, item.stack, 0);
      if (!home || n.b == kUnbounded || count < n.b) out_.push_back(item);
      break;
    }
    case NodeKind::kNumber:
      if (readers_[item.aux].complete(program_.numbers[n.a])) push(n.next, item.stack, 0);
      out_.push_back(item);
      break;
    case NodeKind::kWs:
      ws_ = true;
      out_.push_back(item);
      push(n.next, item.stack, 0);
      break;
    case NodeKind::kSplit:
      for (uint32_t i = 0; i < n.b; ++i) push(program_.edges[n.a + i], item.stack, 0);
      break;
    case NodeKind::kCall:
      if (item.stack != 0 && program_.nodes[n.next].kind == NodeKind::kReturn) {
        // A tail call: the callee returns straight to our callers, so right recursion needs no depth.
        Range edges = stacks_[item.stack];
        for (uint32_t i = 0; i < edges.count; ++i) pend(n.a, edge_pool_[edges.first + i]);
      } else {
        pend(n.a, {item.node, 0, item.stack});
      }
      if (program_.rules[n.a].nullable) push(n.next, item.stack, 0);
      break;
    case NodeKind::kRepeat:
      pend(n.a, {item.node, 0, item.stack});
      if (program_.repeats[n.b].min == 0 || program_.rules[n.a].nullable) push(n.next, item.stack, 0);
      break;
    case NodeKind::kReturn:
      visit_return(item.stack);
      break;
    case NodeKind::kAccept:
      accept_ = true;
      break;
  }
}

void Engine::expand_pending() {
  RuleId rule = pending_[0].rule;
  for (const Pending& p : pending_) {
    if (program_.rules[p.rule].rank < program_.rules[rule].rank) rule = p.rule;
  }
  std::vector<Edge> edges;
  size_t kept = 0;
  for (const Pending& p : pending_) {
    if (p.rule == rule) {
      edges.push_back(p.edge);
    } else {
      pending_[kept++] = p;
    }
  }
  pending_.resize(kept);
  uint32_t stack = intern_stack(&edges);
  fresh_.push_back(stack);
  push(program_.rules[rule].entry, stack, 0);
}

ConfigId Engine::close() {
  while (!work_.empty() || !pending_.empty()) {
    if (work_.empty()) {
      expand_pending();
      continue;
    }
    Item item = work_.back();
    work_.pop_back();
    if (!seen(item)) visit(item);
    if (visited_count_ > 4 * kMaxItems) return kDeadConfig;
  }
  return intern_config();
}

uint32_t Engine::intern_stack(std::vector<Edge>* edges) {
  std::sort(edges->begin(), edges->end());
  edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
  uint64_t h = edges->size();
  for (const Edge& e : *edges) h = mix(mix(mix(h, e.site), e.rounds), e.parent);
  auto [lo, hi] = stack_ids_.equal_range(h);
  for (auto it = lo; it != hi; ++it) {
    Range r = stacks_[it->second];
    if (r.count == edges->size() && std::equal(edges->begin(), edges->end(), edge_pool_.begin() + r.first)) {
      return it->second;
    }
  }
  auto id = static_cast<uint32_t>(stacks_.size());
  stacks_.push_back({static_cast<uint32_t>(edge_pool_.size()), static_cast<uint32_t>(edges->size())});
  edge_pool_.insert(edge_pool_.end(), edges->begin(), edges->end());
  stack_ids_.emplace(h, id);
  bytes_ += edges->size() * sizeof(Edge) + sizeof(Range) + 40;
  return id;
}

ConfigId Engine::intern_config() {
  if (out_.size() > kMaxItems) return kDeadConfig;
  if (out_.empty() && !accept_) return kDeadConfig;
  std::sort(out_.begin(), out_.end());
  out_.erase(std::unique(out_.begin(), out_.end()), out_.end());
  uint64_t h = out_.size() * 2 + (accept_ ? 1 : 0);
  for (const Item& i : out_) h = mix(mix(mix(h, i.node), i.stack), i.aux);
  auto [lo, hi] = config_ids_.equal_range(h);
  for (auto it = lo; it != hi; ++it) {
    const Config& c = configs_[it->second];
    if (c.accept == accept_ && c.items.count == out_.size() && std::equal(out_.begin(), out_.end(), items(c))) {
      return it->second;
    }
  }
  auto id = static_cast<ConfigId>(configs_.size());
  Config& c = configs_.emplace_back();
  c.items = {static_cast<uint32_t>(items_pool_.size()), static_cast<uint32_t>(out_.size())};
  c.accept = accept_;
  c.ws = ws_;
  c.open_string = std::any_of(out_.begin(), out_.end(), [this](const Item& i) {
    const Node& n = program_.nodes[i.node];
    return n.kind == NodeKind::kString && n.b == kUnbounded && (i.aux & 31) == kStringHome;
  });
  items_pool_.insert(items_pool_.end(), out_.begin(), out_.end());
  config_ids_.emplace(h, id);
  bytes_ += out_.size() * sizeof(Item) + sizeof(Config) + 40;
  return id;
}

uint32_t Engine::intern_number(const NumberReader& reader) {
  uint64_t h = reader.hash();
  auto [lo, hi] = reader_ids_.equal_range(h);
  for (auto it = lo; it != hi; ++it) {
    if (readers_[it->second] == reader) return it->second;
  }
  auto id = static_cast<uint32_t>(readers_.size());
  readers_.push_back(reader);
  reader_ids_.emplace(h, id);
  bytes_ += sizeof(NumberReader) + 40;
  return id;
}

ConfigId Engine::start() { return close_one(program_.rules[program_.root].entry, 0); }

ConfigId Engine::close_one(uint32_t node, uint32_t stack) {
  begin();
  push(node, stack, 0);
  return close();
}

void Engine::step_char(const Item& item, uint8_t byte) {
  const Node& n = program_.nodes[item.node];
  CharStep s = char_step(program_, n, item.aux, byte);
  if (s.result == CharStep::kDone) push(n.next, item.stack, 0);
  if (s.result == CharStep::kPartial) {
    Item next{item.node, item.stack, s.aux};
    if (!seen(next)) out_.push_back(next);
  }
}

void Engine::step_number(const Item& item, uint8_t byte) {
  NumberReader reader = readers_[item.aux];
  if (reader.step(static_cast<char>(byte), program_.numbers[program_.nodes[item.node].a])) {
    push(item.node, item.stack, intern_number(reader));
  }
}

void Engine::step_item(const Item& item, uint8_t byte) {
  const Node& n = program_.nodes[item.node];
  switch (n.kind) {
    case NodeKind::kChar:
      step_char(item, byte);
      break;
    case NodeKind::kByte:
      if (byte >= n.a && byte <= n.b) push(n.next, item.stack, 0);
      break;
    case NodeKind::kString: {
      int state = kStringTable[item.aux & 31][byte];
      if (state < 0) break;
      uint32_t count = (item.aux >> 5) + (state == kStringHome ? 1 : 0);
      if (n.b == kUnbounded) count = std::min(count, n.a);
      push(item.node, item.stack, count << 5 | static_cast<uint32_t>(state));
      break;
    }
    case NodeKind::kNumber:
      step_number(item, byte);
      break;
    case NodeKind::kWs:
      if (is_json_ws(byte)) push(item.node, item.stack, 0);
      break;
    default:
      break;
  }
}

ConfigId Engine::uncached_step(ConfigId from, uint8_t byte) {
  begin();
  Range range = configs_[from].items;
  for (uint32_t i = 0; i < range.count; ++i) step_item(Item(items_pool_[range.first + i]), byte);
  return close();
}

void Engine::make_row(Config* config) {
  config->row = std::make_unique<uint32_t[]>(256);
  std::fill_n(config->row.get(), 256, kDeadConfig);
  for (uint32_t i = 0; i < config->items.count; ++i) {
    const Item& item = items_pool_[config->items.first + i];
    mark_first_bytes(program_, program_.nodes[item.node], item.aux, config->row.get(), kUnknownConfig);
  }
  bytes_ += 256 * sizeof(uint32_t);
}

ConfigId Engine::step(ConfigId from, uint8_t byte) {
  if (!configs_[from].row) make_row(&configs_[from]);
  ConfigId to = configs_[from].row[byte];
  if (to != kUnknownConfig) return to;
  to = uncached_step(from, byte);
  configs_[from].row[byte] = to;
  return to;
}

int Engine::forced_byte(ConfigId id) {
  if (configs_[id].accept) return -1;
  int only_byte = -1;
  Range range = configs_[id].items;
  for (uint32_t i = 0; i < range.count; ++i) {
    const Item& item = items_pool_[range.first + i];
    int b = single_byte(program_, program_.nodes[item.node], item.aux);
    if (b < 0 || (only_byte >= 0 && b != only_byte)) return -1;
    only_byte = b;
  }
  return only_byte;
}

ConfigId Engine::import(const Engine& from, ConfigId id) {
  // Parents come before their children in the other engine's numbering.
  std::vector<uint32_t> stack_map(from.stacks_.size(), UINT32_MAX);
  std::vector<char> needed(from.stacks_.size(), 0);
  const Config& source = from.configs_[id];
  const Item* list = from.items(source);
  for (uint32_t i = 0; i < source.items.count; ++i) needed[list[i].stack] = 1;
  for (size_t s = needed.size(); s-- > 1;) {
    if (!needed[s]) continue;
    for (uint32_t i = 0; i < from.stacks_[s].count; ++i)
      needed[from.edge_pool_[from.stacks_[s].first + i].parent] = 1;
  }
  stack_map[0] = 0;
  for (size_t s = 1; s < needed.size(); ++s) {
    if (!needed[s]) continue;
    auto first = from.edge_pool_.begin() + from.stacks_[s].first;
    std::vector<Edge> edges(first, first + from.stacks_[s].count);
    for (Edge& e : edges) e.parent = stack_map[e.parent];
    stack_map[s] = intern_stack(&edges);
  }
  begin();
  for (uint32_t i = 0; i < source.items.count; ++i) {
    Item item = list[i];
    item.stack = stack_map[item.stack];
    if (program_.nodes[item.node].kind == NodeKind::kNumber) item.aux = intern_number(from.readers_[item.aux]);
    out_.push_back(item);
  }
  accept_ = source.accept;
  ws_ = source.ws;
  return intern_config();
}

}  // namespace bora::text
