// Models on the CPU through a Host: an answer's text and log-probabilities are the same to the bit alone, among
// others that come and go, and with a cold or warm prefix cache.
#include "engine/host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "app/backends.h"
#include "base/rng.h"

namespace bora::app {
namespace {

std::string model_path(const std::string& name) {
  if (name == "default") {
    const char* given = std::getenv("BORA_TEST_MODEL");
    return given != nullptr ? given : BORA_SOURCE_DIR "/build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  const char* root = std::getenv("BORA_FIXTURES");
  const std::string dir = std::string(root ? root : BORA_SOURCE_DIR "/../shared") + "/fixtures/families/" + name;
  return name.rfind("gguf-", 0) == 0 ? dir + "/model.gguf" : dir + "/model.safetensors";
}

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  engine::Finish finish = engine::Finish::kError;
  std::string note;
  int32_t cached = 0;
  bool operator==(const Answer& o) const {
    return text == o.text && ids == o.ids && logprobs == o.logprobs && finish == o.finish;
  }
};

struct Running {
  engine::Request request;
  std::vector<Answer> answers;
  bool cancelled = false;
};

class HostOnCpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = model_path(GetParam());
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "model " << GetParam() << " is absent: " << path;
    auto device = open_device("cpu", {2, ""});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *std::move(device);
    host_ = *engine::Host::create({}, {device_.get(), &clock_, log_.get(), &metrics_});
    engine::ModelOptions options;
    options.name = "m";
    options.path = path;
    options.max_context = 256;
    options.max_batch = 8;
    options.max_batch_tokens = 160;
    const Status s = host_->load(options);
    ASSERT_TRUE(s.ok()) << s.message();
    vocab_ = host_->models()[0].vocab;
  }
  // Takes what is there; true once it is over.
  bool poll(engine::RequestId id, Running* r, int64_t timeout_us) {
    std::vector<engine::Event> events;
    const bool known = host_->poll(id, 256, timeout_us, &events);
    for (const engine::Event& e : events) {
      Answer& a = r->answers[static_cast<size_t>(e.choice)];
      a.text += e.text;
      if (e.kind == engine::Event::Kind::kStarted) a.cached = e.usage.cached_tokens;
      if (e.kind == engine::Event::Kind::kToken) {
        a.ids.push_back(e.token);
        a.logprobs.push_back(e.logprob.logprob);
        for (const engine::TokenLogprob& t : e.top) a.logprobs.push_back(t.logprob);
      }
      if (e.kind == engine::Event::Kind::kFinished) {
        a.finish = e.finish;
        a.note = e.note;
      }
    }
    return !known;
  }
  Running run(engine::Request request) {
    Running r;
    r.request = std::move(request);
    r.answers.resize(static_cast<size_t>(r.request.choices));
    auto id = host_->submit(r.request);
    EXPECT_TRUE(id.ok()) << id.status().message();
    while (id.ok() && !poll(*id, &r, 1'000'000)) {
    }
    return r;
  }
  engine::Request make(Rng* rng, int32_t shared) {
    engine::Request r;
    Rng common(3);
    for (int32_t i = 0; i < shared; ++i)
      r.prompt.push_back(static_cast<int32_t>(common.below(static_cast<uint64_t>(vocab_))));
    for (int64_t n = rng->between(1, 30); n > 0; --n)
      r.prompt.push_back(static_cast<int32_t>(rng->below(static_cast<uint64_t>(vocab_))));
    r.max_tokens = static_cast<int32_t>(rng->between(4, 24));
    r.sampling.temperature = rng->chance(0.5) ? 0.f : 1.f;
    r.sampling.repetition_penalty = rng->chance(0.5) ? 1.f : 1.2f;
    r.sampling.has_seed = true;
    r.sampling.seed = rng->next();
    r.sampling.logprobs = 2;
    r.sampling.ignore_eos = true;
    r.choices = rng->chance(0.3) ? 2 : 1;
    return r;
  }

  SystemClock clock_;
  std::unique_ptr<Logger> log_ = make_null_logger();
  MetricsRegistry metrics_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<engine::Host> host_;
  int32_t vocab_ = 0;
};

TEST_P(HostOnCpu, AnswersAreTheSameAloneAmongOthersColdAndWarm) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  std::vector<Running> alone;
  for (int i = 0; i < 6; ++i) {
    engine::Request r = make(&rng, i % 3 * 40);
    r.use_cache = false;
    alone.push_back(run(r));
    ASSERT_EQ(alone.back().answers[0].finish, engine::Finish::kLength) << alone.back().answers[0].note;
    EXPECT_EQ(alone.back().answers[0].cached, 0);
  }
  // The same ones again and again, with strangers that are cancelled or longer beside them.
  std::map<engine::RequestId, std::pair<Running, const Running*>> open;
  int32_t started = 0, compared = 0, warm = 0;
  while (started < 40 || !open.empty()) {
    while (started < 40 && open.size() < 10) {
      const Running* twin = rng.chance(0.6) ? &alone[rng.below(alone.size())] : nullptr;
      Running r;
      r.request = twin != nullptr ? twin->request : make(&rng, 40);
      r.request.use_cache = true;
      r.answers.resize(static_cast<size_t>(r.request.choices));
      auto id = host_->submit(r.request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      open.emplace(*id, std::pair(std::move(r), twin));
      ++started;
    }
    for (auto it = open.begin(); it != open.end();) {
      auto& [r, twin] = it->second;
      if (twin == nullptr && rng.chance(0.02)) host_->cancel(it->first);
      if (!poll(it->first, &r, 200)) {
        ++it;
        continue;
      }
      if (twin != nullptr) {
        for (size_t c = 0; c < r.answers.size(); ++c) {
          ASSERT_EQ(r.answers[c].ids, twin->answers[c].ids);
          ASSERT_TRUE(r.answers[c] == twin->answers[c]) << "text or log-probabilities differ";
        }
        ++compared;
        warm += r.answers[0].cached > 0 ? 1 : 0;
      }
      it = open.erase(it);
    }
  }
  const double mixed =
      metrics_.counter("bora_mixed_steps_total", "Steps with prefill and decode rows", {{"model_name", "m"}}).value();
  std::printf("%d answers equal, %d of them from a warm cache, %.0f mixed steps\n", compared, warm, mixed);
  EXPECT_GT(compared, 10);
  EXPECT_GT(warm, 3);
  EXPECT_GT(mixed, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, HostOnCpu,
                         testing::Values("llama-gqa-llama3-tied", "gemma3-text", "qwen3-dense", "gguf-llama-q4_0",
                                         "default"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace bora::app
