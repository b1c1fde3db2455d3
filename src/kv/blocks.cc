#include "kv/blocks.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace bora::kv {

Blocks::Blocks(const GroupSpec& spec, int32_t group)
    : spec_(spec), group_(group), items_(static_cast<size_t>(spec.blocks)), classes_(2 * kClasses) {
  free_.reserve(items_.size());
  for (size_t i = items_.size(); i > 0; --i) {
    items_[i - 1].id = static_cast<BlockId>(i - 1);
    free_.push_back(static_cast<BlockId>(i - 1));
  }
}

Blocks::State Blocks::state(BlockId b) const {
  const Item& item = items_[index(b)];
  if (item.moving) return State::kMoving;
  if (item.refs > 0) return State::kOwned;
  if (item.pins > 0) return State::kWaiting;
  return item.node >= 0 ? State::kCached : State::kFree;
}

int Blocks::class_of(const Item& item, const Trie& trie) const {
  if (state(item.id) != State::kCached) return -1;
  const uint32_t depth = static_cast<uint32_t>(trie.depth(item.node));
  const bool leaf = spec_.keep != Keep::kAll || trie.held_children(item.node, group_) == 0;
  return std::min<int>(std::bit_width(depth), kClasses - 1) + (leaf ? 0 : kClasses);
}

void Blocks::place(BlockId b, Trie* trie) {
  Item& item = items_[index(b)];
  if (item.cost_class >= 0) {
    Order& order = classes_[static_cast<size_t>(item.cost_class)];
    order.erase(order.iterator_to(item));
    --cached_;
  }
  item.cost_class = static_cast<int8_t>(class_of(item, *trie));
  if (item.cost_class < 0) return;
  classes_[static_cast<size_t>(item.cost_class)].insert(item);
  ++cached_;
}

void Blocks::detach(Item& item, Trie* trie) {
  const NodeId parent = trie->parent(item.node);
  const BlockId above = parent >= 0 ? trie->block(parent, group_) : -1;
  trie->hold(item.node, group_, -1);
  item.node = -1;
  if (above >= 0) place(above, trie);
}

BlockId Blocks::candidate() const {
  BlockId best = -1;
  double best_value = 0;
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (c == kClasses && best >= 0) break;
    if (classes_[c].empty()) continue;
    const Item& oldest = *classes_[c].begin();
    const double value =
        static_cast<double>(uint64_t{1} << (c % kClasses)) / static_cast<double>(now_ - oldest.last_use + 1);
    if (best < 0 || value < best_value) {
      best = oldest.id;
      best_value = value;
    }
  }
  return best;
}

BlockId Blocks::take(Trie* trie) {
  if (free_.empty()) {
    const BlockId victim = candidate();
    if (victim < 0) return -1;
    Item& item = items_[index(victim)];
    detach(item, trie);
    place(victim, trie);
    free_.push_back(victim);
    ++evicted_;
  }
  const BlockId b = free_.back();
  free_.pop_back();
  Item& item = items_[index(b)];
  item.refs = 1;
  item.last_use = ++now_;
  return b;
}

void Blocks::add_ref(BlockId b, Trie* trie) {
  ++items_[index(b)].refs;
  touch(b, trie);
}

void Blocks::touch(BlockId b, Trie* trie) {
  Item& item = items_[index(b)];
  if (item.cost_class >= 0) {  // the order must not change under a listed item
    Order& order = classes_[static_cast<size_t>(item.cost_class)];
    order.erase(order.iterator_to(item));
    item.cost_class = -1;
    --cached_;
  }
  item.last_use = ++now_;
  place(b, trie);
}

void Blocks::drop_ref(BlockId b, Trie* trie) {
  Item& item = items_[index(b)];
  BORA_CHECK(item.refs > 0, "a block released more often than acquired");
  --item.refs;
  place(b, trie);
  if (state(b) == State::kFree) free_.push_back(b);
}

void Blocks::unpin(BlockId b, Trie* trie) {
  Item& item = items_[index(b)];
  BORA_CHECK(item.pins > 0, "a block unpinned more often than pinned");
  --item.pins;
  place(b, trie);
  if (item.pins == 0 && state(b) == State::kFree) free_.push_back(b);
}

void Blocks::attach(BlockId b, NodeId node, Trie* trie) {
  Item& item = items_[index(b)];
  BORA_CHECK(item.node < 0 && item.refs > 0, "only an owned block without a node can be attached");
  item.node = node;
  trie->hold(node, group_, b);
  const NodeId parent = trie->parent(node);
  const BlockId above = parent >= 0 ? trie->block(parent, group_) : -1;
  if (above >= 0) place(above, trie);
}

void Blocks::begin_move(BlockId b, Trie* trie) {
  BORA_CHECK(state(b) == State::kCached, "only cached blocks move");
  items_[index(b)].moving = true;
  place(b, trie);
}

void Blocks::end_move(BlockId b, bool ok, Trie* trie) {
  Item& item = items_[index(b)];
  BORA_CHECK(item.moving, "the block is not moving");
  item.moving = false;
  if (ok) detach(item, trie);
  place(b, trie);
  if (state(b) == State::kFree) free_.push_back(b);
}

Pool::Usage Blocks::usage() const {
  Pool::Usage u;
  u.total = total();
  for (const Item& item : items_) {
    switch (state(item.id)) {
      case State::kFree:
        ++u.free;
        break;
      case State::kOwned:
        ++u.owned;
        break;
      case State::kWaiting:
        ++u.waiting;
        break;
      case State::kCached:
        ++u.cached;
        break;
      case State::kMoving:
        ++u.moving;
        break;
    }
  }
  return u;
}

Status Blocks::check(const Trie& trie) const {
  const auto fail = [this](BlockId b, const char* what) {
    return internal_error("group " + std::to_string(group_) + " block " + std::to_string(b) + ": " + what);
  };
  std::vector<bool> listed_free(items_.size(), false);
  for (BlockId b : free_) {
    if (listed_free[index(b)]) return fail(b, "twice in the free list");
    listed_free[index(b)] = true;
  }
  int32_t cached_found = 0;
  for (const Item& item : items_) {
    const State s = state(item.id);
    if ((s == State::kFree) != listed_free[index(item.id)]) return fail(item.id, "free list and state differ");
    if (item.refs < 0 || item.pins < 0) return fail(item.id, "negative count");
    if (item.node >= 0 && trie.block(item.node, group_) != item.id)
      return fail(item.id, "its node holds another block");
    if (class_of(item, trie) != item.cost_class) return fail(item.id, "listed in the wrong class");
    cached_found += s == State::kCached ? 1 : 0;
  }
  if (cached_found != cached_) return fail(-1, "count of cached blocks is wrong");
  return {};
}

}  // namespace bora::kv
