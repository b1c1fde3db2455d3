#include "serve/generation.h"

#include <algorithm>

namespace bora::serve {

using engine::Event;

// One prompt of a job: one request of the engine.
struct Generations::Part {
  engine::RequestId id = -1;
  int32_t index = 0;
  int32_t open_choices = 0;
  int32_t prompt_tokens = 0, cached = 0;
};

struct Generations::Job {
  std::mutex mutex;  // guards everything below
  Ask ask;
  std::unique_ptr<Shape> shape;
  std::shared_ptr<Responder> responder;
  std::vector<Part> parts;
  Totals totals;
  std::vector<int64_t> last_token_us;  // a choice
  int64_t submitted_us = 0, started_us = -1, first_us = -1, last_us = -1;
  std::string reason;
  bool opened = false;  // the stream has begun
  bool gone = false;
  bool failed = false;
  bool ended = false;
};

Json usage_json(const Totals& t) {
  Json usage = Json::object(), prompt = Json::object(), completion = Json::object();
  usage.set("prompt_tokens", t.prompt);
  usage.set("completion_tokens", t.completion);
  usage.set("total_tokens", t.prompt + t.completion);
  prompt.set("cached_tokens", t.cached);
  completion.set("reasoning_tokens", t.reasoning);
  usage.set("prompt_tokens_details", std::move(prompt));
  usage.set("completion_tokens_details", std::move(completion));
  return usage;
}

void append_event(const Json& value, std::string* out) {
  *out += "data: ";
  value.dump_to(out);
  *out += "\n\n";
}

Generations::Generations(Services* services) : services_(services), dispatcher_([this] { dispatch(); }) {}

Generations::~Generations() {
  cancel_all();
  stop_ = true;
  dispatcher_.join();
}

size_t Generations::running() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

void Generations::cancel_all() {
  std::vector<engine::RequestId> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, job] : jobs_) ids.push_back(id);
  }
  for (const engine::RequestId id : ids) services_->frontend().cancel(id);
}

