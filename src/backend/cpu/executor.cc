#include "backend/cpu/executor.h"

#include <immintrin.h>

namespace bora::cpu {
namespace {

constexpr int kSpins = 2000;  // about 20 us of pauses

// Counters wrap; they are never 2^31 apart.
bool reached(uint32_t value, uint32_t goal) { return static_cast<int32_t>(value - goal) >= 0; }

void wait_until(const std::atomic<uint32_t>& value, uint32_t goal) {
  for (int i = 0; i < kSpins; ++i) {
    if (reached(value.load(std::memory_order_acquire), goal)) return;
    _mm_pause();
  }
  while (true) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (reached(now, goal)) return;
    value.wait(now, std::memory_order_acquire);
  }
}

}  // namespace

Executor::Executor(std::function<void(uint32_t)> body) : body_(std::move(body)) {
  thread_ = std::thread([this] { loop(); });
}

Executor::~Executor() {
  wait_for(posted());
  stop_.store(true, std::memory_order_release);
  post();
  thread_.join();
}

void Executor::post() {
  posted_.fetch_add(1, std::memory_order_release);
  posted_.notify_one();
}

void Executor::wait_for(uint32_t jobs) { wait_until(done_, jobs); }

void Executor::loop() {
  for (uint32_t job = 0;; ++job) {
    wait_until(posted_, job + 1);
    if (stop_.load(std::memory_order_acquire)) return;
    body_(job);
    done_.fetch_add(1, std::memory_order_release);
    done_.notify_one();
  }
}

}  // namespace bora::cpu
