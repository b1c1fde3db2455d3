// Generations: from a checked request to the end of its answer. Submits to the engine, moves events to the client as
// they come, and ends every answer exactly once.
//
// Threads: one dispatcher thread learns from the front end which requests have events; start() runs on the work pool;
// the network threads tell when a client left or reads again. A job's lock orders them. A slow reader's events stay
// in the engine, which pauses that request alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "serve/params.h"
#include "serve/route.h"

namespace bora::serve {

struct Totals {
  int32_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};
Json usage_json(const Totals& totals);

// How an endpoint words its answer. One a request, under the job's lock. With `out` the answer is streamed: events
// are appended to it, preformatted; with null it is collected.
class Shape {
 public:
  virtual ~Shape() = default;
  virtual void open(std::string* out) = 0;
  // A token, or what became certain at the end; `choice` counts over all prompts.
  virtual void token(int32_t choice, const engine::Event& event, const Totals& totals, std::string* out) = 0;
  // `reason`: "stop" or "length".
  virtual void finish(int32_t choice, const engine::Event& event, const Totals& totals, std::string* out) = 0;
  virtual void close(const Totals& totals, std::string* out) = 0;
  virtual Json whole(const Totals& totals) = 0;
  virtual int32_t reasoning_tokens() const { return 0; }
};

// Appends "data: …\n\n".
void append_event(const Json& value, std::string* out);
// The API's error object.
Json error_json(const Fault& fault, int* http_status);

class Generations {
 public:
  explicit Generations(Services* services);
  ~Generations();  // cancels what runs

  // Answers on the responder, now or later.
  void start(Ask ask, std::unique_ptr<Shape> shape, std::shared_ptr<Responder> responder);
  size_t running() const;
  void cancel_all();

 private:
  struct Job;
  struct Part;
  void dispatch();
  void pump(const std::shared_ptr<Job>& job);
  bool pump_once(Job& job, std::string* out);
  void take(Job& job, Part& part, const engine::Event& event, std::string* out);
  void end_part(Job& job, Part& part, const engine::Event& event, std::string* out);
  void fail(Job& job, Fault fault, std::string* out);
  void end(Job& job, std::string* out);
  void report(Job& job);
  void client_left(const std::shared_ptr<Job>& job);

  Services* services_;
  mutable std::mutex mutex_;  // guards jobs_
  std::unordered_map<engine::RequestId, std::shared_ptr<Job>> jobs_;
  std::atomic<bool> stop_{false};
  std::thread dispatcher_;
};

}  // namespace bora::serve
