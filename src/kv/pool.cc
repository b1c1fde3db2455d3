#include "kv/pool.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kv/blocks.h"
#include "kv/trie.h"

namespace bora::kv {
namespace {

// The state after `length` positions lies in a working slot.
struct SlotEntry {
  int32_t length = -1;
  BlockId slot = -1;
};

struct PendingSnapshot {
  int32_t group = 0, length = 0;
  BlockId slot = -1;
};

struct Sequence {
  bool live = false;
  int32_t confirmed = 0, reserved = 0;
  std::vector<NodeId> chain;                    // [0] the root, then one node a complete confirmed block
  std::vector<Unit> tail;                       // confirmed units after the last complete block
  std::vector<std::vector<BlockId>> tables;     // by group
  std::vector<int32_t> released;                // by group: window blocks before this index are gone
  std::vector<std::vector<SlotEntry>> entries;  // by group, kLast
  std::vector<BlockId> restore;  // by group, kLast: the snapshot it started from, until the first confirm
  int32_t restore_length = 0;
  std::vector<PendingSnapshot> snapshots;
};

struct Waiting {
  StepId step = 0;
  int32_t group = 0;
  BlockId block = -1;
};

struct OpenMove {
  MoveId id = 0;
  int32_t group = 0;
  BlockId block = -1;
};

class PoolImpl : public Pool {
 public:
  PoolImpl(std::span<const GroupSpec> groups, int32_t block_tokens, int32_t max_sequences);

  Match match(std::span<const Unit> units, Salt salt) const override;
  Result<SeqId> open(std::span<const Unit> units, Salt salt, int32_t length) override;
  Status reserve(SeqId seq, int32_t length, std::vector<BlockCopy>* copies) override;
  int32_t missing_blocks(int32_t length, int32_t cached) const override;
  void confirm(SeqId seq, std::span<const Unit> units) override;
  void truncate(SeqId seq, int32_t length) override;
  Result<SeqId> fork(SeqId seq, std::vector<BlockCopy>* copies) override;
  void release(SeqId seq, StepId after) override;
  void step_complete(StepId step) override;
  int32_t confirmed(SeqId seq) const override { return at(seq).confirmed; }
  int32_t reserved(SeqId seq) const override { return at(seq).reserved; }
  std::span<const BlockId> table(SeqId seq, int32_t group) const override { return at(seq).tables[u(group)]; }
  BlockId load_slot(SeqId seq, int32_t group, int32_t length) const override;
  BlockId store_slot(SeqId seq, int32_t group, int32_t length) override;
  BlockId snapshot(SeqId seq, int32_t group, int32_t length) override;
  std::vector<Move> evict(int32_t group, int32_t blocks) override;
  void moved(MoveId move, const Status& how) override;
  Usage usage(int32_t group) const override { return groups_[u(group)]->usage(); }
  Counters counters() const override;
  int32_t block_tokens() const override { return block_tokens_; }
  Status check() const override;

 private:
  static size_t u(int32_t i) { return static_cast<size_t>(i); }
  int32_t group_count() const { return static_cast<int32_t>(groups_.size()); }
  const GroupSpec& spec(int32_t g) const { return groups_[u(g)]->spec(); }
  Sequence& at(SeqId seq) {
    BORA_CHECK(seq >= 0 && u(seq) < sequences_.size() && sequences_[u(seq)].live, "no such sequence");
    return sequences_[u(seq)];
  }
  const Sequence& at(SeqId seq) const { return const_cast<PoolImpl*>(this)->at(seq); }
  int32_t blocks_for(int32_t length) const { return (length + block_tokens_ - 1) / block_tokens_; }
  // First block that a row at position `length` still sees.
  int32_t window_begin(const GroupSpec& s, int32_t length) const {
    return s.keep == Keep::kWindow ? std::max(0, length - s.window + 1) / block_tokens_ : 0;
  }
  bool restorable(std::span<const NodeId> path, int32_t n) const;
  bool usable(NodeId node, int32_t g) const;
  SeqId new_sequence();
  bool take_slots(Sequence& s, int32_t g);
  void adopt(Sequence& s, int32_t length);
  void drop(Sequence& s, StepId after);
  void drop_block(int32_t g, BlockId b, StepId after);
  void complete_block(Sequence& s);
  void release_window(Sequence& s);
  void settle_snapshots(Sequence& s);
  Status check_counts() const;
  Status check_sequence(SeqId id, const Sequence& s) const;

