// Over the list of routes: keys, examples, methods, media types, and every field's refused value.
#include "serve/test_server.h"

namespace bora::serve {
namespace {

using namespace test;

class Conformance : public ServerTest {
 protected:
  // A request to a route as its record says that it works, with headers.
  Answer example(const Route& route, std::string_view headers, std::string_view path = "") {
    if (path.empty()) path = route.path;
    std::string target(path.substr(0, path.find('{')));
    if (path.ends_with("}")) target += route.example;
    return ask(route.method == Method::kPost ? "POST" : "GET", target, route.fields.empty() ? "" : route.example,
               headers);
  }
};

constexpr std::string_view kKey = "Authorization: Bearer sk-test-0123456789\r\n";

TEST_F(Conformance, EveryRouteNeedsAKeyUnlessItsRecordSaysOpen) {
  key_sources.api_keys = {"sk-test-0123456789"};
  start();
  int checked = 0;
  for (const Route* route : routes()) {
    SCOPED_TRACE(route->path);
    const bool open = route->auth == Auth::kOpen;
    EXPECT_EQ(example(*route, "").status, open ? 200 : 401);
    EXPECT_EQ(example(*route, "Authorization: Bearer sk-test-012345678\r\n").status, open ? 200 : 401);
    EXPECT_EQ(example(*route, "Authorization: Basic sk-test-0123456789\r\n").status, open ? 200 : 401);
    EXPECT_EQ(example(*route, kKey).status, 200) << example(*route, kKey).body;
    EXPECT_EQ(example(*route, "x-api-key: sk-test-0123456789\r\n").status, 200);
    EXPECT_FALSE(route->summary.empty());
    ++checked;
  }
  EXPECT_GE(checked, 14);
}

TEST_F(Conformance, AliasesAreTheRoute) {
  start();
  int checked = 0;
  for (const Route* route : routes()) {
    for (const std::string_view alias : route->aliases) {
      EXPECT_EQ(example(*route, "", alias).status, 200) << alias;
      ++checked;
    }
  }
  EXPECT_GE(checked, 8);
}

TEST_F(Conformance, WrongMethodsAre405WithAllow) {
  start();
  for (const Route* route : routes()) {
    SCOPED_TRACE(route->path);
    std::string path(route->path.substr(0, route->path.find('{')));
    if (route->path.ends_with("}")) path += route->example;
    for (const char* method : {"PUT", "PATCH", "DELETE", "BREW", route->method == Method::kPost ? "GET" : "POST"}) {
      const Answer a = ask(method, path);
      EXPECT_EQ(a.status, 405) << method;
      EXPECT_NE(a.headers.at("allow").find(route->method == Method::kPost ? "POST" : "GET, HEAD"), std::string::npos);
    }
    const Answer options = ask("OPTIONS", path);
    EXPECT_EQ(options.status, 204);
    EXPECT_EQ(options.headers.count("access-control-allow-origin"), 0u);
    if (route->method == Method::kGet) {
      EXPECT_EQ(ask("HEAD", path).status, 200);
    }
  }
}

TEST_F(Conformance, OtherMediaTypesAre415) {
  start();
  int checked = 0;
  for (const Route* route : routes()) {
    if (route->method != Method::kPost) continue;
    for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"})
      EXPECT_EQ(example(*route, "Content-Type: " + std::string(type) + "\r\n").status, 415) << route->path;
    EXPECT_EQ(example(*route, "Content-Type: Application/JSON; charset=utf-8\r\n").status, 200) << route->path;
    ++checked;
  }
  EXPECT_GE(checked, 4);
}

TEST_F(Conformance, EveryFieldIsCheckedAndNamed) {
  start();
  int checked = 0;
  for (const Route* route : routes()) {
    if (route->fields.empty()) continue;
    for (const FieldSpec& field : route->fields) {
      if (field.refused.empty()) continue;
      SCOPED_TRACE(std::string(route->path) + " " + std::string(field.name));
      const auto example = Json::parse(route->example);
      const auto refused = Json::parse(field.refused);
      ASSERT_TRUE(example.ok() && example->is_object() && refused.ok());
      Json body = *example;
      body.set(field.name, *refused);
      const Answer a = ask("POST", route->path, body.dump());
      EXPECT_EQ(a.status, 400) << body.dump();
      const auto answer = Json::parse(a.body);
      ASSERT_TRUE(answer.ok());
      const Json& error = at(*answer, "error");
      const std::string param = at(error, "param").is_string() ? at(error, "param").as_string() : "";
      EXPECT_TRUE(param == field.name || param.starts_with(std::string(field.name) + "[")) << a.body;
      EXPECT_EQ(at(error, "type"), Json("invalid_request_error"));
      EXPECT_NE(at(error, "message").as_string().find(field.name), std::string::npos) << a.body;
      // Null counts as absent, for fields that are not required.
      if (example->find(field.name) == nullptr) {
        body.set(field.name, Json());
        EXPECT_EQ(ask("POST", route->path, body.dump()).status, 200) << body.dump();
      }
      // A value of another type is no crash and never our fault.
      for (const char* odd : {"{}", "[]", "\"\"", "1e999", "-1", "true", "[[[]]]", "18446744073709551615"}) {
        const std::string text = body.dump();
        const std::string with =
            text.substr(0, text.size() - 1) + ", \"" + std::string(field.name) + "\": " + odd + "}";
        const int status = ask("POST", route->path, with).status;
        EXPECT_TRUE(status == 200 || status == 400 || status == 404) << with << status;
      }
      ++checked;
    }
  }
  EXPECT_GE(checked, 150);
}

TEST_F(Conformance, UnknownPathsAre404AndNamesDiffer) {
  start();
  for (const char* path :
       {"/", "/v1", "/v1/chat", "/v1/models/", "/healthz", "/v1/completions/", "/metrics/../metrics"})
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  std::set<std::string> seen;
  for (const Route* route : routes()) {
    const auto add = [&](std::string_view path) {
      EXPECT_TRUE(seen.insert(std::to_string(static_cast<int>(route->method)) + std::string(path)).second) << path;
    };
    add(route->path);
    for (const std::string_view alias : route->aliases) add(alias);
    std::set<std::string_view> names;
    for (const FieldSpec& field : route->fields) EXPECT_TRUE(names.insert(field.name).second) << field.name;
  }
}

TEST_F(Conformance, HelpAndOpenApiFollowFromTheRecords) {
  start();
  const Answer help = ask("GET", "/help");
  const auto api_json = Json::parse(ask("GET", "/openapi.json").body);
  ASSERT_TRUE(api_json.ok());
  for (const Route* route : routes()) {
    EXPECT_NE(help.body.find(std::string(route->path) + "  ("), std::string::npos);
    EXPECT_TRUE(at(*api_json, "paths").contains(route->path)) << route->path;
  }
}

}  // namespace
}  // namespace bora::serve
