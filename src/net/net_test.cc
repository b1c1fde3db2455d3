// The transport over real sockets: framing, limits, time outs, streams.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/rng.h"
#include "net/server.h"
#include "net/test_client.h"

namespace bora::net {
namespace {

using test::Answer;
using test::Client;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// "/echo" answers the body, "/slow" after 150 ms from another thread, "/stream" holds the exchange for the test,
// "/drop" forgets it, "/no" is refused at the head.
class Echo : public Handler {
 public:
  ~Echo() override {
    for (std::thread& t : threads_) t.join();
  }
  std::optional<Reply> on_head(const Request& head) override {
    ++heads;
    if (head.path == "/no") return Reply{401, {}, "no"};
    return std::nullopt;
  }
  void on_request(std::shared_ptr<Exchange> exchange) override {
    ++requests;
    const std::string& path = exchange->request().path;
    if (path == "/slow") {
      std::lock_guard lock(mutex_);
      threads_.emplace_back([exchange] {
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        exchange->reply({200, {}, "slow"});
      });
    } else if (path == "/stream") {
      exchange->watch([this] { ++gone; }, [this] { ++drained; });
      std::lock_guard lock(mutex_);
      held_ = std::move(exchange);
    } else if (path != "/drop") {
      exchange->reply({200, {{"x-path", path}, {"x-query", exchange->request().query}}, exchange->request().body});
    }
  }
  Reply on_fault(int status, std::string_view message) override { return {status, {}, std::string(message)}; }

