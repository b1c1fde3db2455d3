#include "sched/sim.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/rng.h"
#include "sched/sim_memory.h"

namespace bora::sched {
namespace {

constexpr int32_t kStopToken = 7;

struct SimConfig {
  std::vector<kv::GroupSpec> groups;
  Limits limits;
  int32_t budget = 0;
  int32_t max_prompt = 0, max_new = 0;
  double arrive = 0, cancel = 0, pause = 0, deadline = 0, stop = 0, fork = 0, move = 0, draft_good = 0.7;
  int32_t families = 4;  // prompts share beginnings
};

// What the simulation knows of a choice.
struct Answer {
  std::vector<kv::Unit> tokens;  // as read back: prompt and answer
  std::vector<int32_t> expected;
  bool ended = false;
  // The device's own view of the running sequence.
  int32_t length = 0;    // positions in its cache
  int32_t pending = -1;  // token picked and not yet computed
};

struct Client {
  Arrival arrival;
  uint64_t seed = 0;
  bool stops = false;
  bool paused = false, cancelled = false;
  int64_t born = 0, paused_steps = 0;
  int32_t open = 0;
  std::vector<Answer> answers;
};

struct Touch {
  int32_t group;
  kv::BlockId block;
  RequestId request;
  int32_t choice;
};

struct Launched {
  StepPlan plan;
  std::vector<std::vector<int32_t>> tokens;  // one list an outcome
  std::vector<bool> stopped;
  std::vector<Touch> touches;  // blocks that it reads or writes
};

SimConfig make_config(Rng* rng) {
  SimConfig c;
  const int32_t block = 4 << rng->below(3);
  c.limits.align = block * (rng->chance(0.3) ? 2 : 1);
  c.limits.steps_in_flight = static_cast<int32_t>(rng->between(1, 3));
  c.limits.max_drafts = rng->chance(0.5) ? static_cast<int32_t>(rng->between(0, 8)) : 0;
  const bool recurrent = rng->chance(0.45);
  if (recurrent && c.limits.steps_in_flight > 1) c.limits.max_drafts = 0;
  c.limits.max_seqs = static_cast<int32_t>(rng->between(2, 12));
  c.limits.max_tokens = static_cast<int32_t>(rng->between(c.limits.max_seqs + 2 * c.limits.align, 128));
  c.limits.max_rows = c.limits.max_seqs * (1 + c.limits.max_drafts) + (rng->chance(0.5) ? c.limits.align : 0) + 4;
  c.limits.max_waiting = 64;
  c.max_prompt = static_cast<int32_t>(rng->between(8, 72));
  c.max_new = static_cast<int32_t>(rng->between(1, 24));
  c.limits.max_context =
      c.max_prompt + c.max_new + static_cast<int32_t>(rng->between(0, 8)) - static_cast<int32_t>(rng->below(4));
  c.limits.max_context = std::max(c.limits.max_context, 12);
  c.budget = static_cast<int32_t>(rng->between(c.limits.align + 1, c.limits.max_tokens));
  const int32_t one = (c.limits.max_context + block - 1) / block + 1;
  // From hardly more than one sequence to plenty.
  const int32_t blocks = one * static_cast<int32_t>(rng->between(1, 4)) + static_cast<int32_t>(rng->between(1, 6));
  c.groups.push_back({.keep = kv::Keep::kAll, .block = block, .blocks = blocks});
  if (rng->chance(0.5)) {
    c.groups.push_back({.keep = kv::Keep::kWindow,
                        .window = static_cast<int32_t>(rng->between(2, 24)),
                        .block = block,
                        .blocks = blocks});
  }
  if (recurrent) {
    const int32_t slots = 1 + c.limits.steps_in_flight * (1 + c.limits.max_drafts);
    c.groups.push_back(
        {.keep = kv::Keep::kLast,
         .block = slots,
         .align = c.limits.align,
         .blocks = slots * static_cast<int32_t>(rng->between(2, 5)) + static_cast<int32_t>(rng->between(2, 32))});
  }
  c.arrive = 0.05 + rng->uniform() * 0.6;
  c.cancel = rng->chance(0.6) ? rng->uniform() * 0.05 : 0;
  c.pause = rng->chance(0.5) ? rng->uniform() * 0.05 : 0;
  c.deadline = rng->chance(0.3) ? 0.05 : 0;
  c.stop = rng->uniform();
  c.fork = rng->chance(0.5) ? rng->uniform() * 0.4 : 0;
  c.move = rng->chance(0.4) ? 0.1 : 0;
  return c;
}

class Simulation {
 public:
  Simulation(const SimOptions& options, uint64_t seed, int64_t requests, SimReport* report)
      : options_(options),
        rng_(seed),
        config_(make_config(&rng_)),
        memory_(config_.groups),
        left_(requests),
        report_(*report) {}

