// A whole server over the fake front end, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/test_client.h"
#include "serve/api.h"
#include "serve/fake_frontend.h"
#include "serve/generation.h"

namespace bora::serve::test {

using net::test::Answer;
using net::test::Client;

class ServerTest : public ::testing::Test {
 protected:
  void start() {
    text = make_text();
    auto made = Keys::create(key_sources, files.get());
    ASSERT_TRUE(made.ok()) << made.status().message();
    keys = *std::move(made);
    log = make_callback_logger(LogFormat::kJson, LogLevel::kDebug, [this](std::string_view line) {
      std::lock_guard lock(log_mutex);
      log_lines.emplace_back(line);
    });
    service_options.seed = 5;
    services =
        std::make_unique<Services>(service_options, Services::Context{&frontend, &clock, log.get(), &registry});
    if (!loading) add_model();
    api = std::make_unique<Api>(api_options, services.get(), keys.get());
    auto started = net::Server::start(net_options, api.get());
    ASSERT_TRUE(started.ok()) << started.status().message();
    server = *std::move(started);
    services->set_connections([this] { return server->connections(); });
  }
  void add_model() { services->add_model({"test-model", text.get(), frontend.max_context, 1'700'000'000, false}); }
  void TearDown() override {
    server.reset();
    api.reset();
    services.reset();
  }
  uint16_t port() const { return server->port(); }
  Answer ask(std::string_view method, std::string_view path, std::string_view body = "", std::string_view more = "") {
    Client c(port());
    return c.ask(method, path, body, more);
  }
  // The body of a 200 as JSON.
  Json good(std::string_view path, std::string_view body) {
    const Answer a = ask("POST", path, body);
    EXPECT_EQ(a.status, 200) << a.body;
    return Json::parse(a.body).ok() ? *Json::parse(a.body) : Json();
  }
  // Status and param of a refused body.
  void expect_refused(std::string_view path, std::string_view body, int status, std::string_view param,
                      std::string_view code = "") {
    const Answer a = ask("POST", path, body);
    EXPECT_EQ(a.status, status) << body << "\n" << a.body;
    const auto parsed = Json::parse(a.body);
    ASSERT_TRUE(parsed.ok()) << a.body;
    const Json* error = parsed->find("error");
    ASSERT_NE(error, nullptr) << a.body;
    ASSERT_TRUE(error->find("message") != nullptr && error->find("message")->is_string());
    if (!param.empty()) {
      EXPECT_EQ(*error->find("param"), Json(param)) << body << a.body;
    }
    if (!code.empty()) {
      EXPECT_EQ(*error->find("code"), Json(code)) << body << a.body;
    }
  }
  // The events of a stream but [DONE], which must be the last.
  static std::vector<Json> events(const Answer& a) {
    std::vector<Json> out;
    size_t at = 0;
    bool done = false;
    while (at < a.body.size()) {
      const size_t end = a.body.find("\n\n", at);
      EXPECT_NE(end, std::string::npos);
      if (end == std::string::npos) break;
      const std::string event = a.body.substr(at, end - at);
      at = end + 2;
      if (event.starts_with(":")) continue;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      EXPECT_FALSE(done) << "an event behind [DONE]";
      if (event == "data: [DONE]") {
        done = true;
        continue;
      }
      auto json = Json::parse(event.substr(6));
      EXPECT_TRUE(json.ok()) << event;
      if (json.ok()) out.push_back(*std::move(json));
    }
    EXPECT_TRUE(done);
    return out;
  }
  static bool wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return condition();
  }
  std::string logged() {
    std::lock_guard lock(log_mutex);
    std::string all;
    for (const std::string& line : log_lines) all += line + "\n";
    return all;
  }

  std::unique_ptr<FileSystem> files = make_os_file_system();
  FakeFrontend frontend;
  SystemClock clock;
  MetricsRegistry registry;
  std::mutex log_mutex;
  std::vector<std::string> log_lines;
  std::unique_ptr<Logger> log;
  std::unique_ptr<engine::ModelText> text;
  KeySources key_sources;
  ServiceOptions service_options;
  ApiOptions api_options;
  net::ServerOptions net_options;
  bool loading = false;
  std::unique_ptr<Keys> keys;
  std::unique_ptr<Services> services;
  std::unique_ptr<Api> api;
  std::unique_ptr<net::Server> server;
};

// Shorthands for walking JSON; absent members are null.
inline const Json& at(const Json& v, std::string_view key) {
  static const Json kNull;
  const Json* found = v.find(key);
  return found != nullptr ? *found : kNull;
}
inline const Json& choice(const Json& v, size_t i = 0) {
  static const Json kNull;
  const Json& list = at(v, "choices");
  return list.is_array() && i < list.size() ? list.items()[i] : kNull;
}

}  // namespace bora::serve::test