  int32_t block_tokens_;
  Trie trie_;
  std::vector<std::unique_ptr<Blocks>> groups_;
  std::vector<Sequence> sequences_;
  std::vector<SeqId> free_sequences_;
  std::vector<Waiting> waiting_;
  std::vector<OpenMove> moves_;
  StepId completed_ = -1;
  MoveId next_move_ = 1;
  mutable int64_t asked_units_ = 0, hit_units_ = 0;
  int64_t copied_ = 0;
  mutable std::string why_;
};

int32_t total_blocks(std::span<const GroupSpec> groups) {
  int32_t n = 0;
  for (const GroupSpec& g : groups) n += g.blocks;
  return n;
}

PoolImpl::PoolImpl(std::span<const GroupSpec> groups, int32_t block_tokens, int32_t max_sequences)
    : block_tokens_(block_tokens),
      trie_(block_tokens, static_cast<int32_t>(groups.size()), total_blocks(groups) + max_sequences),
      sequences_(u(max_sequences)) {
  for (size_t g = 0; g < groups.size(); ++g) {
    groups_.push_back(std::make_unique<Blocks>(groups[g], static_cast<int32_t>(g)));
  }
  for (int32_t i = max_sequences; i > 0; --i) free_sequences_.push_back(i - 1);
  for (Sequence& s : sequences_) {
    s.tables.resize(groups.size());
    s.released.resize(groups.size());
    s.entries.resize(groups.size());
    s.restore.resize(groups.size(), -1);
  }
  waiting_.reserve(u(total_blocks(groups)));
}

bool PoolImpl::usable(NodeId node, int32_t g) const {
  const BlockId b = trie_.block(node, g);
  return b >= 0 && groups_[u(g)]->state(b) != Blocks::State::kMoving;
}

// Can every group restore the prefix of n blocks? `path` holds its nodes without the root. kAll groups were checked.
bool PoolImpl::restorable(std::span<const NodeId> path, int32_t n) const {
  for (int32_t g = 0; g < group_count(); ++g) {
    if (spec(g).keep == Keep::kWindow) {
      for (int32_t i = window_begin(spec(g), n * block_tokens_); i < n; ++i) {
        if (!usable(path[u(i)], g)) return false;
      }
    }
    if (spec(g).keep == Keep::kLast && n > 0 && !usable(path[u(n - 1)], g)) return false;
  }
  return true;
}

Match PoolImpl::match(std::span<const Unit> units, Salt salt) const {
  asked_units_ += static_cast<int64_t>(units.size());
  Match m;
  std::vector<NodeId> path;
  NodeId node = trie_.find_root(salt);
  bool evicted = false;
  const int32_t whole = static_cast<int32_t>(units.size()) / block_tokens_;
  while (node >= 0 && static_cast<int32_t>(path.size()) < whole) {
    node = trie_.find_child(node, units.subspan(path.size() * u(block_tokens_), u(block_tokens_)));
    if (node < 0) break;
    for (int32_t g = 0; g < group_count(); ++g) evicted |= spec(g).keep == Keep::kAll && !usable(node, g);
    if (evicted) break;
    path.push_back(node);
  }
  int32_t n = static_cast<int32_t>(path.size());
  while (n > 0 && !restorable(path, n)) --n;
  m.length = n * block_tokens_;
  hit_units_ += m.length;
  if (evicted || n < static_cast<int32_t>(path.size())) {
    why_ = "evicted after token " + std::to_string(m.length);
  } else if (n == whole) {
    why_ = "end of complete blocks";
  } else {
    // Compared with the newest continuation of the matched prefix.
    const NodeId last = path.empty() ? trie_.find_root(salt) : path.back();
    const NodeId other = last >= 0 ? trie_.recent_child(last) : -1;
    if (other < 0) {
      why_ = "nothing cached after token " + std::to_string(m.length);
    } else {
      const std::span<const Unit> theirs = trie_.units(other);
      const std::span<const Unit> ours = units.subspan(u(m.length), u(block_tokens_));
      m.differs_at = m.length + static_cast<int32_t>(std::mismatch(ours.begin(), ours.end(), theirs.begin()).first -
                                                     ours.begin());
      why_ = "differs at token " + std::to_string(m.differs_at);
    }
  }
  m.why_not_longer = why_;
  return m;
}

SeqId PoolImpl::new_sequence() {
  if (free_sequences_.empty()) return -1;
  const SeqId id = free_sequences_.back();
  free_sequences_.pop_back();
  Sequence& s = sequences_[u(id)];
  s.live = true;
  s.confirmed = s.reserved = s.restore_length = 0;
  s.chain.clear();
  s.tail.clear();
  s.snapshots.clear();
  for (int32_t g = 0; g < group_count(); ++g) {
    s.tables[u(g)].clear();
    s.released[u(g)] = 0;
    s.entries[u(g)].clear();
    s.restore[u(g)] = -1;
  }
  return id;
}

// The working slots of a kLast group; false when the group is dry.
bool PoolImpl::take_slots(Sequence& s, int32_t g) {
  for (int32_t i = 0; i < spec(g).block; ++i) {
    const BlockId b = groups_[u(g)]->take(&trie_);
    if (b < 0) return false;
    s.tables[u(g)].push_back(b);
  }
  return true;
}

// References to everything that the matched prefix needs.
void PoolImpl::adopt(Sequence& s, int32_t length) {
  const int32_t n = length / block_tokens_;
  for (int32_t g = 0; g < group_count(); ++g) {
    Blocks& blocks = *groups_[u(g)];
    if (spec(g).keep == Keep::kLast) {
      if (n > 0) {
        s.restore[u(g)] = trie_.block(s.chain[u(n)], g);
        blocks.add_ref(s.restore[u(g)], &trie_);
      }
      continue;
    }
    const int32_t first = window_begin(spec(g), length);
    s.released[u(g)] = std::min(first, n);
    for (int32_t i = 0; i < n; ++i) {
      const BlockId b = i < first ? -1 : trie_.block(s.chain[u(i + 1)], g);
      if (b >= 0) blocks.add_ref(b, &trie_);
      s.tables[u(g)].push_back(b);
    }
  }
  s.confirmed = s.reserved = s.restore_length = length;
}

Result<SeqId> PoolImpl::open(std::span<const Unit> units, Salt salt, int32_t length) {
  BORA_CHECK(length % block_tokens_ == 0 && u(length) <= units.size(), "open takes a matched length");
  const SeqId id = new_sequence();
  if (id < 0) return resource_exhausted("all " + std::to_string(sequences_.size()) + " sequence slots are taken");
  Sequence& s = sequences_[u(id)];
  NodeId node = trie_.acquire_root(salt);
  s.chain.push_back(node);
  bool whole = true;
  for (int32_t i = 0; i < length / block_tokens_ && whole; ++i) {
    node = trie_.find_child(node, units.subspan(u(i * block_tokens_), u(block_tokens_)));
    whole = node >= 0;
    for (int32_t g = 0; whole && g < group_count(); ++g) whole = spec(g).keep != Keep::kAll || usable(node, g);
    if (!whole) break;
    trie_.add_ref(node);
    s.chain.push_back(node);
  }
  whole = whole && restorable(std::span(s.chain).subspan(1), length / block_tokens_);
  if (whole) adopt(s, length);
  for (int32_t g = 0; whole && g < group_count(); ++g) {
    if (spec(g).keep == Keep::kLast) whole = take_slots(s, g);
  }
  if (!whole) {
    drop(s, -1);
    free_sequences_.push_back(id);
    return resource_exhausted("the pool cannot restore " + std::to_string(length) + " positions now");
  }
  return id;
}

Status PoolImpl::reserve(SeqId seq, int32_t length, std::vector<BlockCopy>* copies) {
  Sequence& s = at(seq);
  const int32_t want = blocks_for(length);
  const int32_t tail = s.confirmed / block_tokens_;
  std::vector<std::pair<int32_t, int32_t>> grown;  // group, blocks appended
  std::vector<BlockCopy> made;
  bool dry = false;
  for (int32_t g = 0; g < group_count() && !dry; ++g) {
    if (spec(g).keep == Keep::kLast) continue;
    Blocks& blocks = *groups_[u(g)];
    std::vector<BlockId>& table = s.tables[u(g)];
    // Copy on write: the block that holds the last confirmed units is written next and somebody else reads it.
    if (s.confirmed % block_tokens_ != 0 && blocks.refs(table[u(tail)]) > 1) {
      const BlockId copy = blocks.take(&trie_);
      dry = copy < 0;
      if (!dry) made.push_back({g, table[u(tail)], copy});
    }
    grown.emplace_back(g, 0);
    while (!dry && static_cast<int32_t>(table.size()) < want) {
      const BlockId b = blocks.take(&trie_);
      dry = b < 0;
      if (dry) break;
      table.push_back(b);
      ++grown.back().second;
    }
  }
  if (dry) {
    for (const BlockCopy& c : made) groups_[u(c.group)]->drop_ref(c.to, &trie_);
    for (auto [g, n] : grown) {
      for (; n > 0; --n) {
        groups_[u(g)]->drop_ref(s.tables[u(g)].back(), &trie_);
        s.tables[u(g)].pop_back();
      }
    }
    return resource_exhausted("the pool has no room for " + std::to_string(length) + " positions");
  }
  for (const BlockCopy& c : made) {
    groups_[u(c.group)]->drop_ref(c.from, &trie_);
    s.tables[u(c.group)][u(tail)] = c.to;
    copies->push_back(c);
    ++copied_;
  }
  s.reserved = std::max(s.reserved, length);
  return {};
}

int32_t PoolImpl::missing_blocks(int32_t length, int32_t cached) const {
  int32_t worst = 0;
  for (int32_t g = 0; g < group_count(); ++g) {
    const Blocks& blocks = *groups_[u(g)];
    int32_t need = blocks_for(length) - cached / block_tokens_;
    if (spec(g).keep == Keep::kLast) need = spec(g).block;
    worst = std::max(worst, need - blocks.free_count() - blocks.cached_count());
  }
  return worst;
}

// The tail has a whole block of units: give it a node and let the groups' blocks be found through it.
void PoolImpl::complete_block(Sequence& s) {
  const int32_t index = static_cast<int32_t>(s.chain.size()) - 1;
  const NodeId node = trie_.acquire_child(s.chain.back(), s.tail);
  s.chain.push_back(node);
  s.tail.clear();
  for (int32_t g = 0; g < group_count(); ++g) {
    if (spec(g).keep == Keep::kLast) continue;
    const BlockId b = s.tables[u(g)][u(index)];
    if (b >= 0 && trie_.block(node, g) < 0 && groups_[u(g)]->node(b) < 0) groups_[u(g)]->attach(b, node, &trie_);
  }
}

// Rows from `confirmed` on no longer see these blocks; steps in flight begin there too.
void PoolImpl::release_window(Sequence& s) {
  for (int32_t g = 0; g < group_count(); ++g) {
    if (spec(g).keep != Keep::kWindow) continue;
    const int32_t first = window_begin(spec(g), s.confirmed);
    for (int32_t& i = s.released[u(g)]; i < first; ++i) {
      BlockId& b = s.tables[u(g)][u(i)];
      if (b >= 0) groups_[u(g)]->drop_ref(b, &trie_);
      b = -1;
    }
  }
}

// Snapshots whose length is confirmed now become findable.
void PoolImpl::settle_snapshots(Sequence& s) {
  for (size_t i = 0; i < s.snapshots.size();) {
    const PendingSnapshot p = s.snapshots[i];
    if (p.length > s.confirmed) {
      ++i;
      continue;
    }
    Blocks& blocks = *groups_[u(p.group)];
    const NodeId node = s.chain[u(p.length / block_tokens_)];
    if (trie_.block(node, p.group) < 0) blocks.attach(p.slot, node, &trie_);
    blocks.drop_ref(p.slot, &trie_);
    s.snapshots[i] = s.snapshots.back();
    s.snapshots.pop_back();
  }
}

void PoolImpl::confirm(SeqId seq, std::span<const Unit> units) {
  Sequence& s = at(seq);
  BORA_CHECK(s.confirmed + static_cast<int64_t>(units.size()) <= s.reserved, "confirmed beyond what was reserved");
  for (Unit unit : units) {
    s.tail.push_back(unit);
    ++s.confirmed;
    if (static_cast<int32_t>(s.tail.size()) == block_tokens_) complete_block(s);
  }
  if (!units.empty()) {
    for (int32_t g = 0; g < group_count(); ++g) {
      if (s.restore[u(g)] >= 0) groups_[u(g)]->drop_ref(s.restore[u(g)], &trie_);
      s.restore[u(g)] = -1;
    }
  }
  settle_snapshots(s);
  release_window(s);
}

void PoolImpl::truncate(SeqId seq, int32_t length) {
  Sequence& s = at(seq);
  BORA_CHECK(length >= s.confirmed && length <= s.reserved, "truncate below confirmed or above reserved");
  for (int32_t g = 0; g < group_count(); ++g) {
    if (spec(g).keep == Keep::kLast) {
      std::erase_if(s.entries[u(g)], [length](const SlotEntry& e) { return e.length > length; });
      continue;
    }
    std::vector<BlockId>& table = s.tables[u(g)];
    while (static_cast<int32_t>(table.size()) > blocks_for(length)) {
      if (table.back() >= 0) groups_[u(g)]->drop_ref(table.back(), &trie_);
      table.pop_back();
    }
  }
  for (size_t i = 0; i < s.snapshots.size();) {
    if (s.snapshots[i].length <= length) {
      ++i;
      continue;
    }
    groups_[u(s.snapshots[i].group)]->drop_ref(s.snapshots[i].slot, &trie_);
    s.snapshots[i] = s.snapshots.back();
    s.snapshots.pop_back();
  }
  s.reserved = length;
}

Result<SeqId> PoolImpl::fork(SeqId seq, std::vector<BlockCopy>* copies) {
  const SeqId id = new_sequence();
  if (id < 0) return resource_exhausted("all " + std::to_string(sequences_.size()) + " sequence slots are taken");
  const Sequence& from = at(seq);
  Sequence& s = sequences_[u(id)];
  s.chain = from.chain;
  for (NodeId node : s.chain) trie_.add_ref(node);
  s.tail = from.tail;
  s.confirmed = s.reserved = from.confirmed;
  s.released = from.released;
  bool whole = true;
  std::vector<BlockCopy> made;
  for (int32_t g = 0; g < group_count() && whole; ++g) {
    if (spec(g).keep == Keep::kLast) {
      whole = take_slots(s, g);
      const BlockId state = load_slot(seq, g, from.confirmed);
      if (whole && state >= 0) {
        made.push_back({g, state, s.tables[u(g)][0]});
        s.entries[u(g)].push_back({s.confirmed, s.tables[u(g)][0]});
      }
      continue;
    }
    for (int32_t i = 0; i < blocks_for(s.confirmed); ++i) {
      const BlockId b = from.tables[u(g)][u(i)];
      if (b >= 0) groups_[u(g)]->add_ref(b, &trie_);
      s.tables[u(g)].push_back(b);
    }
  }
  if (!whole) {
    drop(s, -1);
    free_sequences_.push_back(id);
    return resource_exhausted("the pool has no state slots for another choice");
  }
  copies->insert(copies->end(), made.begin(), made.end());
  return id;
}

void PoolImpl::drop_block(int32_t g, BlockId b, StepId after) {
  Blocks& blocks = *groups_[u(g)];
  if (after > completed_) {
    blocks.pin(b);
    waiting_.push_back({after, g, b});
  }
  blocks.drop_ref(b, &trie_);
}

void PoolImpl::drop(Sequence& s, StepId after) {
  for (int32_t g = 0; g < group_count(); ++g) {
    // Later blocks first: a leaf of the trie becomes evictable before its parent.
    for (size_t i = s.tables[u(g)].size(); i > 0; --i) {
      const BlockId b = s.tables[u(g)][i - 1];
      if (b < 0) continue;
      // A copy of its own whose original was evicted meanwhile takes its place.
      const bool complete = spec(g).keep != Keep::kLast && i < s.chain.size();
      if (complete && trie_.block(s.chain[i], g) < 0 && groups_[u(g)]->node(b) < 0)
        groups_[u(g)]->attach(b, s.chain[i], &trie_);
      drop_block(g, b, after);
    }
    s.tables[u(g)].clear();
    if (s.restore[u(g)] >= 0) drop_block(g, s.restore[u(g)], after);
    s.restore[u(g)] = -1;
  }
  for (const PendingSnapshot& p : s.snapshots) drop_block(p.group, p.slot, after);
  s.snapshots.clear();
  for (size_t i = s.chain.size(); i > 0; --i) trie_.release_ref(s.chain[i - 1]);
  s.chain.clear();
  s.live = false;
}

void PoolImpl::release(SeqId seq, StepId after) {
  drop(at(seq), after);
  free_sequences_.push_back(seq);
}

void PoolImpl::step_complete(StepId step) {
  completed_ = std::max(completed_, step);
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].step > completed_) {
      ++i;
      continue;
    }
    groups_[u(waiting_[i].group)]->unpin(waiting_[i].block, &trie_);
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
  }
}