  Status run();

 private:
  Status step();
  void arrive();
  void disturb();
  void transfer();
  Status probe();
  std::vector<kv::Unit> make_prompt();
  Status launch(StepPlan plan);
  Status run_work(const Work& work, Launched* step);
  Status run_rows(const Work& work, Client& client, Answer& answer, std::span<const int32_t> inputs, int32_t begin);
  Status write_row(const Work& work, int32_t at, uint64_t prefix_after, bool keep_state);
  Status check_write(const Work& work, int32_t group, kv::BlockId block) const;
  Status note_touches(const Work& work, int32_t end, Launched* step);
  void pick_prompt(const Work& work, Client& client, Launched* step);
  Status pick_decode(const Work& work, Client& client, Launched* step);
  void record(Launched* step, Client& client, int32_t choice, std::vector<int32_t> tokens);
  Status deliver();
  Status collect_ended();
  Status at_end();
  std::vector<uint64_t> prefixes(const Client& client, std::span<const kv::Unit> tokens) const;
  std::vector<int32_t> solo(const Client& client, int32_t choice) const;

  const SimOptions& options_;
  Rng rng_;
  SimConfig config_;
  SimMemory memory_;
  std::unique_ptr<kv::Pool> pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<RequestId, Client> clients_;
  std::vector<std::vector<kv::Unit>> history_;  // whole texts of the last finished answers
  std::deque<Launched> in_flight_;
  std::vector<kv::Move> moves_;
  int64_t left_;
  RequestId next_id_ = 1;
  int64_t now_us_ = 0, steps_ = 0;
  SimReport& report_;
};

std::vector<kv::Unit> Simulation::make_prompt() {
  const int32_t most = std::min(config_.max_prompt, config_.limits.max_context - 1);
  std::vector<kv::Unit> out(static_cast<size_t>(rng_.between(1, most)));
  if (!history_.empty() && rng_.chance(0.3)) {  // the next turn of a conversation
    const std::vector<kv::Unit>& old = history_[rng_.below(history_.size())];
    for (size_t i = 0; i < out.size(); ++i) out[i] = i < old.size() ? old[i] : rng_.below(40);
    return out;
  }
  const uint64_t family = rng_.below(static_cast<uint64_t>(config_.families));
  const size_t shared = rng_.below(out.size() + 1);
  for (size_t i = 0; i < out.size(); ++i) out[i] = i < shared ? mix64(family * 1000 + i) % 40 : rng_.below(40);
  return out;
}

// The answer that a request gets when it is alone.
std::vector<int32_t> Simulation::solo(const Client& client, int32_t choice) const {
  uint64_t prefix = prefix_root(client.arrival.salt);
  for (kv::Unit u : client.arrival.prompt) prefix = prefix_next(prefix, u);
  std::vector<int32_t> out;
  size_t length = client.arrival.prompt.size();
  while (static_cast<int32_t>(out.size()) < client.arrival.max_new &&
         static_cast<int32_t>(length) < config_.limits.max_context) {
    const int32_t token = next_token(prefix, client.seed, choice);
    out.push_back(token);
    ++length;
    if (client.stops && token == kStopToken) break;
    prefix = prefix_next(prefix, static_cast<kv::Unit>(token));
  }
  return out;
}

void Simulation::arrive() {
  Client c;
  c.arrival.id = next_id_++;
  c.arrival.prompt = make_prompt();
  c.arrival.max_new = static_cast<int32_t>(rng_.between(1, config_.max_new));
  c.arrival.salt = rng_.below(2);
  c.arrival.priority = static_cast<int32_t>(rng_.below(10) / 9);
  c.arrival.choices = rng_.chance(config_.fork) ? static_cast<int32_t>(rng_.between(2, 4)) : 1;
  c.arrival.choices = std::min(c.arrival.choices, config_.limits.max_rows);
  c.arrival.prompt_logprobs = rng_.chance(0.03);
  if (rng_.chance(config_.deadline)) c.arrival.deadline_us = now_us_ + static_cast<int64_t>(rng_.below(3000));
  c.seed = rng_.next();
  c.stops = rng_.chance(config_.stop);
  c.born = steps_;
  c.open = c.arrival.choices;
  for (int32_t i = 0; i < c.arrival.choices; ++i) {
    Answer a;
    a.tokens = c.arrival.prompt;
    a.expected = solo(c, i);
    c.answers.push_back(std::move(a));
  }
  --left_;
  ++report_.requests;
  report_.choices += c.arrival.choices;
  const Status s = scheduler_->arrive(c.arrival, now_us_);
  if (!s.ok()) {
    ++report_.rejected;
    return;
  }
  clients_.emplace(c.arrival.id, std::move(c));
}

// Cancels, slow readers and transfers.
void Simulation::disturb() {
  if (clients_.empty()) return;
  auto it = clients_.lower_bound(static_cast<RequestId>(rng_.below(static_cast<uint64_t>(next_id_))));
  if (it == clients_.end()) it = clients_.begin();
  Client& c = it->second;
  if (rng_.chance(config_.cancel) && !c.cancelled) {
    c.cancelled = true;
    scheduler_->cancel(it->first);
  } else if (rng_.chance(config_.pause)) {
    c.paused = !c.paused;
    scheduler_->pause(it->first, c.paused);
  }
  for (auto& [id, client] : clients_) {
    if (!client.paused) continue;
    ++client.paused_steps;
    if (client.paused_steps % 200 == 0 || left_ == 0) {
      client.paused = false;
      scheduler_->pause(id, false);
    }
  }
}

void Simulation::transfer() {
  if (rng_.chance(config_.move)) {
    for (const kv::Move& m : pool_->evict(static_cast<int32_t>(rng_.below(config_.groups.size())), 2))
      moves_.push_back(m);
  }
  while (!moves_.empty() && rng_.chance(0.3)) {
    const bool ok = rng_.chance(0.6);
    pool_->moved(moves_.back().id, ok ? ok_status() : unavailable("transfer failed"));
    ++(ok ? report_.moves_done : report_.moves_failed);
    moves_.pop_back();
  }
}

// What the index promises for a text seen before must be there: a sequence opened at the match reads its own prefix.
Status Simulation::probe() {
  if (history_.empty() || !rng_.chance(0.2)) return {};
  Client client;
  client.arrival.salt = rng_.below(2);
  const std::vector<kv::Unit>& text = history_[rng_.below(history_.size())];
  const int32_t length = pool_->match(text, client.arrival.salt).length;
  auto seq = pool_->open(text, client.arrival.salt, length);
  if (!seq.ok()) {
    // Working slots of recurrent groups may all be taken; nothing else can be missing.
    const bool recurrent = config_.groups.back().keep == kv::Keep::kLast;
    return recurrent ? ok_status() : internal_error("a match cannot be opened");
  }
  const std::vector<uint64_t> prefix = prefixes(client, std::span(text).first(static_cast<size_t>(length)));
  Status status;
  for (int32_t g = 0; g < memory_.groups() && status.ok() && length > 0; ++g) {
    if (memory_.spec(g).keep != kv::Keep::kLast) {
      status = memory_.read(g, pool_->table(*seq, g), length, prefix);
      continue;
    }
    const kv::BlockId load = pool_->load_slot(*seq, g, length);
    const bool own = load >= 0 && memory_.cell(g, load, 0) == prefix[static_cast<size_t>(length)];
    if (!own) status = internal_error("a match restores a state that is not its own");
  }
  pool_->release(*seq, -1);
  return std::move(status).with_context("probe");
}

std::vector<uint64_t> Simulation::prefixes(const Client& client, std::span<const kv::Unit> tokens) const {
  std::vector<uint64_t> out{prefix_root(client.arrival.salt)};
  for (kv::Unit u : tokens) out.push_back(prefix_next(out.back(), u));
  return out;
}

// Nobody else may read or write a block in a step in flight that this row writes now.
Status Simulation::check_write(const Work& work, int32_t group, kv::BlockId block) const {
  for (const Launched& step : in_flight_) {
    for (const Touch& t : step.touches) {
      if (t.group == group && t.block == block && (t.request != work.request || t.choice != work.choice)) {
        return internal_error("writes block " + std::to_string(block) + ", which request " +
                              std::to_string(t.request) + " still uses in step " + std::to_string(step.plan.id));
      }
    }
  }
  return {};
}

Status Simulation::write_row(const Work& work, int32_t at, uint64_t prefix_after, bool keep_state) {
  for (int32_t g = 0; g < memory_.groups(); ++g) {
    const kv::GroupSpec& s = memory_.spec(g);
    const std::span<const kv::BlockId> table = pool_->table(work.seq, g);
    if (s.keep == kv::Keep::kLast) {
      if (keep_state) {
        const kv::BlockId slot = pool_->store_slot(work.seq, g, at + 1);
        if (slot == pool_->load_slot(work.seq, g, work.begin))
          return internal_error("stores into the slot it loads from");
        BORA_TRY(check_write(work, g, slot));
        memory_.cell(g, slot, 0) = prefix_after;
      }
      if (work.snapshot == at + 1) {
        const kv::BlockId slot = pool_->snapshot(work.seq, g, at + 1);
        if (slot >= 0) memory_.cell(g, slot, 0) = prefix_after;
      }
      continue;
    }
    const size_t index = static_cast<size_t>(at / s.block);
    if (index >= table.size() || table[index] < 0)
      return internal_error("writes position " + std::to_string(at) + ", which has no block");
    BORA_TRY(check_write(work, g, table[index]));
    memory_.cell(g, table[index], at % s.block) = prefix_after;
  }
  return {};
}

// Reads everything that the rows see, then writes them one by one.
Status Simulation::run_rows(const Work& work, Client& client, Answer& answer, std::span<const int32_t> inputs,
                            int32_t begin) {
  std::vector<uint64_t> prefix = prefixes(client, answer.tokens);
  // Tokens beyond what the host has read are the device's own picks.
  while (static_cast<int32_t>(prefix.size()) <= begin) {
    prefix.push_back(
        prefix_next(prefix.back(), static_cast<kv::Unit>(next_token(prefix.back(), client.seed, work.choice))));
  }
  for (int32_t g = 0; g < memory_.groups(); ++g) {
    if (memory_.spec(g).keep == kv::Keep::kLast) {
      const kv::BlockId load = pool_->load_slot(work.seq, g, begin);
      if (begin > 0 && load < 0) return internal_error("has no state at position " + std::to_string(begin));
      if (begin > 0 && memory_.cell(g, load, 0) != prefix[static_cast<size_t>(begin)]) {
        return internal_error("loads at position " + std::to_string(begin) + " a state that is not its own");
      }
      continue;
    }
    BORA_TRY(memory_.read(g, pool_->table(work.seq, g), begin, prefix));
  }
  uint64_t p = prefix[static_cast<size_t>(begin)];
  for (size_t i = 0; i < inputs.size(); ++i) {
    p = prefix_next(p, static_cast<kv::Unit>(inputs[i]));
    const bool last = i + 1 == inputs.size();
    BORA_TRY(write_row(work, begin + static_cast<int32_t>(i), p, last || !work.prompt_rows));
  }
  report_.rows += static_cast<int64_t>(inputs.size());
  return {};
}

Status Simulation::note_touches(const Work& work, int32_t end, Launched* step) {
  for (int32_t g = 0; g < memory_.groups(); ++g) {
    if (memory_.spec(g).keep == kv::Keep::kLast) {
      for (kv::BlockId b : pool_->table(work.seq, g)) step->touches.push_back({g, b, work.request, work.choice});
      continue;
    }
    const std::span<const kv::BlockId> table = pool_->table(work.seq, g);
    for (int32_t i = 0; i < static_cast<int32_t>(table.size()) && i * memory_.spec(g).block < end; ++i) {
      // Complete blocks are only read, and only tail blocks are ever written by anybody.
      const bool written = (i + 1) * memory_.spec(g).block > work.begin;
      if (table[static_cast<size_t>(i)] >= 0 && written) {
        step->touches.push_back({g, table[static_cast<size_t>(i)], work.request, work.choice});
      }
    }
  }
  return {};
}

void Simulation::record(Launched* step, Client& client, int32_t choice, std::vector<int32_t> tokens) {
  Answer& a = client.answers[static_cast<size_t>(choice)];
  a.pending = tokens.back();
  bool stopped = false;
  for (size_t i = 0; i < tokens.size() && client.stops; ++i) {
    if (tokens[i] != kStopToken) continue;
    tokens.resize(i + 1);
    stopped = true;
    break;
  }
  step->tokens.push_back(std::move(tokens));
  step->stopped.push_back(stopped);
}

void Simulation::pick_prompt(const Work& work, Client& client, Launched* step) {
  const Answer& first = client.answers[static_cast<size_t>(work.choice)];
  const uint64_t prefix =
      prefixes(client, std::span(first.tokens).first(static_cast<size_t>(work.begin + work.count))).back();
  for (int32_t c = 0; c < work.picks; ++c) {
    const int32_t choice = work.picks > 1 ? c : work.choice;
    client.answers[static_cast<size_t>(choice)].length = work.begin + work.count;
    record(step, client, choice, {next_token(prefix, client.seed, choice)});
  }
}

// Runs the pending token and its drafts; keeps the drafts that the model would have picked itself.
Status Simulation::pick_decode(const Work& work, Client& client, Launched* step) {
  Answer& a = client.answers[static_cast<size_t>(work.choice)];
  const int32_t begin = work.continues ? a.length : work.begin;
  if (!work.continues) a.pending = static_cast<int32_t>(a.tokens.back());
  if (!work.continues && static_cast<int32_t>(a.tokens.size()) != begin + 1) {
    return internal_error("decodes at " + std::to_string(begin) + " with " + std::to_string(a.tokens.size()) +
                          " tokens known");
  }
  if (begin > work.begin) return internal_error("is further on the device than planned");
  std::vector<uint64_t> prefix =
      prefixes(client, std::span(a.tokens).first(std::min(a.tokens.size(), static_cast<size_t>(begin))));
  while (static_cast<int32_t>(prefix.size()) <= begin) {
    prefix.push_back(
        prefix_next(prefix.back(), static_cast<kv::Unit>(next_token(prefix.back(), client.seed, work.choice))));
  }
  std::vector<int32_t> inputs{a.pending}, picked;
  uint64_t p = prefix_next(prefix.back(), static_cast<kv::Unit>(a.pending));
  bool good = true;
  for (int32_t i = 0; i < work.count; ++i) {
    const int32_t token = next_token(p, client.seed, work.choice);
    if (good) picked.push_back(token);
    if (i + 1 == work.count) break;
    const int32_t draft = rng_.chance(config_.draft_good) ? token : (token + 1) % 50;
    good &= draft == token;
    inputs.push_back(draft);
    p = prefix_next(p, static_cast<kv::Unit>(draft));
  }
  BORA_TRY(run_rows(work, client, a, inputs, begin));
  a.length = begin + static_cast<int32_t>(picked.size());
  record(step, client, work.choice, picked);
  return {};
}

Status Simulation::run_work(const Work& work, Launched* step) {
  auto it = clients_.find(work.request);
  if (it == clients_.end()) return internal_error("work for a request that ended");
  Client& client = it->second;
  if (client.paused) return internal_error("work for a paused request");
  Answer& a = client.answers[static_cast<size_t>(work.choice)];
  const int32_t end = work.begin + work.count;
  if (work.count < 1 || end > config_.limits.max_context) return internal_error("rows beyond the context");
  if (pool_->reserved(work.seq) < end) return internal_error("rows beyond what is reserved");
  if (work.prompt_rows) {
    const bool aligned = end % config_.limits.align == 0 || end == static_cast<int32_t>(a.tokens.size());
    if (!aligned) return internal_error("a prefill chunk ends at " + std::to_string(end) + ", not at a legal border");
    if (end > static_cast<int32_t>(a.tokens.size())) return internal_error("prefill beyond the known tokens");
    std::vector<int32_t> inputs;
    for (int32_t p = work.begin; p < end; ++p)
      inputs.push_back(static_cast<int32_t>(a.tokens[static_cast<size_t>(p)]));
    BORA_TRY(run_rows(work, client, a, inputs, work.begin));
    if (work.picks > 0) pick_prompt(work, client, step);
  } else {
    BORA_TRY(pick_decode(work, client, step));
  }
  return note_touches(work, end, step);
}

Status Simulation::launch(StepPlan plan) {
  Launched step;
  for (const kv::BlockCopy& c : plan.copies) memory_.copy(c);
  report_.copies += static_cast<int64_t>(plan.copies.size());
  int32_t rows = 0, picks = 0;
  for (const Work& w : plan.work) {
    const Status s = run_work(w, &step);
    if (!s.ok())
      return s.with_context("request " + std::to_string(w.request) + " choice " + std::to_string(w.choice));
    rows += w.count;
    picks += w.picks;
  }
  if (rows > config_.budget || picks > config_.limits.max_rows)
    return internal_error("the step is larger than allowed");
  if (static_cast<int32_t>(plan.work.size()) > config_.limits.max_seqs)
    return internal_error("more sequences than allowed");
  step.plan = std::move(plan);
  in_flight_.push_back(std::move(step));
  return {};
}

// The oldest step's tokens reach the host.
Status Simulation::deliver() {
  Launched step = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<Outcome> outcomes;
  size_t at = 0;
  for (const Work& w : step.plan.work) {
    const int32_t count = w.picks == 0 ? 0 : w.prompt_rows ? w.picks : 1;
    for (int32_t c = 0; c < count; ++c, ++at) {
      outcomes.push_back({w.request, w.picks > 1 && w.prompt_rows ? c : w.choice, step.tokens[at], step.stopped[at]});
    }
  }
  const std::vector<bool> used = scheduler_->complete(step.plan.id, outcomes);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    auto it = clients_.find(outcomes[i].request);
    if (it == clients_.end() || !used[i]) continue;
    Answer& a = it->second.answers[static_cast<size_t>(outcomes[i].choice)];
    if (a.ended) return internal_error("tokens for a choice that ended");
    a.tokens.insert(a.tokens.end(), outcomes[i].tokens.begin(), outcomes[i].tokens.end());
  }
  return {};
}

Status Simulation::collect_ended() {
  for (const Ended& e : scheduler_->take_ended()) {
    const std::string who = "request " + std::to_string(e.request) + " choice " + std::to_string(e.choice) + " ";
    auto it = clients_.find(e.request);
    if (it == clients_.end()) return internal_error(who + "ended after its request was over");
    Client& c = it->second;
    Answer& a = c.answers[static_cast<size_t>(e.choice)];
    if (a.ended) return internal_error(who + "ended twice");
    a.ended = true;
    const std::vector<int32_t> got(a.tokens.begin() + static_cast<ptrdiff_t>(c.arrival.prompt.size()),
                                   a.tokens.end());
    const bool whole = got == a.expected;
    const bool stopped = c.stops && !got.empty() && got.back() == kStopToken;
    const bool prefix = got.size() <= a.expected.size() && std::equal(got.begin(), got.end(), a.expected.begin());
    switch (e.finish) {
      case Finish::kStop:
        if (!whole || !stopped) return internal_error(who + "stopped with another text than alone");
        ++report_.stopped;
        break;
      case Finish::kLength:
        if (!whole || stopped) return internal_error(who + "ended by length with another text than alone");
        ++report_.by_length;
        break;
      case Finish::kCancelled:
        if (!c.cancelled || !prefix) return internal_error(who + "was cancelled by nobody, or its text differs");
        ++report_.cancelled;
        break;
      case Finish::kDeadline:
        if (c.arrival.deadline_us < 0 || now_us_ <= c.arrival.deadline_us || !prefix)
          return internal_error(who + "expired early");
        ++report_.expired;
        break;
      case Finish::kError:
        return internal_error(who + "failed");
    }
    if (history_.size() < 8) history_.emplace_back();
    history_[static_cast<size_t>(e.request) % history_.size()] = a.tokens;
    if (--c.open > 0) continue;
    report_.most_steps = std::max(report_.most_steps, steps_ - c.born - c.paused_steps);
    clients_.erase(it);
  }
  return {};
}

Status Simulation::step() {
  ++steps_;
  now_us_ += rng_.between(1, 100);
  while (left_ > 0 && rng_.chance(config_.arrive)) arrive();
  disturb();
  transfer();
  BORA_TRY(probe());
  const bool full = static_cast<int32_t>(in_flight_.size()) >= config_.limits.steps_in_flight;
  bool idle = true;
  if (!full && (in_flight_.empty() || rng_.chance(0.7))) {
    StepPlan plan = scheduler_->plan(config_.budget, now_us_);
    idle = plan.work.empty() && plan.copies.empty();
    if (!idle) BORA_TRY(launch(std::move(plan)));
    BORA_TRY(collect_ended());
  }
  if (!in_flight_.empty() && (full || idle || rng_.chance(0.4))) BORA_TRY(deliver());
  BORA_TRY(collect_ended());
  if (steps_ % 64 == 0) {
    BORA_TRY(scheduler_->check());
    for (const auto& [id, c] : clients_) {
      if (c.cancelled) return internal_error("request " + std::to_string(id) + " lives on after its cancel");
      if (steps_ - c.born - c.paused_steps > options_.starvation_steps) {
        const Scheduler::Load l = scheduler_->load();
        std::string usage;
        for (int32_t g = 0; g < memory_.groups(); ++g) {
          const kv::Pool::Usage u = pool_->usage(g);
          usage += "; group " + std::to_string(g) + ": " + std::to_string(u.total) + " blocks, " +
                   std::to_string(u.free) + " free, " + std::to_string(u.owned) + " owned, " +
                   std::to_string(u.cached) + " cached, " + std::to_string(u.waiting) + " waiting, " +
                   std::to_string(u.moving) + " moving";
        }
        return internal_error("request " + std::to_string(id) + " starves: " + std::to_string(l.waiting) +
                              " waiting, " + std::to_string(l.running) + " running, " + std::to_string(l.paused) +
                              " paused" + usage);
      }
    }
  }
  if (steps_ % options_.full_check_every == 0) BORA_TRY(pool_->check());
  return {};
}

// Everything was given back, and the books agree.
Status Simulation::at_end() {
  while (!in_flight_.empty()) BORA_TRY(deliver());
  for (const kv::Move& m : moves_) pool_->moved(m.id, ok_status());
  moves_.clear();
  BORA_TRY(pool_->check());
  BORA_TRY(scheduler_->check());
  for (int32_t g = 0; g < memory_.groups(); ++g) {
    const kv::Pool::Usage u = pool_->usage(g);
    if (u.owned != 0 || u.waiting != 0 || u.moving != 0)
      return internal_error("blocks are held although no request is left");
  }
  const Scheduler::Load load = scheduler_->load();
  report_.mixed_steps += load.mixed_steps;
  report_.preemptions += load.preemptions;
  report_.surplus_rows += load.surplus_rows;
  report_.hit_units += pool_->counters().hits_units;
  report_.evicted += pool_->counters().evicted_blocks;
  report_.steps += steps_;
  return {};
}

Status Simulation::run() {
  std::vector<kv::GroupSpec> told = config_.groups;
  if (options_.mutant.groups) options_.mutant.groups(&told);
  BORA_ASSIGN(pool_, kv::make_pool(told, config_.limits.max_seqs + 4));
  if (options_.mutant.pool) pool_ = options_.mutant.pool(std::move(pool_));
  scheduler_ = make_scheduler(config_.limits, pool_.get());
  if (options_.mutant.scheduler) scheduler_ = options_.mutant.scheduler(std::move(scheduler_));
  Status status;
  while (status.ok() && (left_ > 0 || !clients_.empty())) status = step();
  if (status.ok()) status = at_end();
  return std::move(status).with_context("step " + std::to_string(steps_));
}

}  // namespace

Result<SimReport> simulate(const SimOptions& options) {
  SimReport report;
  constexpr int64_t kPerConfig = 1000;
  Rng seeds(options.seed);
  for (int64_t done = 0; done < options.requests; done += kPerConfig) {
    const uint64_t seed = seeds.next();
    Simulation sim(options, seed, std::min(kPerConfig, options.requests - done), &report);
    BORA_TRY_CONTEXT(sim.run(),
                     "seed " + std::to_string(options.seed) + ", part " + std::to_string(done / kPerConfig));
  }
  return report;
}

}  // namespace bora::sched
