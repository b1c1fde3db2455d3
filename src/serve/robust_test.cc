// What clients do wrong or the engine cannot: keys, limits, clients that leave or lag, mutated requests.
#include <fstream>
#include <random>
#include <set>

#include "serve/test_server.h"

namespace bora::serve {
namespace {

using namespace test;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kText = "/v1/completions";

class Robust : public ServerTest {};

TEST_F(Robust, KeysFromFilesAreReadAgain) {
  const std::string path = ::testing::TempDir() + "bora_keys_" + std::to_string(::getpid());
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("# keys\nsk-first-key-1\r\n\nsk-second-key-2\n");
  key_sources.api_key_file = path;
  start();
  const auto status = [&](const std::string& key) {
    return ask("GET", "/version", "", "Authorization: bearer " + key + "\r\n").status;
  };
  EXPECT_EQ(status("sk-first-key-1"), 200);
  EXPECT_EQ(status("sk-second-key-2"), 200);
  EXPECT_EQ(status("# keys"), 401);
  write("sk-third-key-3\n");
  ASSERT_TRUE(keys->reload().ok());
  EXPECT_EQ(status("sk-first-key-1"), 401);
  EXPECT_EQ(status("sk-third-key-3"), 200);
  write("\n");
  EXPECT_FALSE(keys->reload().ok());  // an empty file opens no door
  EXPECT_EQ(status("sk-third-key-3"), 200);
  EXPECT_EQ(status(""), 401);
  std::remove(path.c_str());
}

TEST_F(Robust, AnAdminKeyOpensEverythingAndBadKeysAreNoKeys) {
  key_sources.admin_keys = {"sk-admin-key-1"};
  start();
  EXPECT_EQ(ask("GET", "/version").status, 401);
  EXPECT_EQ(ask("GET", "/version", "", "x-api-key: sk-admin-key-1\r\n").status, 200);
  EXPECT_FALSE(Keys::create({{"short"}, {}, "", ""}, files.get()).ok());
  EXPECT_FALSE(Keys::create({{}, {}, "/nowhere", ""}, files.get()).ok());
}

TEST_F(Robust, PublicAddressesNeedAKey) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"})
    EXPECT_TRUE(check_exposure(host, false, false, false).ok()) << host;
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "example.org", "10.0.0.1"}) {
    EXPECT_FALSE(check_exposure(host, false, false, false).ok()) << host;
    EXPECT_TRUE(check_exposure(host, false, true, false).ok());
    EXPECT_TRUE(check_exposure(host, false, false, true).ok());
  }
}

TEST_F(Robust, MetricsMayBeOpenByFlagAlone) {
  key_sources.api_keys = {"sk-test-0123456789"};
  api_options.metrics_open = true;
  start();
  EXPECT_EQ(ask("GET", "/metrics").status, 200);
  EXPECT_EQ(ask("GET", "/version").status, 401);
}

TEST_F(Robust, AFullQueueIs429WithRetryAfter) {
  frontend.queue_limit = 2;
  frontend.waiting = 20;
  frontend.hold_us = 60'000'000;
  start();
  Client a(port()), b(port());
  for (Client* c : {&a, &b}) c->send(Client::request("POST", kText, R"({"prompt": "x", "stream": true})"));
  ASSERT_TRUE(wait_for([&] { return frontend.live() == 2; }));
  EXPECT_TRUE(a.until("text/event-stream"));  // queued streams have their head
  const Answer full = ask("POST", kText, R"({"prompt": "x"})");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers.at("retry-after"), "5");  // 20 wait, 4 end a second
  EXPECT_NE(full.body.find("rate_limit_error"), std::string::npos);
  // A request of three prompts that finds two places takes none.
  a.close();
  ASSERT_TRUE(wait_for([&] { return frontend.live() == 1; }));
  EXPECT_EQ(ask("POST", kText, R"({"prompt": ["x", "y", "z"]})").status, 429);
  EXPECT_TRUE(wait_for([&] { return frontend.live() == 1; }));
}

