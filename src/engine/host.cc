#include "engine/host.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "base/os/files.h"
#include "base/rng.h"
#include "engine/loop.h"
#include "engine/memory.h"
#include "engine/sizes.h"
#include "engine/weights.h"
#include "formats/checkpoint.h"
#include "model/family.h"

namespace bora::engine {
namespace {

uint64_t hash_text(uint64_t seed, const std::string& text) {
  uint64_t h = mix64(seed + text.size());
  for (char c : text) h = mix64(h ^ static_cast<unsigned char>(c));
  return h;
}

// Everything of one model. The files are mapped as long as the program lives.
struct Entry {
  ModelOptions options;
  std::string state = "loading", detail;
  std::unique_ptr<FileSystem> files = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint;
  model::Model model;
  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<ModelText> text;
  std::vector<int32_t> end_ids;
  Sizes sizes;
  std::unique_ptr<Loop> loop;
};

// Start-up stages in seconds; they add up to the whole.
class Stages {
 public:
  Stages(const Clock* clock, Logger* log, const std::string& model)
      : clock_(*clock), log_(*log), model_(model), begin_(clock->now_us()), last_(begin_) {}
  void done(const char* stage) {
    const int64_t now = clock_.now_us();
    log_.info("start-up", {{"model", model_}, {"stage", stage}, {"seconds", static_cast<double>(now - last_) / 1e6}});
    last_ = now;
  }
  double total() const { return static_cast<double>(last_ - begin_) / 1e6; }

 private:
  const Clock& clock_;
  Logger& log_;
  const std::string& model_;
  int64_t begin_, last_;
};

class HostImpl : public Host {
 public:
  HostImpl(const HostOptions& options, const Context& context)
      : options_(options), context_(context), outbox_(options.max_events, [this](int32_t engine, RequestId id) {
          if (Loop* loop = loop_of(engine)) loop->resume(id);
        }) {}
  ~HostImpl() override {
    for (auto& e : entries_) e->loop.reset();
  }

  Status load(const ModelOptions& options) override;
  const ModelText* text(const std::string& model) const override {
    std::lock_guard lock(mutex_);
    const Entry* e = find(model);
    return e == nullptr || e->loop == nullptr ? nullptr : e->text.get();
  }
  void drain(int64_t limit_us) override;
  Result<RequestId> submit(const Request& request) override;
  void cancel(RequestId id) override {
    const int32_t engine = outbox_.cancel(id);
    if (Loop* loop = loop_of(engine)) loop->cancel(id);
  }
  bool poll(RequestId id, int32_t limit, int64_t timeout_us, std::vector<Event>* out) override {
    return outbox_.poll(id, limit, timeout_us, out);
  }
  void ready(int64_t timeout_us, std::vector<RequestId>* ids) override { outbox_.ready(timeout_us, ids); }
  std::vector<ModelState> models() const override;
  Stats stats() const override;

 private:
  // Under the lock. Empty name: the only model.
  Entry* find(const std::string& name) const {
    if (name.empty()) return entries_.size() == 1 ? entries_[0].get() : nullptr;
    for (const auto& e : entries_) {
      if (e->options.name == name) return e.get();
    }
    return nullptr;
  }
  Loop* loop_of(int32_t engine) const {
    std::lock_guard lock(mutex_);
    return engine < 0 ? nullptr : entries_[static_cast<size_t>(engine)]->loop.get();
  }
  Status fill(Entry* e);
  void log_plan(const Entry& e);
  std::unique_ptr<Live> make_live(const Request& request, const Entry& e, uint64_t seed) const;
  int32_t live() const;