BlockId PoolImpl::load_slot(SeqId seq, int32_t group, int32_t length) const {
  const Sequence& s = at(seq);
  for (const SlotEntry& e : s.entries[u(group)]) {
    if (e.length == length) return e.slot;
  }
  return length == s.restore_length ? s.restore[u(group)] : -1;
}

BlockId PoolImpl::store_slot(SeqId seq, int32_t group, int32_t length) {
  Sequence& s = at(seq);
  std::vector<SlotEntry>& entries = s.entries[u(group)];
  for (const SlotEntry& e : entries) {
    if (e.length == length) return e.slot;
  }
  const std::vector<BlockId>& slots = s.tables[u(group)];
  if (entries.size() < slots.size()) {
    for (BlockId b : slots) {
      const bool used = std::any_of(entries.begin(), entries.end(), [b](const SlotEntry& e) { return e.slot == b; });
      if (used) continue;
      entries.push_back({length, b});
      return b;
    }
  }
  // The oldest entry goes, never the one that the confirmed length may be loaded from.
  SlotEntry* oldest = nullptr;
  for (SlotEntry& e : entries) {
    if (e.length == s.confirmed) continue;
    if (oldest == nullptr || e.length < oldest->length) oldest = &e;
  }
  BORA_CHECK(oldest != nullptr, "a recurrent group needs at least two working slots");
  oldest->length = length;
  return oldest->slot;
}

