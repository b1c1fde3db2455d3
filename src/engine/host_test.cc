// Requests through a Host on the fake device: every answer equals that of its request alone, whatever happens beside.
#include "engine/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "base/rng.h"
#include "device/fake.h"
#include "engine/tiny_model_for_test.h"

namespace bora::engine {
namespace {

using testing::kTinyEos;
using testing::kTinyMark;
using testing::kTinyVocab;

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  Finish finish = Finish::kError;
  std::string stop_reason, note;
  Usage usage;
  int32_t finished = 0;
  bool started_first = true;
};

struct Result1 {
  std::vector<Answer> choices;
  std::vector<Event> prompt;
  int32_t started = 0;
  Usage at_start;
};

void add(const Event& e, Result1* r) {
  Answer& a = r->choices[static_cast<size_t>(e.choice)];
  if (e.kind == Event::Kind::kStarted) {
    ++r->started;
    r->at_start = e.usage;
    return;
  }
  EXPECT_EQ(r->started, 1) << "kStarted comes first, once";
  EXPECT_EQ(a.finished, 0) << "nothing follows kFinished";
  a.text += e.text;
  if (e.kind == Event::Kind::kPrompt) r->prompt.push_back(e);
  if (e.kind == Event::Kind::kToken) {
    a.ids.push_back(e.token);
    a.logprobs.push_back(e.logprob.logprob);
  }
  if (e.kind == Event::Kind::kFinished) {
    ++a.finished;
    a.finish = e.finish;
    a.stop_reason = e.stop_reason;
    a.note = e.note;
    a.usage = e.usage;
  }
}

class HostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("bora-engine-" + std::to_string(::getpid()));
    path_ = testing::write_tiny_model(dir_);
    options_.name = "tiny";
    options_.path = path_;
    options_.max_batch = 6;
    options_.max_batch_tokens = 96;
    options_.step_target_us = 10'000;
  }
  void TearDown() override {
    host_.reset();
    std::filesystem::remove_all(dir_);
  }
  void start() {
    device_ = device::make_fake_device(fake_, &control_);
    auto host = Host::create(host_options_, {device_.get(), &clock_, log_.get(), &metrics_});
    ASSERT_TRUE(host.ok()) << host.status().message();
    host_ = *std::move(host);
    const Status s = host_->load(options_);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  Result1 run(const Request& r, int64_t limit_us = 10'000'000) {
    auto id = host_->submit(r);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? read(*id, r.choices, limit_us) : Result1{};
  }
  Result1 read(RequestId id, int32_t choices, int64_t limit_us = 10'000'000) {
    Result1 out;
    out.choices.resize(static_cast<size_t>(choices));
    std::vector<Event> events;
    const int64_t end = clock_.now_us() + limit_us;
    while (clock_.now_us() < end && host_->poll(id, 64, 100'000, &events)) {
      for (const Event& e : events) add(e, &out);
      events.clear();
    }
    return out;
  }
  double counter(const char* name, const char* help) {
    return metrics_.counter(name, help, {{"model_name", "tiny"}}).value();
  }
  double preemptions() { return counter("bora_preemptions_total", "Answers put back because the cache ran dry"); }
  double mixed() { return counter("bora_mixed_steps_total", "Steps with prefill and decode rows"); }
  double hits() { return counter("bora_prefix_cache_hits_total", "Tokens found in the prefix cache"); }
  double surplus() { return counter("bora_surplus_rows_total", "Rows computed after their answer had ended"); }
  void expect_idle() {
    for (int i = 0; i < 2000 && (host_->stats().running > 0 || host_->stats().kv_used > 0); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(host_->stats().running, 0);
    EXPECT_EQ(host_->stats().waiting, 0);
    EXPECT_EQ(host_->stats().kv_used, 0) << "blocks are held although no request is left";
  }

  // What the request gives alone, by its definition.
  Answer alone(const Request& r, int32_t choice) {
    Answer out;
    ir::PickParams p;
    p.temperature = r.sampling.temperature;
    p.seed = r.sampling.seed;
    p.choice = choice;
    p.banned = r.sampling.banned_tokens;
    p.allowed = r.sampling.allowed_tokens;
    p.min_tokens = r.sampling.min_tokens;
    std::vector<int32_t> ends = r.sampling.stop_tokens;
    if (!r.sampling.ignore_eos) ends.push_back(kTinyEos);
    p.end_ids = ends;
    std::vector<int32_t> ids = r.prompt;
    auto decoder = host_->text("tiny")->tokenizer->stream({.skip_special = true}, r.prompt);
    const int32_t prompt = static_cast<int32_t>(r.prompt.size());
    out.finish = Finish::kLength;
    std::string held;  // text since the last control token: stop strings do not reach over one
    const auto stop_in = [&]() -> bool {
      if (static_cast<int32_t>(out.ids.size()) <= r.sampling.min_tokens) return false;
      size_t end = std::string::npos;
      std::string which;
      for (const std::string& s : r.sampling.stop) {
        const size_t at = held.find(s);
        if (at == std::string::npos || at + s.size() > end || (at + s.size() == end && s.size() < which.size()))
          continue;
        end = at + s.size();
        which = s;
      }
      if (which.empty()) return false;
      held.resize(r.sampling.include_stop ? end : end - which.size());
      out.stop_reason = which;
      return true;
    };
    while (static_cast<int32_t>(out.ids.size()) < r.max_tokens && static_cast<int32_t>(ids.size()) < 256) {
      const int32_t id = device::fake_next(fake_, ids, p, prompt);
      ids.push_back(id);
      out.ids.push_back(id);
      if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
        out.finish = Finish::kStop;
        break;
      }
      if (id < 4) {
        out.text += held;
        held.clear();
      }
      decoder->push(id, &held);
      if (static_cast<int32_t>(out.ids.size()) <= r.sampling.min_tokens) {
        out.text += held;
        held.clear();
      }
      if (stop_in()) {
        out.finish = Finish::kStop;
        out.text += held;
        return out;
      }
    }
    decoder->finish(&held);
    if (stop_in()) out.finish = Finish::kStop;
    out.text += held;
    return out;
  }

  Request random_request(Rng* rng, const std::vector<std::vector<int32_t>>& families) {
    Request r;
    const auto& family = families[rng->below(families.size())];
    const size_t shared = rng->below(family.size() + 1);
    r.prompt.assign(family.begin(), family.begin() + static_cast<ptrdiff_t>(shared));
    for (uint64_t n = 1 + rng->below(30); n > 0; --n) r.prompt.push_back(static_cast<int32_t>(4 + rng->below(60)));
    r.max_tokens = static_cast<int32_t>(rng->between(1, 60));
    r.sampling.temperature = rng->chance(0.5) ? 0.f : 1.f;
    r.sampling.has_seed = true;
    r.sampling.seed = rng->next();
    r.choices = rng->chance(0.25) ? static_cast<int32_t>(rng->between(2, 4)) : 1;
    r.sampling.ignore_eos = rng->chance(0.5);
    if (rng->chance(0.3)) r.sampling.stop = {"ab", "stop", "é"};
    if (rng->chance(0.2)) r.sampling.min_tokens = static_cast<int32_t>(rng->below(10));
    if (rng->chance(0.2)) r.sampling.banned_tokens = {5, 6, 7};
    if (rng->chance(0.2)) r.sampling.stop_tokens = {static_cast<int32_t>(4 + rng->below(60))};
    if (rng->chance(0.2)) r.sampling.logprobs = static_cast<int32_t>(rng->below(4));
    if (rng->chance(0.1)) r.prompt_logprobs = static_cast<int32_t>(rng->below(3));
    r.sampling.include_stop = rng->chance(0.3);
    r.priority = static_cast<int32_t>(rng->below(3));
    return r;
  }

  std::filesystem::path dir_;
  std::string path_;
  SystemClock clock_;
  std::unique_ptr<Logger> log_ = make_null_logger();
  MetricsRegistry metrics_;
  device::FakeControl control_;
  device::FakeOptions fake_;  // its vocabulary is as large as the tiny model's
  std::unique_ptr<device::Device> device_;
  HostOptions host_options_;
  ModelOptions options_;
  std::unique_ptr<Host> host_;
};

Request simple(std::vector<int32_t> prompt, int32_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  return r;
}

std::vector<int32_t> numbers(int32_t n, int32_t from = 0) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < n; ++i) out.push_back(4 + (from + i * 7) % 60);
  return out;
}

