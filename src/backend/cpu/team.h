// The workers of a program: the calling thread is worker 0, the others are threads that sleep between steps and spin,
// for at most 20 us at a time, inside one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace bora::cpu {

class Team {
 public:
  explicit Team(int32_t workers);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int32_t size() const { return workers_; }
  // Runs body(worker) on every worker; returns when all are done. One caller at a time.
  void run(const std::function<void(int32_t)>& body);
  // Inside a body: returns when every worker has come here.
  void barrier();

 private:
  void work(int32_t worker);

  const int32_t workers_;
  std::vector<std::thread> threads_;
  const std::function<void(int32_t)>* body_ = nullptr;
  std::atomic<uint32_t> job_{0};  // counts runs; workers wait for a change
  std::atomic<int32_t> running_{0};
  std::atomic<int32_t> arrived_{0};
  std::atomic<uint32_t> phase_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace bora::cpu
