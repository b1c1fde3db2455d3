// Time, handed in. Nothing below the composition root reads a system clock; tests and simulations drive a
// ManualClock.
#pragma once

#include <atomic>
#include <cstdint>

namespace bora {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_us() const = 0;        // monotonic, any origin
  virtual int64_t unix_seconds() const = 0;  // wall time
};

// The system's clocks. Stateless; any thread.
class SystemClock : public Clock {
 public:
  int64_t now_us() const override;
  int64_t unix_seconds() const override;
};

// Stands still until told. Any thread.
class ManualClock : public Clock {
 public:
  explicit ManualClock(int64_t now_us = 0, int64_t unix_seconds = 1'700'000'000)
      : now_us_(now_us), unix_origin_(unix_seconds) {}
  int64_t now_us() const override { return now_us_.load(std::memory_order_relaxed); }
  int64_t unix_seconds() const override { return unix_origin_ + now_us() / 1'000'000; }
  void advance_us(int64_t us) { now_us_.fetch_add(us, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_us_;
  int64_t unix_origin_;
};

}  // namespace bora
