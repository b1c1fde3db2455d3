// The work pool: the only place for work above 100 us that is not a step (tokenizing, rendering, compiling grammars,
// hashing). Bounded: a full pool says so at once. Tasks run in the order of submission, `threads` at a time; a task
// must not wait for another task of the same pool.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded.h"
#include "base/status.h"

namespace bora {

class WorkPool {
 public:
  WorkPool(int threads, size_t queue_capacity);
  // Runs what was accepted, then joins.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // kResourceExhausted when the queue is full.
  Status submit(std::function<void()> task);
  size_t waiting() const { return queue_.size(); }

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace bora
