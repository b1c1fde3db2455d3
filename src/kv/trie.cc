#include "kv/trie.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"
#include "base/rng.h"

namespace bora::kv {

Trie::Trie(int32_t block_tokens, int32_t groups, int32_t expected_nodes)
    : block_tokens_(block_tokens), groups_(groups) {
  BORA_CHECK(block_tokens > 0 && groups > 0, "a trie needs blocks and groups");
  do grow();
  while (nodes_.size() < static_cast<size_t>(expected_nodes));
}

// Doubles the slab.
void Trie::grow() {
  const size_t old = nodes_.size();
  const size_t size = std::max<size_t>(16, old * 2);
  nodes_.resize(size);
  held_.resize(size * static_cast<size_t>(groups_));
  units_.resize(size * static_cast<size_t>(block_tokens_));
  for (size_t i = size; i > old; --i) {
    nodes_[i - 1].next = free_;
    free_ = static_cast<NodeId>(i - 1);
  }
  rehash();
}

void Trie::rehash() {
  buckets_.assign(std::bit_ceil(nodes_.size() * 2), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].live) continue;
    NodeId& head = buckets_[nodes_[i].hash & (buckets_.size() - 1)];
    nodes_[i].next = head;
    head = static_cast<NodeId>(i);
  }
}

uint64_t Trie::hash_of(NodeId parent, std::span<const Unit> units) const {
  uint64_t h = mix64(static_cast<uint64_t>(parent) + 0x9E3779B97F4A7C15ull);
  for (Unit u : units) h = mix64(h ^ u) + 0x9E3779B97F4A7C15ull;
  return h;
}

NodeId Trie::find(NodeId parent, std::span<const Unit> units, Salt salt, uint64_t hash) const {
  for (NodeId n = buckets_[hash & (buckets_.size() - 1)]; n >= 0; n = nodes_[index(n)].next) {
    const Node& node = nodes_[index(n)];
    if (node.hash != hash || node.parent != parent || node.salt != salt) continue;
    if (units.empty() || std::equal(units.begin(), units.end(), this->units(n).begin())) return n;
  }
  return -1;
}

NodeId Trie::allocate(NodeId parent, std::span<const Unit> units, Salt salt, uint64_t hash) {
  if (free_ < 0) grow();
  const NodeId id = free_;
  Node& node = nodes_[index(id)];
  free_ = node.next;
  node = Node{.parent = parent,
              .depth = parent < 0 ? 0 : nodes_[index(parent)].depth + 1,
              .hash = hash,
              .salt = salt,
              .live = true};
  std::copy(units.begin(), units.end(), units_.begin() + static_cast<ptrdiff_t>(index(id)) * block_tokens_);
  for (int32_t g = 0; g < groups_; ++g) held_[slot(id, g)] = {};
  NodeId& head = buckets_[hash & (buckets_.size() - 1)];
  node.next = head;
  head = id;
  if (parent >= 0) {
    add_ref(parent);
    nodes_[index(parent)].recent = id;
  }
  ++live_;
  return id;
}

std::span<const Unit> Trie::units(NodeId node) const {
  return {units_.data() + index(node) * static_cast<size_t>(block_tokens_), static_cast<size_t>(block_tokens_)};
}

NodeId Trie::find_root(Salt salt) const { return find(-1, {}, salt, mix64(salt)); }

NodeId Trie::acquire_root(Salt salt) {
  NodeId root = find_root(salt);
  if (root < 0) root = allocate(-1, {}, salt, mix64(salt));
  add_ref(root);
  return root;
}

NodeId Trie::find_child(NodeId parent, std::span<const Unit> units) const {
  return find(parent, units, 0, hash_of(parent, units));
}

NodeId Trie::acquire_child(NodeId parent, std::span<const Unit> units) {
  const uint64_t hash = hash_of(parent, units);
  NodeId child = find(parent, units, 0, hash);
  if (child < 0) child = allocate(parent, units, 0, hash);
  add_ref(child);
  return child;
}

void Trie::unlink(NodeId node) {
  NodeId* link = &buckets_[nodes_[index(node)].hash & (buckets_.size() - 1)];
  while (*link != node) link = &nodes_[index(*link)].next;
  *link = nodes_[index(node)].next;
}

void Trie::release_ref(NodeId node) {
  while (node >= 0) {
    Node& n = nodes_[index(node)];
    BORA_CHECK(n.refs > 0, "a trie node released more often than acquired");
    if (--n.refs > 0) return;
    const NodeId parent = n.parent;
    if (parent >= 0 && nodes_[index(parent)].recent == node) nodes_[index(parent)].recent = -1;
    unlink(node);
    n.live = false;
    n.next = free_;
    free_ = node;
    --live_;
    node = parent;
  }
}

void Trie::hold(NodeId node, int32_t group, BlockId block) {
  BlockId& held = held_[slot(node, group)].block;
  BORA_CHECK((held < 0) != (block < 0), "a node holds one block of a group");
  const NodeId parent = nodes_[index(node)].parent;
  held = block;
  if (parent >= 0) held_[slot(parent, group)].children += block >= 0 ? 1 : -1;
  if (block >= 0) {
    add_ref(node);
  } else {
    release_ref(node);
  }
}

Status Trie::check() const {
  std::vector<int32_t> refs(nodes_.size(), 0);
  std::vector<int32_t> children(held_.size(), 0);
  int32_t live = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].live) continue;
    ++live;
    const NodeId id = static_cast<NodeId>(i);
    const NodeId parent = nodes_[i].parent;
    if (parent >= 0) {
      if (!nodes_[index(parent)].live) return internal_error("trie: a node's parent is gone");
      ++refs[index(parent)];
    }
    for (int32_t g = 0; g < groups_; ++g) {
      if (block(id, g) < 0) continue;
      ++refs[i];
      if (parent >= 0) ++children[slot(parent, g)];
    }
  }
  if (live != live_)
    return internal_error("trie: live count is " + std::to_string(live_) + ", found " + std::to_string(live));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].live) continue;
    if (nodes_[i].refs < refs[i]) return internal_error("trie: a node has fewer references than holders");
    for (int32_t g = 0; g < groups_; ++g) {
      const size_t s = slot(static_cast<NodeId>(i), g);
      if (held_[s].children != children[s]) return internal_error("trie: count of held children is wrong");
    }
  }
  return {};
}

}  // namespace bora::kv
