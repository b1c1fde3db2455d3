#include "sched/scheduler.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "sched/request.h"

namespace bora::sched {
namespace {

struct PlannedWork {
  Work work;
  Job* job = nullptr;  // null once its request is gone
  int32_t epoch = 0;
};

struct OpenStep {
  StepId id = 0;
  std::vector<PlannedWork> work;
};

constexpr int32_t kSnapshotEvery = 1024;

class SchedulerImpl : public Scheduler {
 public:
  SchedulerImpl(const Limits& limits, kv::Pool* pool) : limits_(limits), pool_(*pool) {}

  Status arrive(const Arrival& arrival, int64_t now_us) override;
  void cancel(RequestId id) override;
  void pause(RequestId id, bool paused) override;
  StepPlan plan(int32_t token_budget, int64_t now_us) override;
  std::vector<bool> complete(StepId step, std::span<const Outcome> outcomes) override;
  std::vector<Ended> take_ended() override { return std::move(ended_); }
  std::vector<Admission> take_admissions() override { return std::move(admissions_); }
  Load load() const override;
  Status check() const override;

 private:
  // Planning.
  void expire(int64_t now_us);
  void plan_decode(StepPlan* plan, int32_t* budget);
  void plan_prefill(StepPlan* plan, int32_t* budget);
  void admit(StepPlan* plan);
  bool admit_one(Job* job);
  bool can_decode(const Job& job) const;
  bool reserve(Job* job, int32_t length, StepPlan* plan);
  Job* victim(const Job& needy) const;
  void preempt(Job* job, StepPlan* plan);
  void add_work(Job* job, Work work, StepPlan* plan);
  int32_t chunk_end(const Job& job, int32_t share) const;
  int32_t rows_left(const StepPlan& plan) const;

  // Outcomes.
  void settle(const PlannedWork& done, std::span<const Outcome> outcomes, std::vector<bool>* used);
  void take_tokens(Job* job, const Outcome& outcome);
  void start_choices(Job* first, std::span<const Outcome> outcomes);
  void finish(Job* job, Finish how);
  void drop_if_done(RequestId id);

  bool live(const Job& job) const { return !job.ended; }
  std::vector<Job*> running_in_order() const;

  const Limits limits_;
  kv::Pool& pool_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::set<Job*, JobBefore> waiting_;
  std::vector<Job*> running_;
  std::deque<OpenStep> steps_;
  StepId next_step_ = 0;
  StepId completed_ = -1;
  StepId releasing_ = -1;  // blocks wait for this step
  int64_t arrivals_ = 0;
  size_t turn_ = 0;                         // who decodes first when the budget is short
  std::vector<kv::BlockCopy> fork_copies_;  // run before the next step
  std::vector<Ended> ended_;
  std::vector<Admission> admissions_;
  Load load_;
};

Status SchedulerImpl::arrive(const Arrival& a, int64_t now_us) {
  if (a.prompt.empty()) return invalid_argument("the prompt is empty");
  if (a.choices < 1 || a.choices > limits_.max_rows) {
    return invalid_argument("choices must be 1 to " + std::to_string(limits_.max_rows) + ", got " +
                            std::to_string(a.choices));
  }
  if (a.max_new < 1) return invalid_argument("max_new must be at least 1, got " + std::to_string(a.max_new));
  if (a.prompt.size() >= static_cast<size_t>(limits_.max_context)) {
    return invalid_argument("the prompt has " + std::to_string(a.prompt.size()) + " tokens, the context holds " +
                            std::to_string(limits_.max_context) + " and needs one for the answer");
  }
  const int32_t spare = limits_.max_rows - limits_.max_seqs * (1 + limits_.max_drafts);
  if (a.prompt_logprobs && spare < limits_.align + a.choices) {
    return invalid_argument("prompt_logprobs needs room for " + std::to_string(limits_.align + a.choices) +
                            " logits rows beside the decoding ones, the step has " + std::to_string(spare));
  }
  if (requests_.count(a.id) != 0) return Status(Code::kAlreadyExists, "request " + std::to_string(a.id) + " exists");
  if (static_cast<int32_t>(waiting_.size()) >= limits_.max_waiting) {
    return resource_exhausted("the queue is full (" + std::to_string(limits_.max_waiting) +
                              " requests); try again later");
  }
  (void)now_us;
  auto request = std::make_unique<RequestState>();
  request->arrival = a;
  request->order = arrivals_++;
  request->open_choices = a.choices;
  for (int32_t c = 0; c < a.choices; ++c) {
    auto job = std::make_unique<Job>();
    job->request = request.get();
    job->choice = c;
    request->jobs.push_back(std::move(job));
  }
  Job* first = request->jobs[0].get();
  first->tokens = a.prompt;
  waiting_.insert(first);
  requests_.emplace(a.id, std::move(request));
  return {};
}

void SchedulerImpl::cancel(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end() || it->second->cancelled) return;
  it->second->cancelled = true;
  for (auto& job : it->second->jobs) {
    if (live(*job)) finish(job.get(), Finish::kCancelled);
  }
  drop_if_done(id);
}

void SchedulerImpl::pause(RequestId id, bool paused) {
  auto it = requests_.find(id);
  if (it != requests_.end()) it->second->paused = paused;
}

// Ends a choice: its blocks go back once the steps in flight that hold work of it are complete.
void SchedulerImpl::finish(Job* job, Finish how) {
  BORA_CHECK(!job->ended, "a choice ends once");
  if (job->seq >= 0) {
    pool_.release(job->seq, job->last_step > completed_ ? job->last_step : -1);
    releasing_ = std::max(releasing_, job->last_step);
    job->seq = -1;
    std::erase(running_, job);
  } else {
    waiting_.erase(job);
  }
  job->ended = true;
  ++job->epoch;
  --job->request->open_choices;
  ended_.push_back({job->request->arrival.id, job->choice, how});
}

// Forgets a request whose choices have all ended; its work in flight is surplus.
void SchedulerImpl::drop_if_done(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end() || it->second->open_choices > 0) return;
  for (OpenStep& step : steps_) {
    for (PlannedWork& w : step.work) {
      if (w.job != nullptr && w.job->request == it->second.get()) w.job = nullptr;
    }
  }
  requests_.erase(it);
}

