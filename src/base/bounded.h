// Containers with a capacity fixed at construction: what has a limit is reserved from the limit.
//
//   BoundedVector  a vector that refuses to grow past its capacity and never reallocates.
//   BoundedQueue   a blocking queue between threads; full is an answer, not a wait, for producers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace bora {

template <typename T>
class BoundedVector {
 public:
  explicit BoundedVector(size_t capacity) : capacity_(capacity) { items_.reserve(capacity); }

  // False, and nothing changed, when full.
  bool push_back(T item) {
    if (items_.size() == capacity_) return false;
    items_.push_back(std::move(item));
    return true;
  }
  void clear() { items_.clear(); }
  size_t size() const { return items_.size(); }
  size_t capacity() const { return capacity_; }
  bool empty() const { return items_.empty(); }
  T& operator[](size_t i) {
    BORA_DCHECK(i < items_.size(), "index past the end");
    return items_[i];
  }
  const T& operator[](size_t i) const {
    BORA_DCHECK(i < items_.size(), "index past the end");
    return items_[i];
  }
  T* data() { return items_.data(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  size_t capacity_;
  std::vector<T> items_;
};

// Many producers, many consumers. After close(), pushes are refused and pops drain what is left.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when full or closed.
  bool try_push(T item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }
  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return take();
  }
  // Waits until an item or close(). nullopt: closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return take();
  }
  // The same with a time limit; nullopt also when it passes.
  std::optional<T> pop_for(std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, limit, [this] { return closed_ || !items_.empty(); });
    return take();
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  std::optional<T> take() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace bora
