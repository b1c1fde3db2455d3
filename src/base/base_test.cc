#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "base/work_pool.h"

namespace bora {
namespace {

TEST(Clock, ManualStandsStill) {
  ManualClock clock(5, 100);
  EXPECT_EQ(clock.now_us(), 5);
  clock.advance_us(2'000'000);
  EXPECT_EQ(clock.now_us(), 2'000'005);
  EXPECT_EQ(clock.unix_seconds(), 102);
  SystemClock real;
  const int64_t a = real.now_us();
  EXPECT_LE(a, real.now_us());
  EXPECT_GT(real.unix_seconds(), 1'600'000'000);
}

// First outputs of the published SplitMix64 for seed 1234567.
TEST(Rng, KnownStream) {
  Rng rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317ull);
  EXPECT_EQ(rng.next(), 3203168211198807973ull);
  EXPECT_EQ(rng.next(), 9817491932198370423ull);
}

TEST(Rng, RangesHold) {
  Rng rng(7);
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const int64_t v = rng.between(-2, 2);
    ASSERT_GE(v, -2);
    ASSERT_LE(v, 2);
    seen.insert(v);
    const double u = rng.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(Noise, IsAFunctionOfItsCoordinatesOnly) {
  std::set<uint64_t> seen;
  double sum = 0;
  for (uint32_t c = 0; c < 4; ++c) {
    for (uint32_t p = 0; p < 50; ++p) {
      for (uint32_t l = 0; l < 50; ++l) {
        seen.insert(noise_u64(42, c, p, l));
        const float u = noise_unit(42, c, p, l);
        ASSERT_GT(u, 0.0f);
        ASSERT_LT(u, 1.0f);
        sum += u;
      }
    }
  }
  EXPECT_EQ(seen.size(), 10000u);
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
  EXPECT_EQ(noise_u64(1, 2, 3, 4), noise_u64(1, 2, 3, 4));
  EXPECT_NE(noise_u64(1, 2, 3, 4), noise_u64(2, 1, 3, 4));
}

TEST(BoundedVector, RefusesPastCapacity) {
  BoundedVector<int> v(2);
  EXPECT_TRUE(v.push_back(1));
  EXPECT_TRUE(v.push_back(2));
  const int* data = v.data();
  EXPECT_FALSE(v.push_back(3));
  EXPECT_EQ(v.size(), 2u);
  v.clear();
  EXPECT_TRUE(v.push_back(4));
  EXPECT_EQ(v.data(), data);
}

TEST(BoundedQueue, FullIsAnAnswerAndCloseDrains) {
  BoundedQueue<int> q(2);
  EXPECT_TRUE(q.try_push(1));
  EXPECT_TRUE(q.try_push(2));
  EXPECT_FALSE(q.try_push(3));
  q.close();
  EXPECT_FALSE(q.try_push(4));
  EXPECT_EQ(q.pop(), 1);
  EXPECT_EQ(q.pop(), 2);
  EXPECT_EQ(q.pop(), std::nullopt);
  BoundedQueue<int> empty(1);
  EXPECT_EQ(empty.pop_for(std::chrono::microseconds(100)), std::nullopt);
}

TEST(BoundedQueue, ManyThreadsLoseNothing) {
  BoundedQueue<int> q(16);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (auto v = q.pop()) sum += *v;
    });
  }
  std::vector<std::thread> producers;
  for (int t = 0; t < 2; ++t) {
    producers.emplace_back([&] {
      for (int i = 1; i <= 5000; ++i) {
        while (!q.try_push(i)) std::this_thread::yield();
      }
    });
  }
  for (std::thread& t : producers) t.join();
  q.close();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sum.load(), 2 * 5000 * 5001 / 2);
}

TEST(WorkPool, RunsWhatItAcceptsAndSaysWhenFull) {
  std::atomic<int> ran{0};
  std::atomic<bool> go{false};
  int accepted = 0;
  {
    WorkPool pool(1, 3);
    for (int i = 0; i < 20; ++i) {
      const Status s = pool.submit([&] {
        while (!go) std::this_thread::yield();
        ++ran;
      });
      if (s.ok()) {
        ++accepted;
      } else {
        EXPECT_EQ(s.code(), Code::kResourceExhausted);
      }
    }
    go = true;
  }
  EXPECT_GE(accepted, 3);
  EXPECT_LE(accepted, 5);
  EXPECT_EQ(ran.load(), accepted);
}

TEST(Log, TextAndJsonLines) {
  std::vector<std::string> lines;
  auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  auto text = make_callback_logger(LogFormat::kText, LogLevel::kInfo, sink);
  text->debug("hidden");
  text->info("request", {{"id", "r1"}, {"tokens", 12}, {"seconds", 0.25}, {"model", "a b"}});
  auto json = make_callback_logger(LogFormat::kJson, LogLevel::kDebug, sink);
  json->warn("x\"y", {{"ok", true}, {"n", int64_t{-3}}});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "info request id=r1 tokens=12 seconds=0.25 model=\"a b\"");
  EXPECT_EQ(lines[1], R"({"level":"warn","event":"x\"y","ok":true,"n":-3})");
  EXPECT_FALSE(make_null_logger()->enabled(LogLevel::kError));
}

TEST(Metrics, RenderFollowsTheTextFormat) {
  MetricsRegistry registry;
  registry.counter("bora_requests_total", "Requests.", {{"route", "/v1/\"x\""}}).add(2);
  registry.counter("bora_requests_total", "Requests.", {{"route", "/v1/\"x\""}}).add();
  registry.gauge("bora_running", "Running sequences.").set(1.5);
  Histogram h = registry.histogram("bora_wait_seconds", "Wait.", {0.1, 1});
  for (double v : {0.05, 0.1, 0.5, 7.0}) h.observe(v);
  EXPECT_EQ(registry.render_text(),
            "# HELP bora_requests_total Requests.\n# TYPE bora_requests_total counter\n"
            "bora_requests_total{route=\"/v1/\\\"x\\\"\"} 3\n"
            "# HELP bora_running Running sequences.\n# TYPE bora_running gauge\nbora_running 1.5\n"
            "# HELP bora_wait_seconds Wait.\n# TYPE bora_wait_seconds histogram\n"
            "bora_wait_seconds_count 4\nbora_wait_seconds_sum 7.65\n"
            "bora_wait_seconds_bucket{le=\"0.1\"} 2\nbora_wait_seconds_bucket{le=\"1\"} 3\n"
            "bora_wait_seconds_bucket{le=\"+Inf\"} 4\n");
}

}  // namespace
}  // namespace bora
