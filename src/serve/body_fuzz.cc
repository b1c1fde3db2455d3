// Bodies of the generating routes, from bytes to what the engine would get: an answer of 200 or 4xx, never 5xx, and
// never a request that breaks the engine's bounds.
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "serve/fake_frontend.h"
#include "serve/generation.h"
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {
namespace {

// Checks what arrives and answers at once.
class Checking : public engine::Frontend {
 public:
  Result<engine::RequestId> submit(const engine::Request& r) override {
    BORA_CHECK(!r.prompt.empty() && r.choices >= 1 && r.choices <= 8 && r.max_tokens >= 0, "shape");
    for (const int32_t id : r.prompt) BORA_CHECK(id >= 0 && id < test::kVocab, "prompt id");
    BORA_CHECK(static_cast<int64_t>(r.prompt.size()) + r.max_tokens <= 4096, "context");
    const engine::SamplingParams& s = r.sampling;
    BORA_CHECK(s.temperature >= 0 && s.temperature <= 2 && s.top_p > 0 && s.top_p <= 1, "sampling");
    BORA_CHECK(s.repetition_penalty > 0 && s.stop.size() <= 16 && s.min_tokens <= r.max_tokens, "sampling");
    for (const auto& [id, bias] : s.logit_bias)
      BORA_CHECK(id >= 0 && id < test::kVocab && bias >= -100 && bias <= 100, "bias");
    return resource_exhausted("full");
  }
  void cancel(engine::RequestId) override {}
  bool poll(engine::RequestId, int32_t, int64_t, std::vector<engine::Event>*) override { return false; }
  void ready(int64_t, std::vector<engine::RequestId>* ids) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ids->clear();
  }
  std::vector<engine::ModelState> models() const override { return {}; }
  engine::Stats stats() const override { return {}; }
};

class Recorder : public Responder {
 public:
  explicit Recorder(int* status) : status_(status) {}
  void json(int status, const Json& body) override {
    *status_ = status;
    body.dump();
  }
  void text(int status, std::string_view, std::string_view) override { *status_ = status; }
  void error(const Fault& fault) override { error_json(fault, status_); }
  void header(std::string_view, std::string_view value) override {
    for (const char c : value) BORA_CHECK(c >= ' ' && c <= '~', "a header holds a control character");
  }
  bool begin_events() override { return true; }
  bool write_events(std::string_view) override { return true; }
  void end_events() override {}
  bool full() const override { return false; }
  bool client_gone() const override { return false; }
  void watch(std::function<void()>, std::function<void()>) override {}
  RequestRecord& record() override { return record_; }
  int64_t arrived_us() const override { return 0; }

 private:
  int* status_;
  RequestRecord record_;
};

struct World {
  Checking frontend;
  ManualClock clock;
  std::unique_ptr<Logger> log = make_null_logger();
  MetricsRegistry registry;
  std::unique_ptr<engine::ModelText> text = test::make_text();
  Services services{{}, {&frontend, &clock, log.get(), &registry}};
  World() { services.add_model({"test-model", text.get(), 4096, 0, false}); }
};

}  // namespace
}  // namespace bora::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bora::serve;
  static World world;
  if (size < 1) return 0;
  const std::string_view paths[] = {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"};
  for (const Route* route : routes()) {
    if (route->path != paths[data[0] % 4]) continue;
    HttpRequest request;
    request.method = route->method;
    request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
    int status = 0;
    route->handle(world.services, request, std::make_shared<Recorder>(&status));
    BORA_CHECK(status == 200 || (status >= 400 && status < 500), "neither an answer nor a refusal");
  }
  return 0;
}
