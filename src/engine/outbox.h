// Events on their way to readers: one bounded box a request. Engines push what a step gave at once; a box that is
// full is said to the engine, which pauses that request alone, and the poll that makes room again says so, too.
//
// Threads: any. Boxes go when their last event was taken.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace bora::engine {

class Outbox {
 public:
  // `resume` is called without a lock when a full box has room again: (engine, request).
  Outbox(int32_t max_events, std::function<void(int32_t, RequestId)> resume)
      : max_events_(max_events), resume_(std::move(resume)) {}

  void open(RequestId id, int32_t choices, int32_t engine);
  void drop(RequestId id);  // it never began
  // Takes the events, in order; *full gets the requests whose boxes are full now (again).
  void push(std::vector<Event>* events, std::vector<RequestId>* full);
  bool poll(RequestId id, int32_t limit, int64_t timeout_us, std::vector<Event>* out);
  void ready(int64_t timeout_us, std::vector<RequestId>* ids);
  // The engine of an open request that was not asked about before, or -1: a cancel is passed on once.
  int32_t cancel(RequestId id);

 private:
  struct Box {
    std::deque<Event> events;
    int32_t engine = 0, open = 0;
    bool listed = false, full = false, cancelled = false;
  };
  const int32_t max_events_;
  const std::function<void(int32_t, RequestId)> resume_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<RequestId, Box> boxes_;
  std::vector<RequestId> ready_;
};

}  // namespace bora::engine