  std::shared_ptr<Exchange> held() {
    for (int i = 0; i < 500; ++i) {
      {
        std::lock_guard lock(mutex_);
        if (held_) return std::move(held_);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return nullptr;
  }
  std::atomic<int> heads{0}, requests{0}, gone{0}, drained{0};

 private:
  std::mutex mutex_;
  std::shared_ptr<Exchange> held_;
  std::vector<std::thread> threads_;
};

class NetTest : public ::testing::Test {
 protected:
  void start() {
    auto server = Server::start(options, &echo);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }
  uint16_t port() const { return server_->port(); }
  bool wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return condition();
  }

  Echo echo;
  ServerOptions options;
  std::unique_ptr<Server> server_;
};

TEST_F(NetTest, KeepsAConnectionForManyRequests) {
  start();
  Client c(port());
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body " + std::to_string(i);
    const Answer a = c.ask("POST", "/echo?x=%20", body);
    ASSERT_EQ(a.status, 200);
    EXPECT_EQ(a.body, body);
    EXPECT_EQ(a.headers.at("x-query"), "x=%20");
  }
}

TEST_F(NetTest, AnswersPipelinedRequestsInOrder) {
  start();
  Client c(port());
  c.send(Client::request("GET", "/slow") + Client::request("POST", "/echo", "two") + Client::request("GET", "/slow") +
         Client::request("POST", "/echo", "four"));
  for (const char* expected : {"slow", "two", "slow", "four"}) EXPECT_EQ(c.read().body, expected);
}

TEST_F(NetTest, UnderstandsEveryFormOfTarget) {
  start();
  Client c(port());
  EXPECT_EQ(c.ask("GET", "http://example.org/a%2Fb?q").headers["x-path"], "/a/b");
  EXPECT_EQ(c.ask("GET", "http://example.org").headers["x-path"], "/");
  EXPECT_EQ(c.ask("OPTIONS", "*").headers["x-path"], "*");
  EXPECT_EQ(c.ask("GET", "/%zz").status, 400);
}

TEST_F(NetTest, HeadHasNoBody) {
  start();
  Client c(port());
  c.send("HEAD /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  const Answer head = c.read(true);
  EXPECT_EQ(head.headers.at("content-length"), "4");
  EXPECT_EQ(c.ask("POST", "/echo", "next").body, "next");
}

TEST_F(NetTest, RefusesMalformedRequests) {
  start();
  const std::string_view bad[] = {
      "GET / HTTP/1.1\r\n\r\n",                                         // no Host
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",                   // two
      "GET / HTTP/3.0\r\nHost: a\r\n\r\n",                              // version
      "GET  HTTP/1.1\r\nHost: a\r\n\r\n",                               // no target
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n",  // no number
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",   // negative
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",  // no chunk size
      "GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
      "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  // the hello of TLS, without an end
      "\x80\xff\x01\x02",
  };
  for (const std::string_view text : bad) {
    Client c(port());
    c.send(text);
    EXPECT_EQ(c.read().status, 400) << text;
    EXPECT_TRUE(c.ended()) << text;
  }
  EXPECT_EQ(echo.requests, 0);
}

TEST_F(NetTest, SpeaksHttp10) {
  start();
  Client c(port());
  c.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(c.read().status, 200);
  EXPECT_TRUE(c.ended());
}

TEST_F(NetTest, LimitsHeads) {
  options.max_head_bytes = 4096;
  start();
  for (const std::string& text : {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'a') + "\r\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(50'000, 'a'),
                                  "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    Client c(port());
    c.send(text);
    EXPECT_EQ(c.read().status, 431);
  }
  Client c(port());
  EXPECT_EQ(c.ask("GET", "/" + std::string(3000, 'a')).status, 200);
}

TEST_F(NetTest, RefusesLargeBodiesBeforeReadingThem) {
  options.max_body_bytes = 1 << 20;
  start();
  Client c(port());
  c.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000000\r\n\r\n");
  EXPECT_EQ(c.read().status, 413);
  Client chunked(port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string piece = "10000\r\n" + std::string(65536, 'x') + "\r\n";
  for (int i = 0; i < 17; ++i) chunked.send(piece);
  EXPECT_EQ(chunked.read().status, 413);
  Client good(port());
  good.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(good.read().body, "abcde");
  EXPECT_EQ(good.ask("POST", "/echo", std::string(1 << 20, 'y')).body.size(), size_t{1} << 20);
}

TEST_F(NetTest, AnswersAtTheHeadWithoutReadingALargeBody) {
  start();
  Client large(port());
  large.send("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n");
  EXPECT_EQ(large.read().status, 401);
  Client small(port());
  EXPECT_EQ(small.ask("POST", "/no", "small").status, 401);
  EXPECT_EQ(small.ask("POST", "/echo", "goes on").body, "goes on");
}

TEST_F(NetTest, InvitesABodyThatWaits) {
  start();
  Client c(port());
  c.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(c.until("100 Continue\r\n\r\n"));
  c.send("ok");
  EXPECT_EQ(c.read().body, "ok");
  EXPECT_EQ(c.ask("POST", "/echo", "x", "Expect: magic\r\n").status, 417);
}

TEST_F(NetTest, TimesOutSlowHeadsAndBodies) {
  options.head_timeout_us = options.body_timeout_us = 200'000;
  options.idle_timeout_us = 400'000;
  start();
  const auto begin = Clock::now();
  Client head(port()), body(port()), idle(port());
  head.send("GET / HTTP/1.1\r\nHo");
  body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(head.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(idle.ended());
  EXPECT_GE(since(begin), 0.2);
  EXPECT_LT(since(begin), 5);
}

TEST_F(NetTest, SurplusConnectionsAreToldSoAndHalfOpenHeadsStarveNobody) {
  options.max_connections = 8;
  start();
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<Client>(port()));
    busy.back()->send("GET / HTTP/1.1\r\nHo");
  }
  ASSERT_TRUE(wait_for([&] { return server_->connections() == 8; }));
  Client early(port());
  EXPECT_EQ(early.read().status, 503);
  EXPECT_TRUE(early.ended());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  for (int i = 0; i < 4; ++i) {
    Client c(port());
    EXPECT_EQ(c.ask("GET", "/echo").status, 200);
  }
}

TEST_F(NetTest, StreamsWithoutClosing) {
  start();
  Client c(port());
  c.send(Client::request("GET", "/stream"));
  const auto exchange = echo.held();
  ASSERT_TRUE(exchange);
  EXPECT_TRUE(exchange->begin_stream({{"content-type", "text/event-stream"}}));
  EXPECT_TRUE(c.until("text/event-stream"));  // the head does not wait for the first event
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    EXPECT_TRUE(exchange->write(event));
    expected += event;
  }
  exchange->end_stream();
  EXPECT_EQ(c.read().body, expected);
  EXPECT_EQ(c.ask("POST", "/echo", "after").body, "after");
  EXPECT_EQ(echo.gone, 0);
}

TEST_F(NetTest, PingsSilentStreams) {
  options.ping_us = 50'000;
  start();
  Client c(port());
  c.send(Client::request("GET", "/stream"));
  const auto exchange = echo.held();
  exchange->begin_stream({});
  EXPECT_TRUE(c.until(": ping\n\n\r\n"));
  exchange->write("data: 1\n\n");
  exchange->end_stream();
  const Answer a = c.read();
  EXPECT_NE(a.body.find(": ping\n\n"), std::string::npos);
  EXPECT_NE(a.body.find("data: 1\n\n"), std::string::npos);
}

TEST_F(NetTest, ASlowReaderFillsItsOwnBufferOnly) {
  options.stream_buffer_bytes = 64 << 10;
  start();
  Client slow(port(), 10, 4096);
  slow.send(Client::request("GET", "/stream"));
  const auto exchange = echo.held();
  exchange->begin_stream({});
  const std::string event = "data: " + std::string(1000, 'x') + "\n\n";
  size_t written = 0;
  for (int i = 0; i < 200'000 && !exchange->full(); ++i) {
    exchange->write(event);
    written += event.size();
    if (i % 32 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ASSERT_TRUE(exchange->full());
  EXPECT_LT(written, size_t{32} << 20);
  Client other(port());
  EXPECT_EQ(other.ask("POST", "/echo", "quick").body, "quick");
  exchange->end_stream();
  const Answer a = slow.read();
  EXPECT_EQ(a.body.size(), written);
  EXPECT_TRUE(wait_for([&] { return !exchange->full(); }));
}

TEST_F(NetTest, NoticesThatAClientLeft) {
  start();
  auto c = std::make_unique<Client>(port());
  c->send(Client::request("GET", "/stream"));
  auto exchange = echo.held();
  c.reset();
  EXPECT_TRUE(wait_for([&] { return echo.gone == 1 && exchange->gone(); }));
  EXPECT_FALSE(exchange->begin_stream({}));
  EXPECT_TRUE(wait_for([&] { return server_->connections() == 0; }));
}

TEST_F(NetTest, EndsAClientThatTakesNothing) {
  options.stall_timeout_us = 300'000;
  options.ping_us = 50'000;
  start();
  Client stuck(port(), 10, 4096);
  stuck.send(Client::request("GET", "/stream"));
  const auto exchange = echo.held();
  exchange->begin_stream({});
  exchange->write(std::string(32 << 20, 'x'));
  EXPECT_TRUE(wait_for([&] { return echo.gone == 1; }));
}

TEST_F(NetTest, ADroppedExchangeIsAnswered) {
  start();
  Client c(port());
  EXPECT_EQ(c.ask("GET", "/drop").status, 500);
  EXPECT_EQ(c.ask("POST", "/echo", "on").body, "on");
}

TEST_F(NetTest, UnixSocket) {
  options.unix_path = ::testing::TempDir() + "bora_net_" + std::to_string(::getpid());
  start();
  {
    Client c(options.unix_path);
    ASSERT_TRUE(c.connected());
    EXPECT_EQ(c.ask("POST", "/echo", "local").body, "local");
  }
  auto second = Server::start(options, &echo);
  EXPECT_FALSE(second.ok());
  server_.reset();
  EXPECT_NE(::access(options.unix_path.c_str(), F_OK), 0);
}

TEST_F(NetTest, AnAddressInUseIsOneClearError) {
  start();
  options.port = port();
  auto second = Server::start(options, &echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(std::to_string(port())), std::string::npos);
}

// The parser gives one answer however the bytes are cut.
TEST(RequestParser, SplitsDoNotMatter) {
  const std::string good =
      "POST /a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;e=1\r\ndefg\r\n0\r\nT: "
      "1\r\n\r\n";
  Rng rng(7);
  for (int round = 0; round < 400; ++round) {
    std::string text = good;
    for (uint64_t i = rng.below(4); i > 0; --i) text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    Request whole, pieces;
    const ServerOptions options;
    const int a = parse_request(text, text.size(), options, &whole);
    const int b = parse_request(text, 1 + rng.below(5), options, &pieces);
    EXPECT_EQ(a == 200, b == 200) << text;
    if (a == 200 && b == 200) {
      EXPECT_EQ(whole.body, pieces.body);
      EXPECT_EQ(whole.path, pieces.path);
    }
  }
}

}  // namespace
}  // namespace bora::net