TEST_F(HostTest, EveryAnswerEqualsItsSoloRun) {
  options_.kv_memory = 1 << 16;
  fake_.block_bytes = 2000;  // 32 blocks: six sequences of 100 positions do not fit
  host_options_.max_events = 24;
  control_.delay_us = 100;
  start();
  const uint64_t seed = static_cast<uint64_t>(std::random_device{}());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  std::vector<std::vector<int32_t>> families;
  for (int f = 0; f < 3; ++f) families.push_back(numbers(80, f * 13));
  struct Open {
    Request request;
    Result1 result;
    bool cancelled = false, slow = false;
  };
  std::map<RequestId, Open> open;
  int32_t left = 600, whole = 0, cancelled = 0, stopped = 0;
  while (left > 0 || !open.empty()) {
    while (left > 0 && open.size() < 14 && rng.chance(0.5)) {
      Open o;
      o.request = random_request(&rng, families);
      o.result.choices.resize(static_cast<size_t>(o.request.choices));
      o.slow = rng.chance(0.2);
      auto id = host_->submit(o.request);
      ASSERT_TRUE(id.ok()) << id.status().message();
      open.emplace(*id, std::move(o));
      --left;
    }
    for (auto it = open.begin(); it != open.end();) {
      Open& o = it->second;
      if (!o.cancelled && rng.chance(0.002)) {
        o.cancelled = true;
        host_->cancel(it->first);
      }
      std::vector<Event> events;
      if (o.slow && !rng.chance(0.05) && left > 0) {
        ++it;
        continue;
      }
      const bool known = host_->poll(it->first, 16, 50, &events);
      for (const Event& e : events) add(e, &o.result);
      if (known) {
        ++it;
        continue;
      }
      for (int32_t c = 0; c < o.request.choices; ++c) {
        const Answer& got = o.result.choices[static_cast<size_t>(c)];
        const Answer want = alone(o.request, c);
        ASSERT_EQ(got.finished, 1);
        EXPECT_EQ(got.usage.prompt_tokens, static_cast<int32_t>(o.request.prompt.size()));
        EXPECT_EQ(got.usage.completion_tokens, static_cast<int32_t>(got.ids.size()));
        EXPECT_EQ(got.usage.cached_tokens, o.result.at_start.cached_tokens);
        if (got.finish == Finish::kCancelled) {
          ASSERT_TRUE(o.cancelled);
          ASSERT_LE(got.ids.size(), want.ids.size());
          ASSERT_TRUE(std::equal(got.ids.begin(), got.ids.end(), want.ids.begin()));
          ++cancelled;
          continue;
        }
        ASSERT_EQ(got.finish, want.finish) << got.note;
        ASSERT_EQ(got.ids, want.ids);
        ASSERT_EQ(got.text, want.text);
        if (!want.stop_reason.empty()) {
          ASSERT_EQ(got.stop_reason, want.stop_reason);
        }
        stopped += got.finish == Finish::kStop ? 1 : 0;
        ++whole;
      }
      if (o.request.prompt_logprobs >= 0 && !o.cancelled) {
        ASSERT_EQ(o.result.prompt.size(), o.request.prompt.size());
        for (size_t i = 0; i < o.request.prompt.size(); ++i) {
          ASSERT_EQ(o.result.prompt[i].token, o.request.prompt[i]);
          if (i > 0) {
            ASSERT_EQ(o.result.prompt[i].top.size(), static_cast<size_t>(o.request.prompt_logprobs));
          }
        }
      }
      it = open.erase(it);
    }
  }
  expect_idle();
  std::printf(
      "%d answers whole, %d stopped, %d cancelled; %.0f put back, %.0f mixed steps, %.0f tokens from the cache, %.0f "
      "surplus rows, %d in flight\n",
      whole, stopped, cancelled, preemptions(), mixed(), hits(), surplus(), control_.most_in_flight.load());
  EXPECT_GT(whole, 400);
  EXPECT_GT(stopped, 50);
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(preemptions(), 0);
  EXPECT_GT(mixed(), 0);
  EXPECT_GT(hits(), 0);
  EXPECT_GT(surplus(), 0);
  EXPECT_EQ(control_.most_in_flight, 2);
}

