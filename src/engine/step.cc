#include "engine/step.h"

#include <algorithm>

#include "base/check.h"

namespace bora::engine {
namespace {

size_t u(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

void Slots::take(Live* live, int32_t choice, sched::StepId step, sched::StepId completed) {
  LiveChoice& c = live->choices[u(choice)];
  if (c.slot < 0) {
    Slot* best = nullptr;
    for (Slot& s : slots_) {
      if (s.live == nullptr) {
        best = &s;
        break;
      }
      if (s.used <= completed && (best == nullptr || s.used < best->used)) best = &s;
    }
    BORA_CHECK(best != nullptr, "a slot for each pick in flight");
    if (best->live != nullptr) best->live->choices[u(best->choice)].slot = -1;
    best->live = live;
    best->choice = choice;
    c.slot = static_cast<int32_t>(best - slots_.data());
    c.written = 0;
  }
  slots_[u(c.slot)].used = step;
}

void Slots::forget(const Live* live) {
  for (Slot& s : slots_) {
    if (s.live == live) s = {};
  }
}

StepBuilder::StepBuilder(const device::Bounds& bounds, std::vector<kv::GroupSpec> groups, kv::Pool* pool)
    : bounds_(bounds), groups_(std::move(groups)), pool_(*pool), slots_(bounds.histories) {}

void StepBuilder::reserve(Step* s) const {
  for (auto* v : {&s->ids, &s->pos, &s->seq, &s->origin, &s->ids_from}) v->reserve(u(bounds_.tokens));
  s->seq_begin.reserve(u(bounds_.seqs) + 1);
  s->kv_len.reserve(u(bounds_.seqs));
  s->rows.reserve(u(bounds_.rows));
  s->picks.reserve(u(bounds_.rows));
  s->owners.reserve(u(bounds_.rows));
  for (auto* v : {&s->table, &s->slot, &s->load, &s->store}) v->resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    s->table[g].reserve(u(bounds_.seqs) * u(bounds_.pages));
    s->slot[g].reserve(u(bounds_.tokens));
    s->load[g].reserve(u(bounds_.seqs));
    s->store[g].reserve(u(bounds_.tokens));
  }
  s->patch.groups.resize(groups_.size());
  s->copies.reserve(u(bounds_.seqs) * groups_.size());
}

void StepBuilder::add_rows(const sched::Work& w, Live& live, int32_t seq, Step* s) {
  const LiveChoice& c = live.choices[u(w.choice)];
  for (int32_t i = 0; i < w.count; ++i) {
    const int32_t p = w.begin + i;
    const bool picked = w.continues && i == 0;
    BORA_CHECK(picked || p < static_cast<int32_t>(c.tokens.size()), "a row's token is known or just picked");
    s->ids.push_back(picked ? 0 : c.tokens[u(p)]);
    s->ids_from.push_back(picked ? c.last_pick : -1);
    s->pos.push_back(p);
    s->seq.push_back(seq);
    s->origin.push_back(p < live.prompt_tokens() ? 0 : 1);
  }
  s->seq_begin.push_back(static_cast<int32_t>(s->ids.size()));
  s->kv_len.push_back(w.begin + w.count);
  if (w.prompt_rows) s->prefill_rows += w.count;
}

void StepBuilder::add_state(const sched::Work& w, int32_t seq, Step* s) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int32_t group = static_cast<int32_t>(g);
    const std::span<const kv::BlockId> table = pool_.table(w.seq, group);
    const bool last = groups_[g].keep == kv::Keep::kLast;
    const size_t pages = last ? 0 : std::min(table.size(), u(bounds_.pages));
    s->table[g].insert(s->table[g].end(), table.begin(), table.begin() + static_cast<ptrdiff_t>(pages));
    s->table[g].resize((u(seq) + 1) * u(bounds_.pages), -1);
    if (last) s->load[g].push_back(pool_.load_slot(w.seq, group, w.begin));
    for (int32_t i = 0; i < w.count; ++i) {
      const int32_t p = w.begin + i;
      if (!last) {
        s->slot[g].push_back(table[u(p / groups_[g].block)] * groups_[g].block + p % groups_[g].block);
        continue;
      }
      s->slot[g].push_back(-1);
      const bool snapshot = w.snapshot == p + 1 && i + 1 < w.count;
      s->store[g].push_back(i + 1 == w.count ? pool_.store_slot(w.seq, group, p + 1)
                            : snapshot       ? pool_.snapshot(w.seq, group, p + 1)
                                             : -1);
    }
  }
}