void SchedulerImpl::expire(int64_t now_us) {
  std::vector<RequestId> late;
  for (const auto& [id, request] : requests_) {
    const int64_t deadline = request->arrival.deadline_us;
    if (deadline >= 0 && now_us > deadline) late.push_back(id);
  }
  std::sort(late.begin(), late.end());
  for (RequestId id : late) {
    for (auto& job : requests_.at(id)->jobs) {
      if (live(*job)) finish(job.get(), Finish::kDeadline);
    }
    drop_if_done(id);
  }
}

std::vector<Job*> SchedulerImpl::running_in_order() const {
  std::vector<Job*> out = running_;
  std::sort(out.begin(), out.end(), JobBefore());
  return out;
}

int32_t SchedulerImpl::rows_left(const StepPlan& plan) const {
  int32_t used = 0;
  for (const Work& w : plan.work) used += w.picks + (w.all_rows ? w.count : 0);
  return limits_.max_rows - used;
}

bool SchedulerImpl::can_decode(const Job& job) const {
  if (job.request->paused || job.prefilling()) return false;
  // The other choices are made from the same logits: wait until they were read.
  if (!job.request->forked && job.request->arrival.choices > 1 && job.in_flight > 0) return false;
  const int32_t room =
      std::min(job.request->arrival.max_new - job.planned_new, limits_.max_context - job.planned - 1);
  return room > 0 && job.planned_new > 0;
}

// Makes room, putting others back if nothing else helps. False: not this time.
bool SchedulerImpl::reserve(Job* job, int32_t length, StepPlan* plan) {
  while (true) {
    if (pool_.reserve(job->seq, length, &plan->copies).ok()) return true;
    if (releasing_ > completed_) return false;  // blocks are on their way back
    Job* out = victim(*job);
    if (out == nullptr) {
      // Nobody younger: this one yields, unless it is alone and everything it needs is its own.
      if (running_.size() > 1) preempt(job, plan);
      return false;
    }
    preempt(out, plan);
    if (releasing_ > completed_) return false;
  }
}

// The last in order behind `needy` that has no work in the step being planned (its blocks could not be reused in it).
Job* SchedulerImpl::victim(const Job& needy) const {
  Job* last = nullptr;
  for (Job* job : running_) {
    if (job == &needy || job->last_step == next_step_) continue;
    // A paused job cannot use what it holds: it goes first, whatever its order.
    const bool idle = job->request->paused;
    if (!idle && !goes_before(needy, *job)) continue;
    const bool last_idle = last != nullptr && last->request->paused;
    if (last == nullptr || (idle && !last_idle) || (idle == last_idle && goes_before(*last, *job))) last = job;
  }
  return last;
}

