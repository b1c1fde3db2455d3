#include "base/work_pool.h"

namespace bora {

WorkPool::WorkPool(int threads, size_t queue_capacity) : queue_(queue_capacity) {
  BORA_CHECK(threads > 0, "a work pool needs a thread");
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      while (auto task = queue_.pop()) (*task)();
    });
  }
}

WorkPool::~WorkPool() {
  queue_.close();
  for (std::thread& t : threads_) t.join();
}

Status WorkPool::submit(std::function<void()> task) {
  if (!queue_.try_push(std::move(task))) {
    return resource_exhausted("the work queue is full (" + std::to_string(queue_.capacity()) +
                              " tasks); try again later");
  }
  return {};
}

}  // namespace bora
