#include "engine/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"

namespace bora::engine {
namespace {

constexpr double kRateSeconds = 5;  // over which finished requests are averaged

size_t u(int32_t i) { return static_cast<size_t>(i); }

Finish finish_of(sched::Finish how) {
  switch (how) {
    case sched::Finish::kStop:
      return Finish::kStop;
    case sched::Finish::kLength:
      return Finish::kLength;
    case sched::Finish::kCancelled:
      return Finish::kCancelled;
    case sched::Finish::kDeadline:
      return Finish::kDeadline;
    case sched::Finish::kError:
      break;
  }
  return Finish::kError;
}

Labels of_model(const std::string& name) { return {{"model_name", name}}; }

}  // namespace

Loop::Loop(const LoopOptions& o, const LoopContext& c)
    : options_(o),
      context_(c),
      cost_(o.step_target_us),
      preemptions_(c.metrics->counter("bora_preemptions_total", "Answers put back because the cache ran dry",
                                      of_model(o.name))),
      asked_(c.metrics->counter("bora_prefix_cache_queries_total", "Tokens looked up in the prefix cache",
                                of_model(o.name))),
      hits_(c.metrics->counter("bora_prefix_cache_hits_total", "Tokens found in the prefix cache", of_model(o.name))),
      surplus_(c.metrics->counter("bora_surplus_rows_total", "Rows computed after their answer had ended",
                                  of_model(o.name))),
      mixed_(c.metrics->counter("bora_mixed_steps_total", "Steps with prefill and decode rows", of_model(o.name))),
      step_seconds_(c.metrics->histogram("bora_step_seconds", "Time of a step",
                                         {.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
                                         of_model(o.name))),
      rows_(c.metrics->gauge("bora_step_rows", "Rows of the last step", of_model(o.name))),
      blocks_free_(c.metrics->gauge("bora_cache_blocks_free", "Free cache blocks", of_model(o.name))),
      blocks_cached_(c.metrics->gauge("bora_cache_blocks_cached", "Cache blocks kept for reuse", of_model(o.name))) {}

Result<std::unique_ptr<Loop>> Loop::create(const LoopOptions& options, const LoopContext& context,
                                           std::unique_ptr<device::Program> program,
                                           std::unique_ptr<device::Stream> stream) {
  std::unique_ptr<Loop> loop(new Loop(options, context));
  BORA_ASSIGN(loop->pool_, kv::make_pool(options.groups, options.limits.max_seqs + 4));
  loop->scheduler_ = sched::make_scheduler(options.limits, loop->pool_.get());
  loop->program_ = std::move(program);
  loop->stream_ = std::move(stream);
  loop->builder_ = std::make_unique<StepBuilder>(options.bounds, options.groups, loop->pool_.get());
  loop->steps_.resize(u(options.limits.steps_in_flight));
  for (Step& s : loop->steps_) loop->builder_->reserve(&s);
  loop->tokens_.reserve(u(options.bounds.rows));
  loop->outcomes_.reserve(u(options.bounds.rows));
  loop->thread_ = std::thread([p = loop.get()] { p->run(); });
  return loop;
}

Loop::~Loop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  program_.reset();  // a step that still runs views requests and buffers
}

Status Loop::submit(std::unique_ptr<Live> live) {
  {
    std::lock_guard lock(mutex_);
    if (!death_.ok()) return unavailable(death_.message());
    ++live_count_;
    inbox_.push_back({std::move(live), -1, -1, false});
  }
  wake_.notify_all();
  return {};
}

void Loop::post(Message message) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(message));
  }
  wake_.notify_all();
}

Stats Loop::stats() const {
  std::lock_guard lock(mutex_);
  Stats s = stats_;
  const double age = static_cast<double>(context_.clock->now_us() - finished_at_us_) / 1e6;
  s.finished_per_second *= std::exp(-age / kRateSeconds);
  s.dead = !death_.ok();
  return s;
}