void Generations::dispatch() {
  std::vector<engine::RequestId> ids;
  std::vector<std::shared_ptr<Job>> jobs;
  while (!stop_) {
    ids.clear();
    jobs.clear();
    services_->frontend().ready(50'000, &ids);
    {
      std::lock_guard lock(mutex_);
      for (const engine::RequestId id : ids) {
        const auto it = jobs_.find(id);
        // An id that is not listed yet is pumped by start().
        if (it != jobs_.end()) jobs.push_back(it->second);
      }
    }
    std::sort(jobs.begin(), jobs.end());
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
    for (const auto& job : jobs) pump(job);
  }
}

void Generations::start(Ask ask, std::unique_ptr<Shape> shape, std::shared_ptr<Responder> responder) {
  auto job = std::make_shared<Job>();
  std::unique_lock lock(job->mutex);
  job->submitted_us = services_->clock().now_us();
  job->shape = std::move(shape);
  job->responder = std::move(responder);
  job->ask = std::move(ask);
  job->responder->record().model = job->ask.model->name;
  Status refused;
  for (size_t i = 0; i < job->ask.prompts.size() && refused.ok(); ++i) {
    engine::Request request = job->ask.request;
    Part part;
    part.index = static_cast<int32_t>(i);
    part.open_choices = request.choices;
    part.prompt_tokens = static_cast<int32_t>(job->ask.prompts[i].size());
    request.prompt = std::move(job->ask.prompts[i]);
    auto id = services_->frontend().submit(request);
    if (id.ok()) {
      part.id = *id;
      job->totals.prompt += part.prompt_tokens;
      job->parts.push_back(part);
    } else {
      refused = std::move(id).take_status();
    }
  }
  job->last_token_us.assign(job->ask.prompts.size() * static_cast<size_t>(job->ask.request.choices), -1);
  {
    std::lock_guard list(mutex_);
    for (const Part& part : job->parts) jobs_[part.id] = job;
  }
  std::string out;
  if (!refused.ok()) {
    fail(*job, {std::move(refused), "", ""}, nullptr);
  } else if (job->ask.stream) {
    job->opened = job->responder->begin_events();
    job->shape->open(&out);
    job->responder->write_events(out);
  }
  if (job->parts.empty()) return;
  auto responder_copy = job->responder;
  lock.unlock();
  responder_copy->watch([this, job] { client_left(job); }, [this, job] { pump(job); });
  pump(job);
}

void Generations::client_left(const std::shared_ptr<Job>& job) {
  std::vector<engine::RequestId> ids;
  {
    std::lock_guard lock(job->mutex);
    if (job->ended) return;
    job->gone = true;
    for (const Part& part : job->parts) {
      if (part.open_choices > 0) ids.push_back(part.id);
    }
  }
  for (const engine::RequestId id : ids) services_->frontend().cancel(id);
  pump(job);
}

void Generations::pump(const std::shared_ptr<Job>& job) {
  std::lock_guard lock(job->mutex);
  while (!job->ended) {
    if (!job->gone && !job->failed && job->ask.stream && job->responder->full()) return;
    std::string out;
    const bool more = pump_once(*job, job->ask.stream ? &out : nullptr);
    if (!out.empty() && !job->gone) job->responder->write_events(out);
    const bool over =
        std::all_of(job->parts.begin(), job->parts.end(), [](const Part& p) { return p.open_choices == 0; });
    if (over) {
      out.clear();
      end(*job, job->ask.stream ? &out : nullptr);
      return;
    }
    if (!more) return;
  }
}

// Takes what waits of each part. False when nothing did.
bool Generations::pump_once(Job& job, std::string* out) {
  constexpr int32_t kAtOnce = 32;
  bool any = false;
  std::vector<Event> events;
  for (Part& part : job.parts) {
    if (part.open_choices == 0) continue;
    events.clear();
    const bool known = services_->frontend().poll(part.id, kAtOnce, 0, &events);
    for (const Event& event : events) take(job, part, event, out);
    any = any || !events.empty();
    if (!known && events.empty() && part.open_choices > 0) {
      part.open_choices = 0;
      fail(job, {internal_error("the engine lost the request"), "", ""}, out);
    }
  }
  return any;
}

void Generations::take(Job& job, Part& part, const Event& event, std::string* out) {
  const int64_t now = services_->clock().now_us();
  const int32_t choice = part.index * job.ask.request.choices + event.choice;
  const bool quiet = job.gone || job.failed;
  switch (event.kind) {
    case Event::Kind::kStarted:
      if (job.started_us < 0) job.started_us = now;
      part.cached = event.usage.cached_tokens;
      job.totals.cached += part.cached;
      return;
    case Event::Kind::kPrompt:
      if (!quiet) job.shape->token(choice, event, job.totals, out);
      return;
    case Event::Kind::kToken: {
      if (job.first_us < 0) {
        job.first_us = now;
        job.responder->record().first_token_us = now - job.responder->arrived_us();
      }
      int64_t& last = job.last_token_us[static_cast<size_t>(choice)];
      if (last >= 0) services_->metrics().between_tokens(job.ask.model->name, static_cast<double>(now - last) * 1e-6);
      last = job.last_us = now;
      ++job.totals.completion;
      job.totals.reasoning = job.shape->reasoning_tokens();
      if (!quiet) job.shape->token(choice, event, job.totals, out);
      return;
    }
    case Event::Kind::kFinished:
      end_part(job, part, event, out);
      return;
  }
}

void Generations::end_part(Job& job, Part& part, const Event& event, std::string* out) {
  --part.open_choices;
  if (job.gone || job.failed) return;
  switch (event.finish) {
    case engine::Finish::kStop:
    case engine::Finish::kLength: {
      const int32_t choice = part.index * job.ask.request.choices + event.choice;
      if (job.reason.empty()) job.reason = event.finish == engine::Finish::kStop ? "stop" : "length";
      job.shape->finish(choice, event, job.totals, out);
      job.totals.reasoning = job.shape->reasoning_tokens();
      return;
    }
    case engine::Finish::kDeadline:
      return fail(job, {Status(Code::kDeadlineExceeded, "the answer was not complete within deadline_ms"), "", ""},
                  out);
    case engine::Finish::kCancelled:
      return fail(job, {unavailable("the request was cancelled by the server"), "", ""}, out);
    case engine::Finish::kError:
      return fail(job, {internal_error(event.note.empty() ? "the engine failed" : event.note), "", ""}, out);
  }
}

// The answer cannot be completed: says so once and lets the rest of the job run out.
void Generations::fail(Job& job, Fault fault, std::string* out) {
  if (job.failed || job.gone) return;
  job.failed = true;
  job.reason = "error";
  for (const Part& part : job.parts) {
    if (part.open_choices > 0) services_->frontend().cancel(part.id);
  }
  if (job.opened && out != nullptr) {
    int status = 0;
    append_event(error_json(fault, &status), out);
    job.responder->record().finish = "error";
  } else {
    job.responder->record().finish = "error";
    job.responder->error(fault);
  }
}

void Generations::end(Job& job, std::string* out) {
  job.ended = true;
  {
    std::lock_guard lock(mutex_);
    for (const Part& part : job.parts) jobs_.erase(part.id);
  }
  report(job);
  if (!job.gone) {
    if (job.opened) {
      if (!job.failed) job.shape->close(job.totals, out);
      *out += "data: [DONE]\n\n";
      job.responder->write_events(*out);
      job.responder->end_events();
    } else if (!job.failed) {
      job.responder->json(200, job.shape->whole(job.totals));
    }
  }
  job.responder.reset();
}

void Generations::report(Job& job) {
  const auto seconds = [](int64_t from, int64_t to) {
    return from < 0 || to < 0 ? -1.0 : static_cast<double>(to - from) * 1e-6;
  };
  RequestRecord& record = job.responder->record();
  record.prompt_tokens = job.totals.prompt;
  record.cached_tokens = job.totals.cached;
  record.completion_tokens = job.totals.completion;
  record.finish = job.gone ? "abort" : job.reason;
  FinishedRequest f;
  f.model = job.ask.model->name;
  f.reason = record.finish;
  f.prompt_tokens = job.totals.prompt;
  f.cached_tokens = job.totals.cached;
  f.completion_tokens = job.totals.completion;
  f.queue_s = seconds(job.submitted_us, job.started_us);
  f.prefill_s = seconds(job.started_us, job.first_us);
  f.decode_s = seconds(job.first_us, job.last_us);
  f.first_token_s = seconds(job.responder->arrived_us(), job.first_us);
  f.total_s = seconds(job.responder->arrived_us(), services_->clock().now_us());
  services_->metrics().finished(f);
}

}  // namespace bora::serve
