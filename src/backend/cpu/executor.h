// The thread that runs a program's steps: worker 0 of its team. Jobs are numbers counted up from 0; what a number
// means is the poster's business, who keeps it in a ring.
//
// Threads: post and wait_for by one driver; the body runs on the executor, one job at a time, in order. Everything
// written before post is seen by the body, everything the body wrote is seen after wait_for. Both sides look for
// about 20 us and then sleep: an idle program costs no time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace bora::cpu {

class Executor {
 public:
  explicit Executor(std::function<void(uint32_t job)> body);
  // Ends after the jobs that were posted.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void post();
  // Returns when `jobs` have been done since the beginning.
  void wait_for(uint32_t jobs);
  uint32_t posted() const { return posted_.load(std::memory_order_relaxed); }

 private:
  void loop();

  std::function<void(uint32_t)> body_;
  std::atomic<uint32_t> posted_{0};  // jobs; one more at the end, with stop_
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bora::cpu