TEST_F(HostTest, UsageIsExact) {
  start();
  const Result1 cold = run(simple(numbers(50), 10)), warm = run(simple(numbers(50), 10));
  EXPECT_EQ(cold.at_start.cached_tokens, 0);
  EXPECT_EQ(warm.at_start.cached_tokens, 48);  // whole blocks before the last token
  for (const Result1* r : {&cold, &warm}) {
    EXPECT_EQ(r->choices[0].usage.prompt_tokens, 50);
    EXPECT_EQ(r->choices[0].usage.completion_tokens, 10);
    EXPECT_EQ(r->choices[0].usage.cached_tokens, r->at_start.cached_tokens);
    EXPECT_EQ(r->choices[0].finish, Finish::kLength);
  }
  EXPECT_EQ(cold.choices[0].text, warm.choices[0].text);
  Request r = simple(numbers(50), 10);
  r.use_cache = false;
  EXPECT_EQ(run(r).at_start.cached_tokens, 0);
  r.use_cache = true;
  r.tenant = "somebody else";
  EXPECT_EQ(run(r).at_start.cached_tokens, 0) << "tenants share nothing";
  const Result1 none = run(simple(numbers(50), 0));
  EXPECT_EQ(none.choices[0].usage.completion_tokens, 0);
  EXPECT_EQ(none.choices[0].finish, Finish::kLength);
  EXPECT_TRUE(none.choices[0].ids.empty());
}