TEST_F(Robust, LoadingDrainingAndDeadAre503) {
  loading = true;
  start();
  for (const char* path : {"/health", "/health/ready"}) {
    const Answer a = ask("GET", path);
    EXPECT_EQ(a.status, 503);
    EXPECT_NE(a.body.find("\"code\":503"), std::string::npos);
    EXPECT_NE(a.body.find("Loading model"), std::string::npos);
    EXPECT_EQ(a.headers.count("retry-after"), 1u);
  }
  EXPECT_EQ(ask("GET", "/health/live").status, 200);
  EXPECT_EQ(ask("POST", kText, R"({"prompt": "x"})").status, 503);
  add_model();
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("POST", kText, R"({"prompt": "x"})").status, 200);
  services->set_draining();
  EXPECT_EQ(ask("GET", "/health").status, 503);
  EXPECT_EQ(ask("GET", "/health/live").status, 200);
  const Answer draining = ask("POST", kText, R"({"prompt": "x"})");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(draining.headers.count("retry-after"), 1u);
  frontend.dead = true;
  EXPECT_EQ(ask("GET", "/health/live").status, 503);
}

TEST_F(Robust, FailuresOfTheEngineHaveTheirStatus) {
  start();
  frontend.too_late = true;
  const Answer late = ask("POST", kText, R"({"prompt": "x", "deadline_ms": 1})");
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(late.headers.at("x-should-retry"), "false");
  frontend.too_late = false;
  frontend.fail = true;
  EXPECT_EQ(ask("POST", kText, R"({"prompt": "x", "n": 2})").status, 500);
  const auto chunks =
      events(ask("POST", kChat, R"({"messages": [{"role": "user", "content": "x"}], "stream": true, "n": 2})"));
  int errors = 0;
  for (const Json& chunk : chunks) errors += chunk.contains("error");
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(at(at(chunks.back(), "error"), "type"), Json("server_error"));
}

TEST_F(Robust, AClientThatLeavesFreesItsRequest) {
  frontend.max_context = 1'000'000;
  start();
  for (const char* stream : {"true", "false"}) {
    auto c = std::make_unique<Client>(port());
    c->send(Client::request(
        "POST", kText, std::string(R"({"prompt": "x", "max_tokens": 900000, "n": 2, "stream": )") + stream + "}"));
    ASSERT_TRUE(wait_for([&] { return frontend.live() == 1; }));
    c.reset();
    EXPECT_TRUE(wait_for([&] { return frontend.live() == 0 && services->generations().running() == 0; })) << stream;
  }
  EXPECT_EQ(frontend.cancelled, 2);
  // While it is still queued, too.
  frontend.hold_us = 60'000'000;
  auto queued = std::make_unique<Client>(port());
  queued->send(Client::request("POST", kText, R"({"prompt": "x"})"));
  ASSERT_TRUE(wait_for([&] { return frontend.live() == 1; }));
  queued.reset();
  EXPECT_TRUE(wait_for([&] { return frontend.live() == 0; }));
  EXPECT_NE(logged().find("499"), std::string::npos);
}

TEST_F(Robust, ASlowReaderPausesOnlyItself) {
  frontend.max_context = 1'000'000;
  net_options.stream_buffer_bytes = 16 << 10;
  start();
  Client slow(port(), 30, 4096);
  slow.send(Client::request("POST", kText, R"({"prompt": "slow", "max_tokens": 30000, "stream": true})"));
  // The engine's queue of this request fills and stays full.
  ASSERT_TRUE(wait_for([&] { return frontend.waiting_events() >= 64; }));
  Client quick(port());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(quick.ask("POST", kText, R"({"prompt": "quick", "max_tokens": 10})").status, 200);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5.0);
  const auto chunks = events(slow.read());
  std::string text;
  for (const Json& chunk : chunks) text += at(choice(chunk), "text").as_string();
  EXPECT_EQ(text.size(), 30000u);  // nothing was lost on the way
}