BlockId PoolImpl::snapshot(SeqId seq, int32_t group, int32_t length) {
  Sequence& s = at(seq);
  BORA_CHECK(length > 0 && length % spec(group).align == 0 && length > s.confirmed,
             "snapshots lie ahead, at multiples of align");
  for (const PendingSnapshot& p : s.snapshots) {
    if (p.group == group && p.length == length) return p.slot;
  }
  const BlockId b = groups_[u(group)]->take(&trie_);
  if (b >= 0) s.snapshots.push_back({group, length, b});
  return b;
}

std::vector<Move> PoolImpl::evict(int32_t group, int32_t blocks) {
  std::vector<Move> out;
  Blocks& g = *groups_[u(group)];
  for (int32_t i = 0; i < blocks; ++i) {
    const BlockId b = g.candidate();
    if (b < 0) break;
    g.begin_move(b, &trie_);
    moves_.push_back({next_move_, group, b});
    out.push_back({next_move_++, group, b, Way::kOut});
  }
  return out;
}

void PoolImpl::moved(MoveId move, const Status& how) {
  auto it = std::find_if(moves_.begin(), moves_.end(), [move](const OpenMove& m) { return m.id == move; });
  BORA_CHECK(it != moves_.end(), "no such move");
  groups_[u(it->group)]->end_move(it->block, how.ok(), &trie_);
  *it = moves_.back();
  moves_.pop_back();
}

