#include "backend/cuda/kernels/attention/plan.h"

#include <algorithm>
#include <string>

namespace bora::cuda {
namespace {

struct Unit {
  int32_t seq, token_begin, tokens, step_tokens, kv_head, tile_begin, tile_end;
  int32_t tiles() const { return tile_end - tile_begin; }
};

Status check(std::span<const AttentionSequence> sequences, const AttentionShape& shape) {
  if (shape.kv_heads < 1 || shape.q_heads < shape.kv_heads || shape.q_heads % shape.kv_heads != 0 ||
      shape.kv_heads > 32767) {
    return invalid_argument("attention plan: " + std::to_string(shape.q_heads) + " query heads are no multiple of " +
                            std::to_string(shape.kv_heads) + " kv heads");
  }
  if (shape.workers < 1) return invalid_argument("attention plan: no workers");
  if (shape.window < 0 || shape.small_rows < 1 || shape.small_rows > 1024 || shape.prefill_rows < 0) {
    return invalid_argument("attention plan: negative window or unit size");
  }
  for (const AttentionSequence& s : sequences) {
    if (s.tokens < 0 || s.token_begin < 0 || s.kv_len < 0 || s.pos < 0 || s.slack < 0 || s.kv_len > (1 << 30)) {
      return invalid_argument("attention plan: a sequence has a negative or absurd length");
    }
    if (shape.causal && !s.tree && s.pos + int64_t{s.tokens} > s.kv_len) {
      return invalid_argument("attention plan: a row at position " + std::to_string(s.pos + s.tokens - 1) +
                              " lies beyond the sequence's length " + std::to_string(s.kv_len));
    }
  }
  return ok_status();
}

// Tiles that rows [row, row + n) of a sequence can see.
void tile_range(const AttentionSequence& s, const AttentionShape& shape, int32_t row, int32_t n, int32_t* begin,
                int32_t* end) {
  int32_t limit = s.kv_len;
  int32_t start = 0;
  if (shape.causal && !s.tree) limit = std::min(limit, s.pos + row + n);
  // A tree row's position is at least that of the step's first row.
  if (shape.window > 0) start = std::max(0, s.pos - s.slack + (s.tree ? 0 : row) - shape.window + 1);
  *begin = start / kTileKeys;
  *end = std::max(*begin, (limit + kTileKeys - 1) / kTileKeys);
}

void add_units(const AttentionSequence& s, int32_t seq, const AttentionShape& shape, std::vector<Unit>* units) {
  const int32_t group = shape.q_heads / shape.kv_heads;
  const int32_t step = s.tree ? 1 : unit_tokens(shape.small_rows, group);
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    for (int32_t row = 0; row < s.tokens; row += step) {
      Unit u{seq, s.token_begin + row, std::min(step, s.tokens - row), s.tokens, head, 0, 0};
      tile_range(s, shape, row, u.tokens, &u.tile_begin, &u.tile_end);
      // A unit without keys still writes its rows (zeros).
      u.tile_end = std::max(u.tile_end, u.tile_begin + 1);
      units->push_back(u);
    }
  }
}

void add_prefill(const AttentionSequence& s, int32_t seq, const AttentionShape& shape, AttentionPlan* plan) {
  const int32_t step = unit_tokens(shape.prefill_rows, shape.q_heads / shape.kv_heads);
  for (int32_t row = 0; row < s.tokens; row += step) {
    AttentionPrefill p{seq, s.token_begin + row, std::min(step, s.tokens - row), 0};
    int32_t begin = 0, end = 0;
    tile_range(s, shape, row, p.tokens, &begin, &end);
    p.tiles = end - begin;
    plan->prefill.push_back(p);
  }
}

// Cuts the line of tiles into segments that shrink towards its end.
void cut(const std::vector<Unit>& units, int32_t workers, AttentionPlan* plan) {
  int64_t left = 0;
  for (const Unit& u : units) left += u.tiles();
  for (const Unit& u : units) {
    for (int32_t done = 0; done < u.tiles();) {
      const int32_t rest = u.tiles() - done;
      int32_t take = static_cast<int32_t>(std::clamp<int64_t>(left / (2 * int64_t{workers}), 1, rest));
      if (rest - take <= take / 2) take = rest;
      AttentionSegment s{
          u.seq,         u.token_begin,       static_cast<int16_t>(u.tokens), static_cast<int16_t>(u.kv_head),
          u.step_tokens, u.tile_begin + done, u.tile_begin + done + take,     -1,
          done == 0};
      if (take < u.tiles()) {
        s.partial = plan->partial_slots;
        const int32_t slots = s.first ? 1 : take;
        if (s.first) plan->merges.push_back({u.token_begin, u.tokens, u.kv_head, plan->partial_slots, 0});
        plan->merges.back().slots += slots;
        plan->partial_slots += slots;
      }
      plan->segments.push_back(s);
      left -= take;
      done += take;
    }
  }
}

}  // namespace

Result<AttentionPlan> plan_attention(std::span<const AttentionSequence> sequences, const AttentionShape& shape) {
  BORA_TRY(check(sequences, shape));
  AttentionPlan plan;
  std::vector<Unit> units;
  const int32_t group = shape.q_heads / shape.kv_heads;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const AttentionSequence& s = sequences[i];
    const bool prefill = shape.prefill_rows > 0 && !s.tree && int64_t{s.tokens} * group >= shape.prefill_from;
    if (prefill) {
      add_prefill(s, static_cast<int32_t>(i), shape, &plan);
    } else {
      add_units(s, static_cast<int32_t>(i), shape, &units);
    }
  }
  for (const Unit& u : units) plan.unit_rows = std::max(plan.unit_rows, u.tokens * group);
  cut(units, shape.workers, &plan);
  std::stable_sort(plan.prefill.begin(), plan.prefill.end(),
                   [](const AttentionPrefill& a, const AttentionPrefill& b) { return a.tiles > b.tiles; });
  plan.counts = {static_cast<int32_t>(plan.segments.size()), static_cast<int32_t>(plan.merges.size()),
                 static_cast<int32_t>(plan.prefill.size()), 0};
  return plan;
}

}  // namespace bora::cuda