void SchedulerImpl::preempt(Job* job, StepPlan* plan) {
  pool_.release(job->seq, job->last_step > completed_ ? job->last_step : -1);
  releasing_ = std::max(releasing_, job->last_step);
  job->seq = -1;
  ++job->epoch;
  job->in_flight = 0;
  job->planned = 0;
  job->planned_new = 0;
  std::erase(running_, job);
  waiting_.insert(job);
  plan->preempted.push_back({job->request->arrival.id, job->choice});
  ++load_.preemptions;
}

void SchedulerImpl::add_work(Job* job, Work work, StepPlan* plan) {
  work.request = job->request->arrival.id;
  work.choice = job->choice;
  work.seq = job->seq;
  ++job->in_flight;
  job->last_step = plan->id;
  steps_.back().work.push_back({work, job, job->epoch});
  plan->work.push_back(work);
}

void SchedulerImpl::plan_decode(StepPlan* plan, int32_t* budget) {
  std::vector<Job*> ready;
  for (Job* job : running_in_order()) {
    if (can_decode(*job)) ready.push_back(job);
  }
  // More than the budget holds: take turns.
  const size_t first = ready.empty() || static_cast<int32_t>(ready.size()) <= *budget ? 0 : turn_++ % ready.size();
  for (size_t i = 0; i < ready.size(); ++i) {
    Job* job = ready[(first + i) % ready.size()];
    if (job->seq < 0) continue;  // put back by somebody before it
    const int32_t room =
        std::min(job->request->arrival.max_new - job->planned_new, limits_.max_context - job->planned - 1);
    const int32_t rows = std::min({1 + limits_.max_drafts, room, *budget, rows_left(*plan)});
    if (rows < 1) break;
    if (static_cast<int32_t>(plan->work.size()) >= limits_.max_seqs) break;
    if (!reserve(job, job->planned + rows, plan)) continue;
    Work w;
    w.begin = job->planned;
    w.count = rows;
    w.drafts = rows - 1;
    w.want_logits = true;
    w.picks = rows;
    w.continues = job->in_flight > 0;
    const int32_t end = w.begin + rows;
    if (end / kSnapshotEvery != w.begin / kSnapshotEvery) w.snapshot = end / kSnapshotEvery * kSnapshotEvery;
    add_work(job, w, plan);
    job->planned += rows;
    job->planned_new += rows;
    *budget -= rows;
  }
}

// Where a chunk of at most `share` rows ends: at the prompt's end or a multiple of align; 0 if it may not.
int32_t SchedulerImpl::chunk_end(const Job& job, int32_t share) const {
  int32_t end = std::min(job.prompt_end, job.planned + share);
  if (end < job.prompt_end) end = end / limits_.align * limits_.align;
  return end > job.planned ? end : 0;
}

void SchedulerImpl::plan_prefill(StepPlan* plan, int32_t* budget) {
  std::vector<Job*> ready;
  for (Job* job : running_in_order()) {
    if (job->prefilling() && !job->request->paused) ready.push_back(job);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    Job* job = ready[i];
    if (job->seq < 0) continue;  // put back by somebody before it
    if (static_cast<int32_t>(plan->work.size()) >= limits_.max_seqs) break;
    const bool all_rows = job->request->arrival.prompt_logprobs && job->generated == 0 && !job->request->forked;
    // A fair share of what is left, at least one aligned chunk for whoever goes first.
    int32_t share = *budget / static_cast<int32_t>(ready.size() - i);
    share = std::max(share, std::min(*budget, limits_.align + job->planned % limits_.align));
    if (all_rows) share = std::min(share, rows_left(*plan) - job->request->arrival.choices);
    const int32_t end = chunk_end(*job, share);
    if (end == 0) continue;
    Work w;
    w.begin = job->planned;
    w.count = end - w.begin;
    w.prompt_rows = true;
    const bool last = end == job->prompt_end;
    if (last) w.picks = job->request->forked ? 1 : job->request->arrival.choices;
    if (w.picks > rows_left(*plan)) continue;
    w.want_logits = last || all_rows;
    w.all_rows = all_rows;
    if (!reserve(job, end, plan)) continue;
    const int32_t rounded = job->prompt_end / limits_.align * limits_.align;
    if (rounded > w.begin && rounded <= end)
      w.snapshot = rounded;
    else if (end / kSnapshotEvery != w.begin / kSnapshotEvery)
      w.snapshot = end / kSnapshotEvery * kSnapshotEvery;
    add_work(job, w, plan);
    job->planned = end;
    if (last) job->planned_new = job->generated + 1;
    *budget -= w.count;
  }
}