Counters PoolImpl::counters() const {
  Counters c;
  c.hits_units = hit_units_;
  c.asked_units = asked_units_;
  c.copied_blocks = copied_;
  for (const auto& g : groups_) c.evicted_blocks += g->evicted();
  return c;
}

Status PoolImpl::check_sequence(SeqId id, const Sequence& s) const {
  const auto fail = [id](const char* what) { return internal_error("sequence " + std::to_string(id) + ": " + what); };
  if (s.confirmed > s.reserved) return fail("confirmed beyond reserved");
  if (static_cast<int32_t>(s.chain.size()) - 1 != s.confirmed / block_tokens_)
    return fail("chain and confirmed length differ");
  if (static_cast<int32_t>(s.tail.size()) != s.confirmed % block_tokens_)
    return fail("tail and confirmed length differ");
  for (int32_t g = 0; g < group_count(); ++g) {
    if (spec(g).keep == Keep::kLast) {
      if (static_cast<int32_t>(s.tables[u(g)].size()) != spec(g).block) return fail("wrong number of working slots");
      continue;
    }
    if (static_cast<int32_t>(s.tables[u(g)].size()) != blocks_for(s.reserved))
      return fail("table and reserved length differ");
    for (size_t i = 0; i < s.tables[u(g)].size(); ++i) {
      const bool behind = static_cast<int32_t>(i) < s.released[u(g)];
      if (behind != (s.tables[u(g)][i] < 0))
        return fail("a block inside the window is missing, or one behind it is held");
      // Blocks of unconfirmed positions only are written: nobody else may hold them, nor may the index.
      const bool written = static_cast<int32_t>(i) * block_tokens_ >= s.confirmed;
      if (!written || behind) continue;
      const Blocks& blocks = *groups_[u(g)];
      if (blocks.refs(s.tables[u(g)][i]) != 1) return fail("a block that is written is shared");
      if (blocks.node(s.tables[u(g)][i]) >= 0) return fail("a block that is written is in the index");
    }
  }
  return {};
}