// The answer is written token by token: text that may begin a stop string is not lost when the length ends it.
TEST_F(HostTest, HeldTextComesAtTheEnd) {
  const std::vector<int32_t> script = {22, 23, 18, 4};  // s t o a
  fake_.next = [&](uint64_t, const ir::PickParams&, int32_t position, int32_t prompt) {
    return script[static_cast<size_t>(position - prompt) % script.size()];
  };
  start();
  Request r = simple(numbers(5), 3);
  r.sampling.stop = {"stop"};
  EXPECT_EQ(run(r).choices[0].text, "sto");
  r.max_tokens = 6;
  EXPECT_EQ(run(r).choices[0].text, "stoast");
  r.sampling.stop = {"oast"};
  const Result1 stopped = run(r);
  EXPECT_EQ(stopped.choices[0].text, "st");
  EXPECT_EQ(stopped.choices[0].stop_reason, "oast");
  EXPECT_EQ(stopped.choices[0].finish, Finish::kStop);
  EXPECT_EQ(stopped.choices[0].usage.completion_tokens, 6);
  r.sampling.include_stop = true;
  EXPECT_EQ(run(r).choices[0].text, "stoast");
  r.sampling.include_stop = false;
  r.sampling.stop_tokens = {4};
  r.sampling.stop = {};
  const Result1 by_token = run(r);
  EXPECT_EQ(by_token.choices[0].text, "sto");
  EXPECT_EQ(by_token.choices[0].stop_reason, "4");
  r.text = false;
  EXPECT_EQ(run(r).choices[0].text, "");
  EXPECT_EQ(run(r).choices[0].ids.size(), 4u);
}

TEST_F(HostTest, HalfCharactersAreHeldAndControlTokensAreNoText) {
  const std::vector<int32_t> script = {4, 31, 32, kTinyMark, 31, 5};  // a é(2) <|mark|> half b
  fake_.next = [&](uint64_t, const ir::PickParams&, int32_t position, int32_t prompt) {
    return script[static_cast<size_t>(position - prompt) % script.size()];
  };
  start();
  Request r = simple(numbers(5), 6);
  EXPECT_EQ(run(r).choices[0].text,
            "a\xC3\xA9\xEF\xBF\xBD"
            "b");
  r.max_tokens = 2;
  EXPECT_EQ(run(r).choices[0].text, "a\xEF\xBF\xBD");
}

TEST_F(HostTest, CancelFreesBlocksAndEndsOnce) {
  control_.delay_us = 2000;
  start();
  Request r = simple(numbers(40), 200);
  r.choices = 2;
  auto id = host_->submit(r);
  ASSERT_TRUE(id.ok());
  std::vector<Event> events;
  while (events.size() < 4) ASSERT_TRUE(host_->poll(*id, 1, 1'000'000, &events));
  EXPECT_GT(host_->stats().kv_used, 0);
  host_->cancel(*id);
  host_->cancel(*id);
  while (host_->poll(*id, 100, 1'000'000, &events)) {
  }
  int32_t ends[2] = {0, 0};
  for (const Event& e : events) {
    if (e.kind == Event::Kind::kFinished) {
      ++ends[e.choice];
      EXPECT_EQ(e.finish, Finish::kCancelled);
    }
  }
  EXPECT_EQ(ends[0], 1);
  EXPECT_EQ(ends[1], 1);
  expect_idle();
  EXPECT_FALSE(host_->poll(*id, 1, 0, &events));
}