TEST_F(Robust, RequestIdsAreEchoedOrMadeAndLinesHoldNoText) {
  key_sources.api_keys = {"sk-test-0123456789"};
  start();
  const Answer a = ask("POST", kText, R"({"prompt": "SECRETPROMPT", "max_tokens": 2, "stop": "SECRETSTOP"})",
                       "Authorization: Bearer sk-test-0123456789\r\nX-Request-Id: my-id.1\r\n");
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.headers.at("x-request-id"), "my-id.1");
  const Answer b = ask("GET", "/nowhere", "", "X-Request-Id: bad id\r\n");
  EXPECT_TRUE(b.headers.at("x-request-id").starts_with("req-"));
  const std::string lines = logged();
  EXPECT_NE(lines.find("my-id.1"), std::string::npos);
  EXPECT_NE(lines.find("\"completion_tokens\":2"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("SECRET"), std::string::npos);
  EXPECT_EQ(lines.find("sk-test"), std::string::npos);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(Robust, MetricsCountWhatClientsGot) {
  service_options.vllm_names = true;
  start();
  for (int i = 0; i < 3; ++i) good(kText, R"({"prompt": "abcd", "max_tokens": 5})");
  good(kText, R"({"prompt": "abcd", "max_tokens": 5, "stop": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]})");
  const std::string metrics = ask("GET", "/metrics").body;
  const auto value = [&](const std::string& line) {
    const size_t at = metrics.find("\n" + line + " ");
    return at == std::string::npos ? -1.0 : std::strtod(metrics.c_str() + at + line.size() + 2, nullptr);
  };
  EXPECT_EQ(value("bora_prompt_tokens_total{model_name=\"test-model\"}"), 16);
  EXPECT_EQ(value("vllm:prompt_tokens_total{model_name=\"test-model\"}"), 16);
  EXPECT_GE(value("bora_generation_tokens_total{model_name=\"test-model\"}"), 16);
  EXPECT_EQ(value("vllm:num_requests_running{model_name=\"test-model\"}"), 0);
  EXPECT_EQ(value("bora_time_to_first_token_seconds_count{model_name=\"test-model\"}"), 4);
  EXPECT_EQ(value("bora_http_requests_total{route=\"/v1/completions\",status=\"200\"}"), 4);
}

TEST_F(Robust, SixteenClientsGetWhatTheyGetAlone) {
  start();
  const auto body = [](int i) {
    return R"({"prompt": "client )" + std::to_string(i) + R"(", "max_tokens": 60, "seed": )" + std::to_string(i) +
           "}";
  };
  std::vector<std::string> alone(16), together(16);
  for (int i = 0; i < 16; ++i) alone[static_cast<size_t>(i)] = at(choice(good(kText, body(i))), "text").as_string();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      Client c(port());
      const auto a = Json::parse(c.ask("POST", kText, body(static_cast<int>(i))).body);
      if (a.ok() && at(choice(*a), "text").is_string()) together[i] = at(choice(*a), "text").as_string();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(alone, together);
  EXPECT_EQ(std::set<std::string>(alone.begin(), alone.end()).size(), 16u);
}

// One mutated request: mostly bodies that are nearly right, so that many reach the engine.
std::string mutant(Rng& rng) {
  const char* values[] = {"1",  "0",        "-1",    "1e308", "null",   "true",        "\"x\"",
                          "[]", "{}",       "[[1]]", "0.5",   "1e-300", "\"\\u0000\"", "9223372036854775807",
                          "2",  "\"\xc3\"", "3"};
  const auto fields = common_fields();
  if (rng.chance(0.1)) {
    std::string noise;
    for (uint64_t n = 1 + rng.below(300); n > 0; --n) noise.push_back(static_cast<char>(rng.below(256)));
    return rng.chance(0.5) ? noise : "\x16\x03\x01" + noise;
  }
  const bool chat = rng.chance(0.5);
  std::string body = chat ? R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4)"
                          : R"({"prompt": "hi", "max_tokens": 4)";
  for (uint64_t n = rng.below(3); n > 0; --n) {
    const FieldSpec& field = fields[rng.below(fields.size())];
    const std::string name(field.name);
    // No more tokens than the test can afford.
    if (name.find("max_") != std::string::npos || name == "model") continue;
    const std::string_view type = field.type;
    const char* fitting = type == "boolean" ? "true" : type == "integer" ? "2" : type == "number" ? "0.5" : "null";
    body += ", \"" + name + "\": " + (rng.chance(0.5) ? fitting : values[rng.below(std::size(values))]);
  }
  body += "}";
  if (rng.chance(0.15)) body[rng.below(body.size())] = static_cast<char>(rng.below(256));
  if (rng.chance(0.05)) body = body.substr(0, rng.below(body.size()));
  if (rng.chance(0.03)) body = std::string(2000, '[') + body;
  std::string request = Client::request("POST", chat ? kChat : kText, body);
  if (rng.chance(0.08)) request[rng.below(request.size())] = static_cast<char>(rng.below(256));
  return request;
}