// Gives a waiting job a sequence, with what the index holds of its tokens.
bool SchedulerImpl::admit_one(Job* job) {
  const int32_t length = static_cast<int32_t>(job->tokens.size());
  const Arrival& a = job->request->arrival;
  // At least one row is computed, for its logits.
  const bool all_rows = a.prompt_logprobs && job->generated == 0 && !job->request->forked;
  const auto usable = std::span(job->tokens).first(all_rows ? 0 : job->tokens.size() - 1);
  const kv::Match m = pool_.match(usable, a.salt);
  if (pool_.missing_blocks(length + 1, m.length) > 0) return false;
  auto seq = pool_.open(usable, a.salt, m.length);
  if (!seq.ok()) return false;
  std::vector<kv::BlockCopy> copies;
  if (!pool_.reserve(*seq, length, &copies).ok()) {
    pool_.release(*seq, -1);
    return false;
  }
  BORA_CHECK(copies.empty(), "a matched prefix ends at a block's border");
  if (job->epoch == 0 && job->choice == 0) admissions_.push_back({a.id, m.length, std::string(m.why_not_longer)});
  waiting_.erase(job);
  running_.push_back(job);
  job->seq = *seq;
  job->planned = m.length;
  job->prompt_end = length;
  return true;
}

void SchedulerImpl::admit(StepPlan* plan) {
  // In order, and nobody overtakes: a large request is not starved by small ones behind it.
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < limits_.max_seqs) {
    auto it = std::find_if(waiting_.begin(), waiting_.end(), [](const Job* j) { return !j->request->paused; });
    if (it == waiting_.end()) return;
    if (admit_one(*it)) continue;
    // Readers that take nothing must not hold what others wait for.
    const auto idle = [this](const Job* j) { return j->request->paused && j->last_step <= completed_; };
    auto held = std::find_if(running_.begin(), running_.end(), idle);
    if (held == running_.end()) return;
    preempt(*held, plan);
  }
}

StepPlan SchedulerImpl::plan(int32_t token_budget, int64_t now_us) {
  BORA_CHECK(static_cast<int32_t>(steps_.size()) < limits_.steps_in_flight, "too many open steps");
  expire(now_us);
  StepPlan out;
  out.id = next_step_;
  out.copies = std::move(fork_copies_);
  fork_copies_.clear();
  steps_.push_back({next_step_, {}});
  int32_t budget = std::min(token_budget, limits_.max_tokens);
  plan_decode(&out, &budget);
  if (out.preempted.empty()) admit(&out);
  plan_prefill(&out, &budget);
  if (out.work.empty() && out.copies.empty()) {
    steps_.pop_back();
    return out;
  }
  bool decode = false, prefill = false;
  for (const Work& w : out.work) (w.prompt_rows ? prefill : decode) = true;
  load_.mixed_steps += decode && prefill ? 1 : 0;
  ++next_step_;
  return out;
}

void SchedulerImpl::take_tokens(Job* job, const Outcome& outcome) {
  const Arrival& a = job->request->arrival;
  const int32_t before = static_cast<int32_t>(job->tokens.size());
  for (int32_t token : outcome.tokens) job->tokens.push_back(static_cast<kv::Unit>(token));
  const int32_t count = static_cast<int32_t>(outcome.tokens.size());
  job->generated += count;
  BORA_CHECK(job->generated <= a.max_new, "more tokens than asked for");
  // The rows of the tokens before the newest one are in the cache now.
  const int32_t computed = before - 1 + count;
  const int32_t have = pool_.confirmed(job->seq);
  if (computed > have) {
    pool_.confirm(job->seq,
                  std::span(job->tokens).subspan(static_cast<size_t>(have), static_cast<size_t>(computed - have)));
  }
  if (outcome.stopped) {
    finish(job, Finish::kStop);
  } else if (job->generated >= a.max_new || static_cast<int32_t>(job->tokens.size()) >= limits_.max_context) {
    finish(job, Finish::kLength);
  }
}