// Reference and pin counts recomputed from sequences and the waiting list.
Status PoolImpl::check_counts() const {
  for (int32_t g = 0; g < group_count(); ++g) {
    const Blocks& blocks = *groups_[u(g)];
    std::vector<int32_t> refs(u(blocks.total()), 0), pins(u(blocks.total()), 0);
    for (const Sequence& s : sequences_) {
      if (!s.live) continue;
      for (BlockId b : s.tables[u(g)]) {
        if (b >= 0) ++refs[u(b)];
      }
      if (s.restore[u(g)] >= 0) ++refs[u(s.restore[u(g)])];
      for (const PendingSnapshot& p : s.snapshots) {
        if (p.group == g) ++refs[u(p.slot)];
      }
    }
    for (const Waiting& w : waiting_) {
      if (w.group == g) ++pins[u(w.block)];
    }
    for (BlockId b = 0; b < blocks.total(); ++b) {
      if (blocks.refs(b) != refs[u(b)] || blocks.pins(b) != pins[u(b)]) {
        return internal_error("group " + std::to_string(g) + " block " + std::to_string(b) +
                              ": counts differ from its holders");
      }
    }
    const Usage usage = blocks.usage();
    if (usage.free + usage.owned + usage.cached + usage.moving + usage.waiting != usage.total) {
      return internal_error("group " + std::to_string(g) + ": the states do not add up");
    }
  }
  return {};
}