TEST_F(HostTest, AFullQueueAndADeadline) {
  host_options_.max_waiting = 2;
  options_.max_batch = 1;
  control_.delay_us = 5000;
  start();
  auto running = host_->submit(simple(numbers(20), 100));
  std::vector<Event> events;
  ASSERT_TRUE(host_->poll(*running, 1, 1'000'000, &events));  // kStarted: it waits no more
  Request late = simple(numbers(20), 5);
  late.deadline_us = 20'000;
  auto expires = host_->submit(late), waits = host_->submit(simple(numbers(20), 2));
  ASSERT_TRUE(expires.ok() && waits.ok());
  const auto refused = host_->submit(simple(numbers(20), 2));
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(host_->stats().queue_limit, 2);
  EXPECT_EQ(read(*expires, 1).choices[0].finish, Finish::kDeadline);
  EXPECT_TRUE(host_->submit(simple(numbers(20), 2)).ok()) << "room again";
  host_->cancel(*running);
  EXPECT_EQ(read(*waits, 1).choices[0].finish, Finish::kLength);
}

TEST_F(HostTest, ASlowReaderPausesItselfAloneAndMayBeGivenUp) {
  host_options_.max_events = 16;
  host_options_.stall_timeout_us = 300'000;
  start();
  auto slow = host_->submit(simple(numbers(20), 150));
  auto given_up = host_->submit(simple(numbers(21), 150));
  const Result1 other = run(simple(numbers(22), 150));
  EXPECT_EQ(other.choices[0].ids.size(), 150u);
  EXPECT_EQ(read(*slow, 1).choices[0].ids.size(), 150u);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const Result1 cut = read(*given_up, 1);
  EXPECT_EQ(cut.choices[0].finish, Finish::kCancelled);
  EXPECT_LT(cut.choices[0].ids.size(), 24u);
  expect_idle();
}