Loop::Books Loop::books() const {
  std::lock_guard lock(mutex_);
  return books_;
}

// False: the loop ends.
bool Loop::take_inbox(bool wait) {
  std::deque<Message> mine;
  {
    std::unique_lock lock(mutex_);
    // Deadlines and stalled readers need a look now and then; without requests nothing does.
    const auto limit = std::chrono::milliseconds(requests_.empty() ? 60'000 : 5);
    if (wait) wake_.wait_for(lock, limit, [this] { return stop_ || !inbox_.empty(); });
    if (stop_) return false;
    mine.swap(inbox_);
  }
  for (Message& m : mine) handle(std::move(m));
  return true;
}

void Loop::handle(Message m) {
  if (m.submit != nullptr) {
    Live* live = m.submit.get();
    sched::Arrival a;
    a.id = live->id;
    a.prompt.assign(live->request.prompt.begin(), live->request.prompt.end());
    a.max_new = std::max(1, live->request.max_tokens);
    a.salt = live->salt;
    a.priority = live->request.priority;
    a.deadline_us = live->deadline_us;
    a.choices = live->request.choices;
    a.prompt_logprobs = live->request.prompt_logprobs >= 0;
    requests_.emplace(live->id, std::move(m.submit));
    Status s = dead_ ? unavailable(death_.message()) : scheduler_->arrive(a, context_.clock->now_us());
    if (!s.ok()) {
      for (LiveChoice& c : live->choices) c.error = s;
      for (int32_t c = 0; c < live->request.choices; ++c) finish(live, c, Finish::kError);
    }
  } else if (m.cancel >= 0) {
    if (!dead_) scheduler_->cancel(m.cancel);
  } else if (m.resume >= 0) {
    auto it = requests_.find(m.resume);
    if (it != requests_.end()) it->second->paused_us = -1;
    if (!dead_) scheduler_->pause(m.resume, false);
  } else if (m.all && !dead_) {
    std::vector<RequestId> ids;
    for (const auto& [id, live] : requests_) ids.push_back(id);
    for (RequestId id : ids) scheduler_->cancel(id);
  }
}

void Loop::run() {
  bool idle = true;
  publish();
  while (take_inbox(idle)) {
    idle = true;
    if (!dead_) {
      check_stalls();
      take_ended();
      const bool room = launched_ - collected_ < options_.limits.steps_in_flight;
      const bool planned = room && launch_next();
      const bool full = launched_ - collected_ == options_.limits.steps_in_flight;
      if (!dead_ && launched_ > collected_ && (full || !planned)) {
        const Status s = collect_oldest();
        if (!s.ok()) die(s);
        idle = false;
      }
      idle = idle && !planned;
    }
    publish();
  }
  // Nothing may be running when the program goes.
  while (!dead_ && launched_ > collected_) {
    Step& s = steps_[static_cast<size_t>(collected_ % static_cast<int64_t>(steps_.size()))];
    if (s.launched && !program_->collect(s.plan.id, &result_).ok()) break;
    ++collected_;
  }
}

int32_t Loop::token_budget() const {
  const sched::Scheduler::Load load = scheduler_->load();
  const int32_t most = options_.limits.max_tokens;
  const int32_t decoding = std::min(load.running, options_.limits.max_seqs);
  return std::min(most, decoding + cost_.prefill_rows(decoding, options_.limits.align, most));
}

// Plans and launches a step; false when there is nothing to do.
bool Loop::launch_next() {
  Step& step = steps_[static_cast<size_t>(launched_ % static_cast<int64_t>(steps_.size()))];
  step.plan = scheduler_->plan(token_budget(), context_.clock->now_us());
  for (const sched::PutBack& p : step.plan.preempted) {
    auto it = requests_.find(p.request);
    if (it != requests_.end()) ++it->second->choices[u(p.choice)].epoch;
  }
  take_admissions();
  take_ended();
  if (step.plan.work.empty() && step.plan.copies.empty()) return false;
  const Status s = launch(&step);
  if (!s.ok()) die(s);
  return true;
}

Status Loop::launch(Step* step) {
  builder_->build(requests_, completed_, step);
  ++launched_;
  step->launched_us = context_.clock->now_us();
  if (!step->launched) return {};
  BORA_TRY(program_->launch("forward", step->patch, *stream_));
  if (!step->picks.empty()) BORA_TRY(program_->launch("pick", step->patch, *stream_));
  return {};
}

Status Loop::collect_oldest() {
  Step& step = steps_[static_cast<size_t>(collected_ % static_cast<int64_t>(steps_.size()))];
  result_.rows.clear();
  if (step.launched) BORA_TRY(program_->collect(step.plan.id, &result_));
  if (result_.rows.size() != step.owners.size()) return internal_error("the device gave another number of picks");
  const int64_t now = context_.clock->now_us();
  if (step.launched) {
    const int64_t took = now - std::max(step.launched_us, last_collect_us_);
    cost_.measured(step.patch.tokens - step.prefill_rows, step.prefill_rows, took);
    step_seconds_.observe(static_cast<double>(took) / 1e6);
    rows_.set(step.patch.tokens);
  }
  last_collect_us_ = now;
  ++collected_;
  completed_ = step.plan.id;
  tokens_.clear();
  outcomes_.clear();
  counted_.clear();
  for (size_t i = 0; i < step.owners.size(); ++i) {
    const PickOwner& o = step.owners[i];
    if (o.target >= 0) {
      take_scores(o, result_.rows[i]);
      continue;
    }
    const bool counts = !o.live->choices[u(o.lead)].ended && o.live->choices[u(o.lead)].epoch == o.epoch;
    const bool stopped = counts && take_token(o, result_.rows[i]);
    tokens_.push_back(std::max(0, result_.rows[i].id));
    outcomes_.push_back({o.live->id, o.choice, {&tokens_.back(), 1}, stopped});
    counted_.push_back(counts);
  }
  if (scheduler_->complete(step.plan.id, outcomes_) != counted_)
    return internal_error("engine and scheduler disagree on which tokens count");
  take_ended();
  return {};
}

void Loop::fill_logprob(const device::PickedRow& row, Event* e) {
  const auto named = [this](int32_t id, float logprob) {
    TokenLogprob t{id, logprob, {}};
    if (context_.tokenizer == nullptr || id < 0) return t;
    t.bytes = context_.tokenizer->token_bytes(id);
    if (t.bytes.empty()) t.bytes = context_.tokenizer->token_text(id);
    return t;
  };
  e->logprob = named(row.id, row.logprob);
  e->top.reserve(u(row.count));
  for (int32_t i = 0; i < row.count; ++i) {
    const device::TokenLogprob& t = result_.top[u(row.first + i)];
    e->top.push_back(named(t.id, t.logprob));
  }
}

void Loop::prompt_event(Live* live, int32_t position, const device::PickedRow* row) {
  Event e;
  e.kind = Event::Kind::kPrompt;
  e.request = live->id;
  e.token = live->request.prompt[u(position)];
  if (row != nullptr) {
    fill_logprob(*row, &e);
  } else {
    e.logprob.id = e.token;
  }
  live->scored = position + 1;
  events_.push_back(std::move(e));
}

// A chunk that is computed again after a put-back was reported before.
void Loop::take_scores(const PickOwner& o, const device::PickedRow& row) {
  if (o.live->open == 0) return;
  if (o.live->scored == 0) prompt_event(o.live, 0, nullptr);
  if (o.target == o.live->scored) prompt_event(o.live, o.target, &row);
}

// Closes a choice's text: what the decoder and the stop strings held back. True: a stop string stood in it.
bool Loop::end_text(LiveChoice* c, std::string* piece, std::string* out) {
  c->closed = true;
  if (c->decoder == nullptr) return false;
  c->decoder->finish(piece);
  const std::string* found = c->stops.push(*piece, out);
  if (found != nullptr) {
    c->stop_reason = *found;
    return true;
  }
  c->stops.flush(out);
  return false;
}

// One token of a choice becomes an event. True: the choice stops with it.
bool Loop::take_token(const PickOwner& o, const device::PickedRow& row) {
  Live& live = *o.live;
  LiveChoice& c = live.choices[u(o.choice)];
  if (row.id < 0) {
    c.error = internal_error("no token can be picked: every one is forbidden or the model gave no number");
    return true;
  }
  if (live.request.prompt_logprobs >= 0 && live.scored == 0) prompt_event(&live, 0, nullptr);
  if (live.request.max_tokens == 0) return false;
  const SamplingParams& p = live.request.sampling;
  c.tokens.push_back(row.id);
  ++c.made;
  Event e;
  e.request = live.id;
  e.choice = o.choice;
  e.token = row.id;
  e.special = context_.tokenizer != nullptr && context_.tokenizer->is_special(row.id);
  if (p.logprobs >= 0) fill_logprob(row, &e);
  bool stopped = live.picks->ends(row.id);
  if (stopped && live.picks->is_stop_token(row.id)) c.stop_reason = std::to_string(row.id);
  const bool last = stopped || c.made >= live.request.max_tokens ||
                    static_cast<int32_t>(c.tokens.size()) >= options_.limits.max_context;
  if (c.decoder != nullptr) {
    piece_.clear();
    if (!stopped) c.decoder->push(row.id, &piece_);
    if (e.special) {  // a stop string does not reach over a control token
      c.stops.flush(&e.text);
    }
    if (last) {
      stopped |= end_text(&c, &piece_, &e.text);
    } else if (c.made <= p.min_tokens) {
      e.text += piece_;
    } else if (const std::string* found = c.stops.push(piece_, &e.text); found != nullptr) {
      stopped = true;
      c.closed = true;
      c.stop_reason = *found;
    }
  }
  events_.push_back(std::move(e));
  return stopped;
}

void Loop::start(Live* live, int32_t cached, std::string note) {
  if (live->counted) {
    live->counted = false;
    --*context_.waiting;
  }
  if (live->started) return;
  live->started = true;
  live->cached = cached;
  Event e;
  e.kind = Event::Kind::kStarted;
  e.request = live->id;
  e.usage.prompt_tokens = live->prompt_tokens();
  e.usage.cached_tokens = cached;
  e.note = std::move(note);
  events_.push_back(std::move(e));
}

void Loop::take_admissions() {
  for (sched::Admission& a : scheduler_->take_admissions()) {
    auto it = requests_.find(a.request);
    if (it != requests_.end()) start(it->second.get(), a.cached_tokens, std::move(a.why_not_longer));
  }
}

void Loop::take_ended() {
  if (dead_) return;
  for (const sched::Ended& e : scheduler_->take_ended()) {
    auto it = requests_.find(e.request);
    if (it != requests_.end()) finish(it->second.get(), e.choice, finish_of(e.finish));
  }
  // A request goes once no step in flight views its numbers.
  for (size_t i = 0; i < leaving_.size();) {
    if (leaving_[i].first > completed_) {
      ++i;
      continue;
    }
    auto it = requests_.find(leaving_[i].second);
    builder_->slots().forget(it->second.get());
    requests_.erase(it);
    leaving_[i] = leaving_.back();
    leaving_.pop_back();
  }
}

void Loop::finish(Live* live, int32_t choice, Finish how) {
  LiveChoice& c = live->choices[u(choice)];
  if (c.ended) return;
  c.ended = true;
  start(live, 0, "not admitted");
  Event e;
  e.kind = Event::Kind::kFinished;
  e.request = live->id;
  e.choice = choice;
  e.usage = {live->prompt_tokens(), live->cached, c.made};
  e.finish = c.error.ok() ? how : Finish::kError;
  if (!c.error.ok()) e.note = c.error.message();
  if (!c.closed) {
    piece_.clear();
    (void)end_text(&c, &piece_, &e.text);
    c.stop_reason.clear();
  }
  e.stop_reason = c.stop_reason;
  events_.push_back(std::move(e));
  if (--live->open > 0) return;
  leaving_.push_back({live->last_step, live->id});
  --live_count_;
  const int64_t now = context_.clock->now_us();
  std::lock_guard lock(mutex_);
  const double age = static_cast<double>(now - finished_at_us_) / 1e6;
  stats_.finished_per_second = stats_.finished_per_second * std::exp(-age / kRateSeconds) + 1 / kRateSeconds;
  finished_at_us_ = now;
}

// Events go out, full boxes pause their requests, and the numbers that others see are renewed.
void Loop::publish() {
  full_.clear();
  context_.outbox->push(&events_, &full_);
  for (RequestId id : full_) {
    auto it = requests_.find(id);
    if (it == requests_.end() || dead_) continue;
    it->second->paused_us = context_.clock->now_us();
    scheduler_->pause(id, true);
  }
  const sched::Scheduler::Load load = scheduler_->load();
  const kv::Counters kv = pool_->counters();
  int32_t owned = 0, cached = 0, free = 0, total = 0;
  for (int32_t g = 0; g < static_cast<int32_t>(options_.groups.size()); ++g) {
    const kv::Pool::Usage use = pool_->usage(g);
    owned += use.owned + use.waiting;
    cached += use.cached;
    free += use.free;
    total += use.total;
  }
  preemptions_.add(static_cast<double>(load.preemptions - reported_.preemptions));
  mixed_.add(static_cast<double>(load.mixed_steps - reported_.mixed_steps));
  surplus_.add(static_cast<double>(load.surplus_rows - reported_.surplus_rows));
  asked_.add(static_cast<double>(kv.asked_units - reported_kv_.asked_units));
  hits_.add(static_cast<double>(kv.hits_units - reported_kv_.hits_units));
  blocks_free_.set(free);
  blocks_cached_.set(cached);
  reported_ = load;
  reported_kv_ = kv;
  std::lock_guard lock(mutex_);
  stats_.running = load.running;
  stats_.waiting = load.waiting + static_cast<int32_t>(inbox_.size());
  stats_.steps = collected_;
  stats_.last_step_us = collected_ > 0 ? last_collect_us_ : -1;
  stats_.kv_used = total > 0 ? static_cast<double>(owned) / total : 0;
  books_ = {load.preemptions, load.mixed_steps, load.surplus_rows, kv.hits_units, kv.asked_units, owned, {}};
  if (options_.check_books && requests_.empty() && !dead_) {
    books_.check = scheduler_->check();
    if (books_.check.ok()) books_.check = pool_->check();
  }
}

void Loop::check_stalls() {
  if (options_.stall_timeout_us <= 0) return;
  const int64_t now = context_.clock->now_us();
  for (const auto& [id, live] : requests_) {
    if (live->paused_us >= 0 && now - live->paused_us > options_.stall_timeout_us) {
      live->paused_us = -1;
      scheduler_->cancel(id);
    }
  }
}

// The device is lost: every request ends with the reason, and later ones are refused.
void Loop::die(const Status& why) {
  dead_ = true;
  context_.log->error("device lost", {{"model", options_.name}, {"why", why.message()}});
  {
    std::lock_guard lock(mutex_);
    death_ = unavailable("the device failed: " + why.message() + "; restart the server");
  }
  std::vector<Live*> all;
  for (const auto& [id, live] : requests_) all.push_back(live.get());
  std::sort(all.begin(), all.end(), [](const Live* a, const Live* b) { return a->id < b->id; });
  for (Live* live : all) {
    for (int32_t c = 0; c < live->request.choices; ++c) {
      if (live->choices[u(c)].ended) continue;
      live->choices[u(c)].error = death_;
      finish(live, c, Finish::kError);
    }
  }
}

}  // namespace bora::engine
