// The prefix index: a trie of complete blocks of units.
//
// A node is (parent, its block's units). Look-up hashes (parent, units) and compares both in full, so a collision
// costs time and never truth. Roots are salts. A node lives while something refers to it: a child, a sequence whose
// confirmed prefix ends in or passes through it, or a group that holds a block for it.
//
// Per group a node knows the block that holds its state, or -1. `held_children` counts children that hold a block of
// the group: a kAll block whose descendants hold blocks must not be evicted before them, since no match could reach
// them. Node storage is a slab with a free list; it grows only when live sequences hold more nodes than there are
// blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/pool.h"

namespace bora::kv {

using NodeId = int32_t;

class Trie {
 public:
  Trie(int32_t block_tokens, int32_t groups, int32_t expected_nodes);

  int32_t block_tokens() const { return block_tokens_; }

  // The root of a salt, made on demand; release_ref when done with it.
  NodeId acquire_root(Salt salt);
  NodeId find_root(Salt salt) const;  // -1 if there is none
  // -1 if there is no such child. `units` holds exactly one block.
  NodeId find_child(NodeId parent, std::span<const Unit> units) const;
  // The child, made on demand, with one more reference.
  NodeId acquire_child(NodeId parent, std::span<const Unit> units);
  void add_ref(NodeId node) { ++nodes_[index(node)].refs; }
  // Drops a reference and frees what nobody refers to, upward.
  void release_ref(NodeId node);

  NodeId parent(NodeId node) const { return nodes_[index(node)].parent; }
  // The child made last, if it still lives; -1 otherwise. For explaining misses only.
  NodeId recent_child(NodeId node) const { return nodes_[index(node)].recent; }
  int32_t depth(NodeId node) const { return nodes_[index(node)].depth; }  // roots: 0
  std::span<const Unit> units(NodeId node) const;
  BlockId block(NodeId node, int32_t group) const { return held_[slot(node, group)].block; }
  int32_t held_children(NodeId node, int32_t group) const { return held_[slot(node, group)].children; }
  // Attaches or (block = -1) detaches; a held block is a reference.
  void hold(NodeId node, int32_t group, BlockId block);

  int32_t size() const { return live_; }
  Status check() const;

 private:
  struct Node {
    NodeId parent = -1;
    NodeId recent = -1;
    NodeId next = -1;  // chain of the hash bucket, or of the free list
    int32_t depth = 0;
    int32_t refs = 0;
    uint64_t hash = 0;
    Salt salt = 0;  // roots only
    bool live = false;
  };
  struct Held {
    BlockId block = -1;
    int32_t children = 0;
  };
  static size_t index(NodeId node) { return static_cast<size_t>(node); }
  size_t slot(NodeId node, int32_t group) const {
    return index(node) * static_cast<size_t>(groups_) + static_cast<size_t>(group);
  }
  uint64_t hash_of(NodeId parent, std::span<const Unit> units) const;
  NodeId find(NodeId parent, std::span<const Unit> units, Salt salt, uint64_t hash) const;
  NodeId allocate(NodeId parent, std::span<const Unit> units, Salt salt, uint64_t hash);
  void unlink(NodeId node);
  void grow();
  void rehash();

  int32_t block_tokens_, groups_;
  int32_t live_ = 0;
  NodeId free_ = -1;
  std::vector<Node> nodes_;
  std::vector<Held> held_;
  std::vector<Unit> units_;
  std::vector<NodeId> buckets_;  // a power of two
};

}  // namespace bora::kv