TEST_F(HostTest, DrainEndsWhatRunsAndRefusesTheRest) {
  control_.delay_us = 1000;
  start();
  auto ends = host_->submit(simple(numbers(20), 20));
  auto cut = host_->submit(simple(numbers(20), 220));
  host_->drain(100'000);
  EXPECT_TRUE(host_->stats().draining);
  EXPECT_EQ(host_->submit(simple(numbers(20), 2)).status().code(), Code::kUnavailable);
  EXPECT_EQ(read(*ends, 1).choices[0].finish, Finish::kLength);
  EXPECT_EQ(read(*cut, 1).choices[0].finish, Finish::kCancelled);
}

TEST_F(HostTest, ADeadDeviceEndsEveryRequestWithTheReason) {
  control_.delay_us = 1000;
  for (const bool launch : {false, true}) {
    control_.refuse_at = control_.fail_at = -1;
    start();
    auto a = host_->submit(simple(numbers(20), 200)), b = host_->submit(simple(numbers(25), 200));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (launch ? control_.refuse_at : control_.fail_at) = 0;
    for (const auto& id : {a, b}) {
      const Result1 r = read(*id, 1);
      EXPECT_EQ(r.choices[0].finished, 1);
      EXPECT_EQ(r.choices[0].finish, Finish::kError);
      EXPECT_NE(r.choices[0].note.find("on demand"), std::string::npos) << r.choices[0].note;
    }
    EXPECT_TRUE(host_->stats().dead);
    EXPECT_EQ(host_->submit(simple(numbers(20), 2)).status().code(), Code::kUnavailable);
    EXPECT_EQ(host_->models()[0].state, "failed");
    host_.reset();
  }
}

TEST_F(HostTest, NoNumberIsAnErrorOfTheRequestAlone) {
  control_.nan_at = 0;
  start();
  EXPECT_EQ(run(simple(numbers(20), 5)).choices[0].finish, Finish::kError);
  control_.nan_at = -1;
  EXPECT_EQ(run(simple(numbers(20), 5)).choices[0].finish, Finish::kLength);
  EXPECT_FALSE(host_->stats().dead);
}

TEST_F(HostTest, BadRequestsNameTheField) {
  start();
  const auto refused = [&](const char* field, auto change) {
    Request r = simple(numbers(8), 4);
    change(&r);
    const auto id = host_->submit(r);
    EXPECT_EQ(id.status().code(), Code::kInvalidArgument) << field;
    EXPECT_NE(id.status().message().find(field), std::string::npos) << field << ": " << id.status().message();
  };
  refused("prompt", [](Request* r) { r->prompt.clear(); });
  refused("prompt", [](Request* r) { r->prompt = {kTinyVocab}; });
  refused("256", [](Request* r) { r->prompt = numbers(256); });
  refused("max_tokens", [](Request* r) { r->max_tokens = -1; });
  refused("n must", [](Request* r) { r->choices = 0; });
  refused("n must", [](Request* r) { r->choices = 7; });
  refused("temperature", [](Request* r) { r->sampling.temperature = -0.1f; });
  refused("temperature", [](Request* r) { r->sampling.temperature = std::numeric_limits<float>::quiet_NaN(); });
  refused("top_p", [](Request* r) { r->sampling.top_p = 0; });
  refused("min_p", [](Request* r) { r->sampling.min_p = 2; });
  refused("logprobs", [](Request* r) { r->sampling.logprobs = 1000; });
  refused("logit_bias", [](Request* r) { r->sampling.logit_bias = {{-1, 1.f}}; });
  refused("banned_tokens", [](Request* r) { r->sampling.banned_tokens = {64}; });
  refused("bad_words", [](Request* r) { r->sampling.bad_words = {{}}; });
  refused("stop", [](Request* r) { r->sampling.stop = {""}; });
  refused("repetition_penalty", [](Request* r) { r->sampling.repetition_penalty = 0; });
  refused("prompt_logprobs", [](Request* r) { r->prompt_logprobs = 500; });
  Request r = simple(numbers(8), 4);
  r.model = "another";
  EXPECT_EQ(host_->submit(r).status().code(), Code::kNotFound);
}

TEST_F(HostTest, PlansAreCheckedAgainstTheMachine) {
  fake_.plan.weights = uint64_t{1} << 50;
  device_ = device::make_fake_device(fake_, &control_);
  host_ = *Host::create(host_options_, {device_.get(), &clock_, log_.get(), &metrics_});
  const Status s = host_->load(options_);
  EXPECT_EQ(s.code(), Code::kResourceExhausted);
  EXPECT_NE(s.message().find("--max-context"), std::string::npos) << s.message();
  EXPECT_NE(s.message().find("GiB"), std::string::npos) << s.message();
  EXPECT_EQ(host_->models()[0].state, "failed");
  EXPECT_EQ(host_->submit(simple(numbers(8), 4)).status().code(), Code::kUnavailable);
}

TEST_F(HostTest, StagesOfTheStartAddUp) {
  double sum = 0, whole = -1;
  log_ = make_callback_logger(LogFormat::kJson, LogLevel::kInfo, [&](std::string_view line) {
    const size_t at = line.find("\"seconds\":");
    if (at == std::string_view::npos) return;
    const double v = std::strtod(std::string(line.substr(at + 10)).c_str(), nullptr);
    (line.find("model ready") != std::string_view::npos ? whole : sum) += v;
  });
  start();
  EXPECT_GT(whole, -1);
  EXPECT_NEAR(sum, whole + 1, 1e-3);
}

TEST_F(HostTest, ReadyNamesWhoeverHasEvents) {
  start();
  auto a = host_->submit(simple(numbers(20), 3)), b = host_->submit(simple(numbers(22), 3));
  std::map<RequestId, int32_t> ends;
  while (ends[*a] + ends[*b] < 2) {
    std::vector<RequestId> ids;
    host_->ready(1'000'000, &ids);
    ASSERT_FALSE(ids.empty());
    for (RequestId id : ids) {
      std::vector<Event> events;
      (void)host_->poll(id, 1000, 0, &events);
      for (const Event& e : events) ends[id] += e.kind == Event::Kind::kFinished ? 1 : 0;
    }
  }
  EXPECT_EQ(ends[*a], 1);
  EXPECT_EQ(ends[*b], 1);
}

}  // namespace
}  // namespace bora::engine