// The prompt's last row gave a token to every choice: the others fork, or wait for room.
void SchedulerImpl::start_choices(Job* first, std::span<const Outcome> outcomes) {
  RequestState& request = *first->request;
  request.forked = true;
  for (size_t c = 1; c < request.jobs.size(); ++c) {
    Job* job = request.jobs[c].get();
    job->tokens = request.arrival.prompt;
    const bool one_is_enough = outcomes[c].stopped || request.arrival.max_new == 1;
    std::vector<kv::BlockCopy> copies;
    if (!one_is_enough && static_cast<int32_t>(running_.size()) < limits_.max_seqs) {
      auto seq = pool_.fork(first->seq, &copies);
      if (seq.ok()) job->seq = *seq;
    }
    if (job->seq >= 0) {
      running_.push_back(job);
      job->prompt_end = static_cast<int32_t>(job->tokens.size());
      job->planned = job->prompt_end;
      job->planned_new = 1;
      fork_copies_.insert(fork_copies_.end(), copies.begin(), copies.end());
      take_tokens(job, outcomes[c]);
      continue;
    }
    for (int32_t token : outcomes[c].tokens) job->tokens.push_back(static_cast<kv::Unit>(token));
    job->generated = static_cast<int32_t>(outcomes[c].tokens.size());
    waiting_.insert(job);
    if (outcomes[c].stopped) {
      finish(job, Finish::kStop);
    } else if (job->generated >= request.arrival.max_new ||
               static_cast<int32_t>(job->tokens.size()) >= limits_.max_context) {
      finish(job, Finish::kLength);
    }
  }
}

void SchedulerImpl::settle(const PlannedWork& done, std::span<const Outcome> outcomes, std::vector<bool>* used) {
  const size_t first = used->size();
  const bool several = done.work.prompt_rows && done.work.picks > 0;
  const size_t count = done.work.picks == 0 ? 0 : several ? static_cast<size_t>(done.work.picks) : 1;
  BORA_CHECK(first + count <= outcomes.size(), "an outcome is missing");
  Job* job = done.job;
  const bool surplus = job == nullptr || job->epoch != done.epoch;
  used->insert(used->end(), count, !surplus);
  if (surplus) {
    load_.surplus_rows += done.work.count;
    return;
  }
  --job->in_flight;
  if (done.work.prompt_rows) {
    const int32_t have = pool_.confirmed(job->seq);
    const int32_t end = done.work.begin + done.work.count;
    pool_.confirm(job->seq,
                  std::span(job->tokens).subspan(static_cast<size_t>(have), static_cast<size_t>(end - have)));
  }
  if (count == 0) return;
  if (several && !job->request->forked) start_choices(job, outcomes.subspan(first, count));
  // Drafts that failed: what is planned from here on begins earlier.
  const int32_t accepted = static_cast<int32_t>(outcomes[first].tokens.size());
  const int32_t fewer = done.work.prompt_rows ? 0 : done.work.count - accepted;
  job->planned -= fewer;
  job->planned_new -= fewer;
  take_tokens(job, outcomes[first]);
}

std::vector<bool> SchedulerImpl::complete(StepId step, std::span<const Outcome> outcomes) {
  BORA_CHECK(!steps_.empty() && steps_.front().id == step, "steps complete in order");
  OpenStep done = std::move(steps_.front());
  steps_.pop_front();
  completed_ = step;
  pool_.step_complete(step);
  std::vector<bool> used;
  std::vector<RequestId> touched;
  for (const PlannedWork& w : done.work) {
    settle(w, outcomes, &used);
    if (w.job != nullptr) touched.push_back(w.work.request);
  }
  BORA_CHECK(used.size() == outcomes.size(), "more outcomes than picks");
  for (RequestId id : touched) drop_if_done(id);
  return used;
}

Scheduler::Load SchedulerImpl::load() const {
  Load l = load_;
  l.waiting = static_cast<int32_t>(waiting_.size());
  l.running = static_cast<int32_t>(running_.size());
  for (const auto& [id, request] : requests_) l.paused += request->paused ? 1 : 0;
  return l;
}

Status SchedulerImpl::check() const {
  size_t running = 0, waiting = 0;
  for (const auto& [id, request] : requests_) {
    int32_t open = 0;
    for (const auto& job : request->jobs) {
      if (job->ended) continue;
      ++open;
      running += job->seq >= 0 ? 1 : 0;
      waiting += waiting_.count(job.get());
      if (job->seq < 0) continue;
      const std::string who = "request " + std::to_string(id) + ": ";
      if (pool_.confirmed(job->seq) > job->planned) return internal_error(who + "confirmed beyond planned");
      if (job->planned > pool_.reserved(job->seq)) return internal_error(who + "planned beyond reserved");
      if (job->planned > limits_.max_context) return internal_error(who + "planned beyond the context");
      if (job->planned_new > request->arrival.max_new)
        return internal_error(who + "planned more tokens than asked for");
    }
    if (open != request->open_choices || open == 0) return internal_error("a request's open choices are miscounted");
  }
  if (running != running_.size() || waiting != waiting_.size())
    return internal_error("a job is lost or listed twice");
  return {};
}

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const Limits& limits, kv::Pool* pool) {
  return std::make_unique<SchedulerImpl>(limits, pool);
}

}  // namespace bora::sched