Status PoolImpl::check() const {
  BORA_TRY(trie_.check());
  for (const auto& g : groups_) BORA_TRY(g->check(trie_));
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].live) BORA_TRY(check_sequence(static_cast<SeqId>(i), sequences_[i]));
  }
  return check_counts();
}

}  // namespace

Result<std::unique_ptr<Pool>> make_pool(std::span<const GroupSpec> groups, int32_t max_sequences) {
  if (groups.empty() || max_sequences < 1)
    return invalid_argument("a pool needs at least one group and one sequence");
  int32_t block = 0;
  for (const GroupSpec& g : groups) {
    if (g.blocks < 1 || g.block < 1 || g.align < 1) return invalid_argument("a state group has no blocks");
    if (g.keep == Keep::kWindow && g.window < 1)
      return invalid_argument("a window group needs a window of at least 1");
    if (g.keep == Keep::kLast && g.block < 2) return invalid_argument("a recurrent group needs two working slots");
    if (g.keep == Keep::kLast) continue;
    if (block != 0 && block != g.block) return invalid_argument("paged groups must have blocks of one size");
    block = g.block;
  }
  if (block == 0) block = 16;  // recurrent groups only: the index still works in blocks
  for (const GroupSpec& g : groups) {
    if (g.keep == Keep::kLast && g.align % block != 0)
      return invalid_argument("align must be a multiple of the block size");
  }
  return std::unique_ptr<Pool>(std::make_unique<PoolImpl>(groups, block, max_sequences));
}

}  // namespace bora::kv