size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

TEST_F(Robust, TwoThousandMutantsDoNoHarm) {
  net_options.head_timeout_us = net_options.body_timeout_us = 300'000;
  start();
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  const std::string good_body = R"({"prompt": "good client", "max_tokens": 30, "seed": 1})";
  const std::string expected = at(choice(good(kText, good_body)), "text").as_string();
  std::atomic<bool> stop{false};
  std::atomic<int> good_answers{0}, wrong{0};
  std::thread good_client([&] {
    Client c(port());
    while (!stop) {
      const auto a = Json::parse(c.ask("POST", kText, good_body).body);
      const bool same = a.ok() && at(choice(*a), "text") == Json(expected);
      ++(same ? good_answers : wrong);
    }
  });
  Rng rng(seed);
  int served = 0, refused = 0, silent = 0, faults = 0;
  const int before = frontend.submitted;
  size_t memory = 0;
  std::vector<std::unique_ptr<Client>> half_open;
  for (int i = 0; i < 2000; ++i) {
    if (i == 400) memory = resident_kib();
    Client c(port(), 5);
    const std::string request = mutant(rng);
    if (rng.chance(0.02)) {
      half_open.push_back(std::make_unique<Client>(port()));
      half_open.back()->send(request.substr(0, request.size() / 2));
      if (half_open.size() > 20) half_open.erase(half_open.begin());
    }
    c.send(request);
    if (rng.chance(0.05)) continue;  // gone without waiting
    const Answer a = c.read();
    if (a.status == 0) {
      ++silent;
    } else if (a.status < 300) {
      ++served;
    } else if (a.status < 500) {
      ++refused;
    } else {
      ++faults;
      ADD_FAILURE() << a.status << " for " << request;
    }
  }
  stop = true;
  good_client.join();
  const int reached = frontend.submitted - before - good_answers - wrong;
  std::cout << served << " served, " << refused << " refused, " << silent << " without an answer, " << reached
            << " reached the engine, " << good_answers << " answers of the good client\n";
  EXPECT_EQ(faults, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(good_answers, 10);
  EXPECT_GE(reached, 2000 / 3);
  EXPECT_LT(silent, 20);
  EXPECT_LT(resident_kib(), memory + 64 * 1024);
  half_open.clear();
  EXPECT_TRUE(wait_for([&] { return services->generations().running() == 0 && frontend.live() == 0; }));
  EXPECT_EQ(ask("GET", "/health").status, 200);
}

TEST_F(Robust, AHundredHalfHeadsLeaveHealthAlive) {
  start();
  std::vector<std::unique_ptr<Client>> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back(std::make_unique<Client>(port()));
    half.back()->send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-");
  }
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ask("GET", "/health").status, 200);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 1.0);
  }
}

TEST_F(Robust, AThousandIdleConnectionsAreKept) {
  start();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<Client>(port()));
    if (!idle.back()->connected()) break;
  }
  if (idle.size() < 1000) GTEST_SKIP() << "this system allows only " << idle.size() << " descriptors";
  EXPECT_EQ(ask("POST", kText, R"({"prompt": "x", "max_tokens": 5})").status, 200);
  EXPECT_EQ(idle[500]->ask("GET", "/health").status, 200);
}

}  // namespace
}  // namespace bora::serve
