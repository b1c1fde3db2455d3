// The blocks of one group: who holds which, and which cached one goes next.
//
//   free     nobody holds it
//   owned    refs > 0: live sequences (several by reference count)
//   waiting  refs == 0, pins > 0: released, but a step in flight may still touch it
//   cached   refs == 0, pins == 0, a trie node holds it: reusable and evictable
//   moving   a transfer holds it
//
// Eviction takes the least value = cost / age, where cost is what recomputing the block takes (it grows with the
// block's depth, in classes of powers of two) and age is the time since its last use. Within a class the oldest comes
// first, so one look at the front of each class decides. kAll blocks whose children hold blocks of the group come
// only after all others: no match could reach those children any more. (They are then held by a sequence that
// computed the same prefix for itself.)
//
// No allocation after construction: the ordered sets are intrusive.
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <vector>

#include "kv/pool.h"
#include "kv/trie.h"

namespace bora::kv {

class Blocks {
 public:
  enum class State : uint8_t { kFree, kOwned, kWaiting, kCached, kMoving };

  Blocks(const GroupSpec& spec, int32_t group);
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  const GroupSpec& spec() const { return spec_; }
  int32_t total() const { return static_cast<int32_t>(items_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached_count() const { return cached_; }

  // A free block with refs = 1, evicting a cached one if need be; -1 when all are taken.
  BlockId take(Trie* trie);
  void add_ref(BlockId b, Trie* trie);
  void drop_ref(BlockId b, Trie* trie);
  void pin(BlockId b) { ++items_[index(b)].pins; }
  void unpin(BlockId b, Trie* trie);
  // The node's content is this block's. REQUIRES: refs > 0, the node holds none.
  void attach(BlockId b, NodeId node, Trie* trie);
  void touch(BlockId b, Trie* trie);
  // A child of the block's node gained or lost its block.
  void children_changed(BlockId b, Trie* trie) { place(b, trie); }

  int32_t refs(BlockId b) const { return items_[index(b)].refs; }
  int32_t pins(BlockId b) const { return items_[index(b)].pins; }
  NodeId node(BlockId b) const { return items_[index(b)].node; }
  State state(BlockId b) const;

  // The next block to evict, or -1.
  BlockId candidate() const;
  // cached -> moving; and back (ok = false), or to free with its node detached (ok = true).
  void begin_move(BlockId b, Trie* trie);
  void end_move(BlockId b, bool ok, Trie* trie);

  int64_t evicted() const { return evicted_; }
  Pool::Usage usage() const;
  Status check(const Trie& trie) const;

 private:
  struct Item : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
    BlockId id = -1;
    int32_t refs = 0, pins = 0;
    NodeId node = -1;
    uint64_t last_use = 0;
    int8_t cost_class = -1;  // set it is in, -1 none
    bool moving = false;
    bool operator<(const Item& other) const {
      return last_use != other.last_use ? last_use < other.last_use : id < other.id;
    }
  };
  using Order = boost::intrusive::set<Item>;
  static constexpr int kClasses = 24;  // for leaves; as many again for the others

  static size_t index(BlockId b) { return static_cast<size_t>(b); }
  int class_of(const Item& item, const Trie& trie) const;  // -1 unless cached
  void place(BlockId b, Trie* trie);  // puts the block where its state says: free list, a class, or nowhere
  void detach(Item& item, Trie* trie);

  GroupSpec spec_;
  int32_t group_;
  std::vector<Item> items_;
  std::vector<BlockId> free_;
  std::vector<Order> classes_;
  uint64_t now_ = 0;
  int32_t cached_ = 0;
  int64_t evicted_ = 0;
};

}  // namespace bora::kv