// Prompt tokens are scored by the rows before them.
void StepBuilder::add_scores(const sched::Work& w, Live& live, Step* s) {
  const int32_t first = static_cast<int32_t>(s->ids.size()) - w.count;
  for (int32_t i = 0; i < w.count; ++i) {
    const int32_t target = w.begin + i + 1;
    s->rows.push_back(first + i);
    if (target >= live.prompt_tokens()) continue;
    s->picks.push_back({.row = static_cast<int32_t>(s->rows.size()) - 1,
                        .position = target,
                        .prompt = live.prompt_tokens(),
                        .target = live.request.prompt[u(target)],
                        .history = {},
                        .params = &live.scoring});
    s->owners.push_back({&live, w.choice, w.choice, live.choices[u(w.choice)].epoch, target});
  }
}

void StepBuilder::add_picks(const sched::Work& w, Live& live, sched::StepId completed, Step* s) {
  if (w.all_rows) {
    add_scores(w, live, s);
  } else if (w.want_logits) {
    s->rows.push_back(static_cast<int32_t>(s->ids.size()) - 1);
  }
  const bool several = w.prompt_rows && w.picks > 1;
  for (int32_t i = 0; i < w.picks; ++i) {
    const int32_t choice = several ? i : w.choice;
    LiveChoice& c = live.choices[u(choice)];
    slots_.take(&live, choice, s->plan.id, completed);
    const int32_t position = w.begin + w.count;
    device::PickRow pick{.row = static_cast<int32_t>(s->rows.size()) - 1,
                         .slot = c.slot,
                         .position = position,
                         .prompt = live.prompt_tokens(),
                         .history = {},
                         .params = &c.params};
    if (c.written < position) {
      BORA_CHECK(position <= static_cast<int32_t>(c.tokens.size()), "a new slot's history is known");
      pick.history = std::span(c.tokens).subspan(u(c.written), u(position - c.written));
      pick.history_begin = c.written;
    }
    c.written = position + 1;
    c.last_pick = static_cast<int32_t>(s->picks.size());
    s->picks.push_back(pick);
    s->owners.push_back({&live, choice, w.choice, live.choices[u(w.choice)].epoch, -1});
  }
}

void StepBuilder::build(const LiveMap& live, sched::StepId completed, Step* s) {
  for (auto* v : {&s->ids, &s->pos, &s->seq, &s->seq_begin, &s->kv_len, &s->rows, &s->origin, &s->ids_from})
    v->clear();
  for (auto* v : {&s->table, &s->slot, &s->load, &s->store}) {
    for (auto& by_group : *v) by_group.clear();
  }
  s->picks.clear();
  s->owners.clear();
  s->prefill_rows = 0;
  s->launched = !s->plan.work.empty();
  s->copies.assign(carried_.begin(), carried_.end());
  carried_.clear();
  for (const kv::BlockCopy& c : s->plan.copies) s->copies.push_back({c.group, c.from, c.to});
  if (!s->launched) {
    carried_ = s->copies;
    return;
  }
  s->seq_begin.push_back(0);
  int32_t seq = 0;
  for (const sched::Work& w : s->plan.work) {
    Live& l = *live.at(w.request);
    l.last_step = s->plan.id;
    add_rows(w, l, seq, s);
    add_state(w, seq, s);
    add_picks(w, l, completed, s);
    ++seq;
  }
  device::StepPatch& p = s->patch;
  p.id = s->plan.id;
  p.tokens = static_cast<int32_t>(s->ids.size());
  p.seqs = seq;
  p.ids = s->ids;
  p.pos = s->pos;
  p.seq = s->seq;
  p.seq_begin = s->seq_begin;
  p.kv_len = s->kv_len;
  p.rows = s->rows;
  p.origin = s->origin;
  p.ids_from = s->ids_from;
  for (size_t g = 0; g < groups_.size(); ++g) p.groups[g] = {s->table[g], s->slot[g], s->load[g], s->store[g]};
  p.copies = s->copies;
  p.picks = s->picks;
}

}  // namespace bora::engine