  const HostOptions options_;
  const Context context_;
  Outbox outbox_;
  std::atomic<int32_t> waiting_{0};
  std::atomic<RequestId> next_id_{1};
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;  // only ever grows
};

Status HostImpl::load(const ModelOptions& options) {
  if (options.name.empty()) return invalid_argument("a model needs a name");
  Entry* e = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (find(options.name) != nullptr)
      return Status(Code::kAlreadyExists, "a model named '" + options.name + "' is loaded already");
    entries_.push_back(std::make_unique<Entry>());
    e = entries_.back().get();
    e->options = options;
  }
  Status status = fill(e);
  std::lock_guard lock(mutex_);
  if (!status.ok()) {
    e->state = "failed";
    e->detail = status.message();
  }
  return status;
}

Status HostImpl::fill(Entry* e) {
  Stages stages(context_.clock, context_.log, e->options.name);
  BORA_ASSIGN(e->checkpoint, formats::open_checkpoint(*e->files, e->options.path));
  stages.done("open");
  // The text side and the weights have nothing to do with each other.
  Status text_status;
  std::thread side([&] {
    auto text = load_model_text(*e->checkpoint, e->options.text);
    if (text.ok()) e->text = *std::move(text);
    text_status = text.status();
  });
  std::unique_ptr<device::Program> program;
  Status status = [&]() -> Status {
    BORA_ASSIGN(e->model, model::build_model(*e->checkpoint, {.kv_dtype = e->options.kv_dtype}));
    stages.done("graph");
    BORA_ASSIGN(e->sizes, choose_sizes(*context_.device, e->model, e->options, available_memory()));
    stages.done("plan");
    log_plan(*e);
    e->store = std::make_unique<CheckpointStore>(e->checkpoint.get());
    BORA_ASSIGN(program,
                context_.device->compile(e->model.graph, e->sizes.bounds, {e->store.get(), e->model.bindings}));
    return ok_status();
  }();
  stages.done("weights");
  side.join();
  stages.done("text");
  BORA_TRY(status);
  BORA_TRY(text_status);
  e->end_ids = end_tokens(*e->checkpoint, *e->text->tokenizer, e->model.info.eos);
  std::erase_if(e->end_ids, [e](int32_t id) { return id < 0 || id >= e->model.info.vocab; });
  auto stream = context_.device->stream();
  if (!stream.ok()) return std::move(stream).take_status();
  LoopOptions loop{e->options.name, e->sizes.groups,           e->sizes.bounds,
                   e->sizes.limits, e->options.step_target_us, options_.stall_timeout_us};
  BORA_ASSIGN(auto made, Loop::create(loop,
                                      {context_.clock, context_.log, context_.metrics, &outbox_,
                                       e->text->tokenizer.get(), &waiting_},
                                      std::move(program), *std::move(stream)));
  stages.done("loop");
  context_.log->info("model ready", {{"model", e->options.name}, {"seconds", stages.total()}});
  std::lock_guard lock(mutex_);
  e->loop = std::move(made);
  e->state = "ready";
  return {};
}

void HostImpl::log_plan(const Entry& e) {
  const device::MemoryPlan& p = e.sizes.plan;
  context_.log->info("memory plan", {{"model", e.options.name},
                                     {"context", e.sizes.limits.max_context},
                                     {"cache_blocks", e.sizes.groups.empty() ? 0 : e.sizes.groups[0].blocks},
                                     {"weights_bytes", p.weights},
                                     {"cache_bytes", p.states},
                                     {"workspace_bytes", p.workspace}});
  const std::pair<const char*, uint64_t> parts[] = {
      {"weights", p.weights}, {"cache", p.states}, {"workspace", p.workspace}, {"graphs", p.graphs}};
  for (const auto& [purpose, bytes] : parts) {
    context_.metrics
        ->gauge("bora_memory_plan_bytes", "Bytes reserved by purpose",
                {{"model_name", e.options.name}, {"purpose", purpose}})
        .set(static_cast<double>(bytes));
  }
}

std::unique_ptr<Live> HostImpl::make_live(const Request& request, const Entry& e, uint64_t seed) const {
  auto live = std::make_unique<Live>();
  live->request = request;
  const Request& r = live->request;
  live->picks = std::make_unique<PickStore>(r, seed, e.end_ids, e.text->tokenizer.get());
  live->scoring = live->picks->scoring(r.prompt_logprobs);
  live->open = r.choices;
  // A request that may not look at what others computed gets a root of its own.
  live->salt = hash_text(hash_text(0, e.options.name), r.tenant);
  live->submitted_us = context_.clock->now_us();
  if (r.deadline_us >= 0) live->deadline_us = live->submitted_us + r.deadline_us;
  const size_t most =
      std::min(static_cast<size_t>(e.sizes.limits.max_context), r.prompt.size() + static_cast<size_t>(r.max_tokens)) +
      1;
  for (int32_t i = 0; i < r.choices; ++i) {
    LiveChoice& c = live->choices.emplace_back();
    c.tokens.reserve(most);
    c.tokens = r.prompt;
    c.params = live->picks->params(i);
    c.stops = StopText(r.sampling.stop, r.sampling.include_stop);
    if (!r.text) continue;
    c.decoder =
        i == 0 ? e.text->tokenizer->stream({.skip_special = true}, r.prompt) : live->choices[0].decoder->clone();
  }
  return live;
}

Result<RequestId> HostImpl::submit(const Request& request) {
  Entry* e = nullptr;
  {
    std::lock_guard lock(mutex_);
    e = find(request.model);
    if (e == nullptr) {
      if (request.model.empty()) return invalid_argument("model must be named: several are loaded, or none");
      return not_found("no model is named '" + request.model + "'");
    }
    if (e->loop == nullptr) {
      return unavailable("model '" + e->options.name + "' is " + e->state +
                         (e->detail.empty() ? "" : ": " + e->detail));
    }
  }
  if (draining_) return unavailable("the server is draining: it takes no new requests");
  const sched::Limits& limits = e->sizes.limits;
  BORA_TRY(check_request(request, {e->model.info.vocab, limits.max_context, limits.max_seqs,
                                   limits.max_rows - limits.max_seqs, limits.align}));
  const RequestId id = next_id_++;
  const SamplingParams& p = request.sampling;
  const uint64_t seed = p.has_seed ? p.seed : noise_u64(options_.seed, 0, 0, 0) ^ mix64(static_cast<uint64_t>(id));
  std::unique_ptr<Live> live = make_live(request, *e, seed);
  live->id = id;
  if (!request.use_cache) live->salt = mix64(live->salt ^ mix64(static_cast<uint64_t>(id) + 0x5EEDull));
  if (waiting_.fetch_add(1) >= options_.max_waiting) {
    --waiting_;
    return resource_exhausted("the queue is full (" + std::to_string(options_.max_waiting) +
                              " requests wait); try again later");
  }
  int32_t engine = 0;
  {
    std::lock_guard lock(mutex_);
    while (entries_[static_cast<size_t>(engine)].get() != e) ++engine;
  }
  outbox_.open(id, request.choices, engine);
  const Status s = e->loop->submit(std::move(live));
  if (!s.ok()) {
    --waiting_;
    outbox_.drop(id);
    return s;
  }
  return id;
}

int32_t HostImpl::live() const {
  std::lock_guard lock(mutex_);
  int32_t n = 0;
  for (const auto& e : entries_) n += e->loop != nullptr ? e->loop->live() : 0;
  return n;
}

void HostImpl::drain(int64_t limit_us) {
  draining_ = true;
  const auto wait = [this](int64_t us) {
    for (int64_t left = us; live() > 0 && left > 0; left -= 1000)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait(limit_us);
  if (live() == 0) return;
  {
    std::lock_guard lock(mutex_);
    for (const auto& e : entries_) {
      if (e->loop != nullptr) e->loop->cancel_all();
    }
  }
  wait(5'000'000);  // a step may be under way
}

std::vector<ModelState> HostImpl::models() const {
  std::lock_guard lock(mutex_);
  std::vector<ModelState> out;
  for (const auto& e : entries_) {
    ModelState s{e->options.name, e->state, e->detail, 0, 0};
    if (e->loop != nullptr) {
      s.max_context = e->sizes.limits.max_context;
      s.vocab = e->model.info.vocab;
      if (e->loop->stats().dead) s.state = "failed";
    }
    out.push_back(std::move(s));
  }
  return out;
}

Stats HostImpl::stats() const {
  std::lock_guard lock(mutex_);
  Stats out;
  for (const auto& e : entries_) {
    if (e->loop == nullptr) continue;
    const Stats s = e->loop->stats();
    out.running += s.running;
    out.finished_per_second += s.finished_per_second;
    out.steps += s.steps;
    out.last_step_us = std::max(out.last_step_us, s.last_step_us);
    out.kv_used = std::max(out.kv_used, s.kv_used);
    out.dead |= s.dead;
    out.waiting += s.waiting;
  }
  out.queue_limit = options_.max_waiting;
  out.draining = draining_;
  return out;
}

}  // namespace

Result<std::unique_ptr<Host>> Host::create(const HostOptions& options, const Context& context) {
  if (options.max_waiting < 1) return invalid_argument("max_waiting must be at least 1");
  if (options.max_events < 4) return invalid_argument("max_events must be at least 4");
  return std::unique_ptr<Host>(std::make_unique<HostImpl>(options, context));
}

}  // namespace bora::engine
