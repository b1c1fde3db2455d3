#include "backend/cpu/team.h"

#include <immintrin.h>

namespace bora::cpu {
namespace {

// About 20 us of pauses, then the kernel is asked to wake us.
constexpr int kSpins = 2000;

template <typename T>
void wait_for_change(std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int32_t workers) : workers_(workers < 1 ? 1 : workers) {
  for (int32_t w = 1; w < workers_; ++w) threads_.emplace_back([this, w] { work(w); });
}

Team::~Team() {
  stop_.store(true, std::memory_order_release);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Team::work(int32_t worker) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(job_, seen);
    ++seen;
    if (stop_.load(std::memory_order_acquire)) return;
    (*body_)(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void Team::run(const std::function<void(int32_t)>& body) {
  body_ = &body;
  running_.store(workers_ - 1, std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  body(0);
  for (int32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_for_change(running_, left);
  }
}

void Team::barrier() {
  if (workers_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == workers_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  wait_for_change(phase_, phase);
}

}  // namespace bora::cpu
