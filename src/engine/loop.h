// One model's step loop: a thread that takes requests from a bounded inbox, plans, launches and collects steps, and
// turns tokens into events. Private to the module.
//
// Threads: submit, cancel, resume, stats from any; the rest is the loop's own. The lock of the inbox is never held
// while a step is planned or awaited.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/cost.h"
#include "engine/outbox.h"
#include "engine/step.h"

namespace bora::engine {

struct LoopOptions {
  std::string name;
  std::vector<kv::GroupSpec> groups;
  device::Bounds bounds;
  sched::Limits limits;
  int64_t step_target_us = 50'000, stall_timeout_us = 0;
  bool check_books = false;  // whenever no request is left; for tests
};

// All outlive the loop. `waiting` counts requests that were not admitted yet, of all loops.
struct LoopContext {
  const Clock* clock = nullptr;
  Logger* log = nullptr;
  MetricsRegistry* metrics = nullptr;
  Outbox* outbox = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  std::atomic<int32_t>* waiting = nullptr;
};

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> create(const LoopOptions& options, const LoopContext& context,
                                              std::unique_ptr<device::Program> program,
                                              std::unique_ptr<device::Stream> stream);
  ~Loop();

  // kUnavailable when the device is dead.
  Status submit(std::unique_ptr<Live> live);
  void cancel(RequestId id) { post({nullptr, id, -1, false}); }
  void resume(RequestId id) { post({nullptr, -1, id, false}); }
  void cancel_all() { post({nullptr, -1, -1, true}); }
  Stats stats() const;
  int32_t live() const { return live_count_; }

  // For tests, while no request lives: every book agrees and nothing is held.
  struct Books {
    int64_t preemptions = 0, mixed_steps = 0, surplus_rows = 0, hit_units = 0, asked_units = 0;
    int32_t owned_blocks = 0;
    Status check;
  };
  Books books() const;

 private:
  struct Message {
    std::unique_ptr<Live> submit;
    RequestId cancel = -1, resume = -1;
    bool all = false;
  };

  Loop(const LoopOptions& options, const LoopContext& context);
  void post(Message message);
  void run();
  bool take_inbox(bool wait);
  void handle(Message message);
  bool launch_next();
  Status launch(Step* step);
  Status collect_oldest();
  void take_scores(const PickOwner& owner, const device::PickedRow& row);
  bool take_token(const PickOwner& owner, const device::PickedRow& row);
  bool end_text(LiveChoice* c, std::string* piece, std::string* out);
  void fill_logprob(const device::PickedRow& row, Event* event);
  void prompt_event(Live* live, int32_t position, const device::PickedRow* row);
  void take_admissions();
  void take_ended();
  void start(Live* live, int32_t cached, std::string note);
  void finish(Live* live, int32_t choice, Finish how);
  void publish();
  void check_stalls();
  void die(const Status& why);
  int32_t token_budget() const;

  const LoopOptions options_;
  const LoopContext context_;
  std::unique_ptr<kv::Pool> pool_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  std::unique_ptr<device::Program> program_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<StepBuilder> builder_;
  CostTable cost_;

  LiveMap requests_;
  std::vector<Step> steps_;  // a ring
  int64_t launched_ = 0, collected_ = 0;
  sched::StepId completed_ = -1;
  int64_t last_collect_us_ = 0;
  device::StepResult result_;
  std::vector<int32_t> tokens_;
  std::vector<sched::Outcome> outcomes_;
  std::vector<bool> counted_;
  std::vector<Event> events_;
  std::vector<RequestId> full_;
  std::vector<std::pair<sched::StepId, RequestId>> leaving_;  // ended; steps in flight may view them
  std::string piece_;
  bool dead_ = false;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<Message> inbox_;
  bool stop_ = false;
  Status death_;
  Stats stats_;
  Books books_;
  int64_t finished_at_us_ = 0;
  std::atomic<int32_t> live_count_{0};

  Counter preemptions_, asked_, hits_, surplus_, mixed_;
  Histogram step_seconds_;
  Gauge rows_, blocks_free_, blocks_cached_;
  sched::Scheduler::Load reported_;
  kv::Counters reported_kv_;
  std::thread thread_;
};

}  // namespace bora::engine
