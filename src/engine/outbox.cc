#include "engine/outbox.h"

#include <algorithm>
#include <chrono>

namespace bora::engine {

void Outbox::open(RequestId id, int32_t choices, int32_t engine) {
  std::lock_guard lock(mutex_);
  Box& b = boxes_[id];
  b.engine = engine;
  b.open = choices;
}

void Outbox::drop(RequestId id) {
  std::lock_guard lock(mutex_);
  boxes_.erase(id);
}

void Outbox::push(std::vector<Event>* events, std::vector<RequestId>* full) {
  if (events->empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (Event& e : *events) {
      auto it = boxes_.find(e.request);
      if (it == boxes_.end()) continue;
      Box& b = it->second;
      if (!b.listed) ready_.push_back(e.request);
      b.listed = true;
      b.events.push_back(std::move(e));
      if (static_cast<int32_t>(b.events.size()) >= max_events_ && !b.full) {
        b.full = true;
        full->push_back(it->first);
      }
    }
  }
  changed_.notify_all();
  events->clear();
}

bool Outbox::poll(RequestId id, int32_t limit, int64_t timeout_us, std::vector<Event>* out) {
  int32_t resumed = -1;
  {
    std::unique_lock lock(mutex_);
    auto it = boxes_.find(id);
    if (it == boxes_.end()) return false;
    if (it->second.events.empty() && timeout_us > 0) {
      changed_.wait_for(lock, std::chrono::microseconds(timeout_us), [&] {
        it = boxes_.find(id);
        return it == boxes_.end() || !it->second.events.empty();
      });
      if (it == boxes_.end()) return false;
    }
    Box& b = it->second;
    for (int32_t n = 0; n < limit && !b.events.empty(); ++n) {
      b.open -= b.events.front().kind == Event::Kind::kFinished ? 1 : 0;
      out->push_back(std::move(b.events.front()));
      b.events.pop_front();
    }
    if (b.full && static_cast<int32_t>(b.events.size()) <= max_events_ / 2) {
      b.full = false;
      resumed = b.engine;
    }
    if (b.open == 0) {
      if (b.listed) std::erase(ready_, id);
      boxes_.erase(it);
    }
  }
  if (resumed >= 0) resume_(resumed, id);
  return true;
}

void Outbox::ready(int64_t timeout_us, std::vector<RequestId>* ids) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(std::max<int64_t>(0, timeout_us)),
                    [&] { return !ready_.empty(); });
  ids->insert(ids->end(), ready_.begin(), ready_.end());
  for (RequestId id : ready_) {
    auto it = boxes_.find(id);
    if (it != boxes_.end()) it->second.listed = false;
  }
  ready_.clear();
}

int32_t Outbox::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  auto it = boxes_.find(id);
  if (it == boxes_.end() || it->second.cancelled) return -1;
  it->second.cancelled = true;
  return it->second.engine;
}

}  // namespace bora::engine
