// The task list of an attention step: which runs of tiles exist, in the order in which they are taken.
//
// A pure function of integers, made once a step on the host and used by every layer. Arithmetic does not
// depend on it: a tile is 256 keys counted from position 0 and starts from fresh accumulators, and tiles are
// merged in ascending order whoever computed them. Units (a block of query rows of one sequence x one kv
// head) are laid end to end and cut into segments:
//
//   line of tiles   |-- unit 0 --|------ unit 1 ------|- unit 2 -|
//   segments        |   s0       |  s1   |  s2  | s3  |    s4    |      unit 1 is split: a second launch
//   merges it
//
// A segment is 1 / (2 * workers) of what is left of the line, so segments shrink to one tile towards the end.
// Resident thread blocks begin with two segments of their own and take the next free one when done (the
// multiprocessors of one device differ by a fifth in the bandwidth they get, so equal shares would wait for
// the slowest).
//
// The first segment of a split unit merges its own tiles and leaves one partial; the others leave one partial
// a tile. Partials of a unit are consecutive and ascending.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace bora::cuda {

inline constexpr int32_t kTileKeys = 256;  // canonical: never changes, never depends on a device

// One sequence of the step.
struct AttentionSequence {
  int32_t token_begin = 0;  // first row in T
  int32_t tokens = 0;       // rows of this step
  int32_t kv_len = 0;       // upper bound of the length after this step's append
  int32_t pos = 0;          // upper bound of the first row's position; rows are consecutive unless `tree`
  bool tree = false;        // rows have ancestor bits: a unit is one row
  int32_t slack = 0;  // the device's length and positions may be smaller by up to this (steps not yet confirmed)
};

struct AttentionShape {
  int32_t q_heads = 0, kv_heads = 0;
  int32_t window = 0;  // 0 = all keys; else a row sees positions (pos - window, pos]
  bool causal = true;
  int32_t workers = 0;       // resident thread blocks that share the list
  int32_t small_rows = 16;   // query rows (token x head of the group) a small unit holds
  int32_t prefill_rows = 0;  // rows a prefill block holds; 0 = no prefill kernel: everything goes to the tile kernel
  int32_t prefill_from = 0;  // sequences with at least this many rows go to the prefill kernel
};

// Read by the kernels; 32 bytes.
struct AttentionSegment {
  int32_t seq;
  int32_t token_begin;  // first row of the unit
  int16_t tokens, kv_head;
  int32_t step_tokens;           // rows of the whole sequence in this step: keys below kv_len - step_tokens are old
  int32_t tile_begin, tile_end;  // absolute tile numbers
  int32_t partial;               // first partial slot, -1 = the unit is whole here: write the output
  int32_t first;                 // 1 = begins with the unit's first tile: merge, one partial
};

// A split unit: partial slots [slot_begin, slot_begin + slots) in ascending order of tiles.
struct AttentionMerge {
  int32_t token_begin, tokens, kv_head;
  int32_t slot_begin, slots;
};

// A block of query rows for the prefill kernel (all kv heads are launched for it); longest first.
struct AttentionPrefill {
  int32_t seq, token_begin, tokens, tiles;
};

struct AttentionPlan {
  std::vector<AttentionSegment> segments;
  std::vector<AttentionMerge> merges;
  std::vector<AttentionPrefill> prefill;
  std::array<int32_t, 4> counts = {};  // segments, merges, prefill blocks, 0: read by the kernels
  int32_t partial_slots = 0;
  int32_t unit_rows = 0;  // rows of a unit: tokens * group of the widest one
};

// Tokens that share a unit of `rows` query rows for a group of `group` heads (at least 1).
constexpr int32_t unit_tokens(int32_t rows, int32_t group) { return rows / group > 0 ? rows / group : 1; }

// Fails with words on sizes that make no sense. Deterministic; O(units + workers).
Result<AttentionPlan> plan_attention(std::span<const AttentionSequence> sequences, const AttentionShape& shape);

}  // namespace bora::cuda
