// The block pool: bookkeeping of paged state, by ids only. It owns no bytes and does not know what is behind an id.
//
// State comes in groups (all positions, a window, only the last). A sequence holds blocks of every group; groups
// allocate together or not at all. A block is free, owned (a live sequence, or several by reference count), cached
// (complete, not owned, findable by content) or moving (a transfer holds it: neither evicted nor written). Lengths
// are ordered: confirmed <= reserved. Only confirmed units enter the prefix index.
//
// The prefix index is a trie whose edge is (parent node, the block's units compared in full); hashes only speed the
// look-up. Its root is a salt: model, adapter and tenant. A match is the greatest length that *every* group can
// restore.
//
// Exactness: used + cached + free + moving == total in each group, always; check() proves it.
// One thread (the engine's). Nothing allocates after construction except where said.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace bora::kv {

using Unit = uint64_t;  // a token id, or the content hash of a media position
using SeqId = int32_t;
using StepId = int64_t;
using BlockId = int32_t;
using MoveId = int64_t;
using Salt = uint64_t;  // root of a trie: equal salts may share blocks

enum class Keep : uint8_t { kAll, kWindow, kLast };

struct GroupSpec {
  Keep keep = Keep::kAll;
  int32_t window = 0;  // kWindow: positions a row sees, itself included
  int32_t block = 16;  // tokens of a block, equal in all paged groups; kLast: working slots of a sequence (2 + drafts
                       // for one step in flight)
  int32_t align = 16;  // kLast: snapshots at multiples of this (itself a multiple of the block size)
  int32_t blocks = 0;  // capacity
};

struct Match {
  int32_t length = 0;               // multiple of the block size
  std::string_view why_not_longer;  // "differs at token 85", "evicted", "end of prompt"; lives until the next call
  int32_t differs_at = -1;
};

enum class Way : uint8_t { kOut, kIn };
struct Move {
  MoveId id = 0;
  int32_t group = 0;
  BlockId block = -1;
  Way way = Way::kOut;
};

struct Counters {
  int64_t hits_units = 0, asked_units = 0, evicted_blocks = 0, copied_blocks = 0;
};

// A copy that the device must run before the step (copy on write of a shared last block).
struct BlockCopy {
  int32_t group = 0;
  BlockId from = -1, to = -1;
};

class Pool {
 public:
  virtual ~Pool() = default;

  // The longest prefix that can be restored. Changes nothing.
  virtual Match match(std::span<const Unit> units, Salt salt) const = 0;
  // A new sequence that starts with the first `length` units of a match (0 = from nothing). Its blocks become owned.
  // kResourceExhausted when groups cannot restore it.
  virtual Result<SeqId> open(std::span<const Unit> units, Salt salt, int32_t length) = 0;
  // Makes room up to `length` positions in all groups or in none; evicts cached blocks as needed.
  virtual Status reserve(SeqId seq, int32_t length, std::vector<BlockCopy>* copies) = 0;
  // Blocks that are missing in the scarcest group for a new sequence of `length` positions of which `cached` are
  // matched, if every cached block could be evicted. 0: it is worth trying.
  virtual int32_t missing_blocks(int32_t length, int32_t cached) const = 0;
  // Appends units that the host has read back. Complete blocks become findable.
  virtual void confirm(SeqId seq, std::span<const Unit> units) = 0;
  // Gives back whole blocks at and after `length` (drafts that failed).
  // REQUIRES: length >= confirmed length, and no step in flight touches them.
  virtual void truncate(SeqId seq, int32_t length) = 0;
  // A second sequence with the same confirmed units; blocks are shared until written, recurrent state is copied.
  virtual Result<SeqId> fork(SeqId seq, std::vector<BlockCopy>* copies) = 0;
  // Ends a sequence. Its complete confirmed blocks become cached, the others free, but all are reused only once step
  // `after` is complete (after = -1: at once).
  virtual void release(SeqId seq, StepId after) = 0;
  virtual void step_complete(StepId step) = 0;

  virtual int32_t confirmed(SeqId seq) const = 0;
  virtual int32_t reserved(SeqId seq) const = 0;
  // Block table of a paged group, by position / block; released window blocks are -1. kLast: the working slots.
  virtual std::span<const BlockId> table(SeqId seq, int32_t group) const = 0;

  // Recurrent state (kLast). The slot that holds the state after `length` positions, or -1 when there is none (length
  // 0: the zero state).
  virtual BlockId load_slot(SeqId seq, int32_t group, int32_t length) const = 0;
  // The slot where the state after `length` positions goes: never one that a position >= confirmed may still be
  // loaded from.
  virtual BlockId store_slot(SeqId seq, int32_t group, int32_t length) = 0;
  // A slot of its own for the state after `length` positions, findable by later requests once that length is
  // confirmed; -1 when none is to be had (then the prefix is simply not cached there). REQUIRES: length is a multiple
  // of `align`.
  virtual BlockId snapshot(SeqId seq, int32_t group, int32_t length) = 0;

  // Transfers: picks cached blocks to move out by cost; they are `moving` until moved() says how it went.
  virtual std::vector<Move> evict(int32_t group, int32_t blocks) = 0;
  virtual void moved(MoveId move, const Status& how) = 0;

  struct Usage {
    int32_t total = 0, free = 0, owned = 0, cached = 0, moving = 0,
            waiting = 0;  // waiting: released, step not complete
  };
  virtual Usage usage(int32_t group) const = 0;
  virtual Counters counters() const = 0;
  virtual int32_t block_tokens() const = 0;
  // Verifies every invariant; the message names the first that fails. For tests and idle time.
  virtual Status check() const = 0;
};

// kInvalidArgument: no group, groups of unlike block size, an align that is no multiple of it, nothing to hold.
Result<std::unique_ptr<Pool>> make_pool(std::span<const GroupSpec> groups, int32_t max_sequences);

}  // namespace bora::kv
