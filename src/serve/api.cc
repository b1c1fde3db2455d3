#include "serve/api.h"

#include <algorithm>

#include "serve/generation.h"

namespace bora::serve {
namespace {

struct ErrorKind {
  Code code;
  int http;
  std::string_view type;
};

// The one map from our codes to HTTP.
constexpr ErrorKind kKinds[] = {
    {Code::kInvalidArgument, 400, "invalid_request_error"},
    {Code::kOutOfRange, 400, "invalid_request_error"},
    {Code::kFailedPrecondition, 400, "invalid_request_error"},
    {Code::kUnimplemented, 400, "invalid_request_error"},
    {Code::kUnauthenticated, 401, "authentication_error"},
    {Code::kPermissionDenied, 403, "permission_error"},
    {Code::kNotFound, 404, "not_found_error"},
    {Code::kAlreadyExists, 409, "invalid_request_error"},
    {Code::kResourceExhausted, 429, "rate_limit_error"},
    {Code::kUnavailable, 503, "unavailable_error"},
    {Code::kCancelled, 503, "unavailable_error"},
    {Code::kDeadlineExceeded, 504, "timeout_error"},
};

std::string_view type_of_status(int status) {
  if (status == 408) return "timeout_error";
  for (const ErrorKind& kind : kKinds) {
    if (kind.http == status) return kind.type;
  }
  return status >= 500 ? "server_error" : "invalid_request_error";
}

Json error_body(std::string_view message, std::string_view type, const std::string& param, const Json& code) {
  Json error = Json::object(), out = Json::object();
  error.set("message", message);
  error.set("type", type);
  error.set("param", param.empty() ? Json() : Json(param));
  error.set("code", code);
  out.set("error", std::move(error));
  return out;
}

// Echoed when it is harmless in headers and logs.
bool good_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

// Whether `path` is the pattern, or fits it where it ends in {…}.
bool fits(std::string_view pattern, std::string_view path, std::string* tail) {
  if (!pattern.ends_with("}")) return pattern == path;
  const std::string_view prefix = pattern.substr(0, pattern.find('{'));
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return false;
  *tail = std::string(path.substr(prefix.size()));
  return true;
}

bool fits(const Route& route, std::string_view path, std::string* tail) {
  if (fits(route.path, path, tail)) return true;
  return std::any_of(route.aliases.begin(), route.aliases.end(),
                     [&](std::string_view alias) { return fits(alias, path, tail); });
}

std::string_view method_name(Method method) {
  return method == Method::kGet ? "GET" : method == Method::kPost ? "POST" : "DELETE";
}

bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  std::string lower(type);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower == "application/json" || (lower.starts_with("application/") && lower.ends_with("+json"));
}

}  // namespace

Json error_json(const Fault& fault, int* http_status) {
  *http_status = 500;
  std::string_view type = "server_error";
  for (const ErrorKind& kind : kKinds) {
    if (kind.code == fault.status.code()) {
      *http_status = kind.http;
      type = kind.type;
    }
  }
  // The number as code is what clients of a loading server look for.
  Json code = fault.code.empty() ? Json() : Json(fault.code);
  if (*http_status == 503 && fault.code.empty()) code = 503;
  return error_body(fault.status.message(), type, fault.param, code);
}

namespace {

class HttpResponder : public Responder {
 public:
  HttpResponder(Services* services, std::shared_ptr<net::Exchange> exchange, std::string_view route, std::string id,
                std::string key_id, std::shared_ptr<std::atomic<int64_t>> open)
      : services_(services),
        exchange_(std::move(exchange)),
        route_(route),
        id_(std::move(id)),
        key_id_(std::move(key_id)),
        arrived_us_(services->clock().now_us()),
        open_(std::move(open)) {
    ++*open_;
    headers_.emplace_back("x-request-id", id_);
  }
  ~HttpResponder() override {
    if (!ended_) finish(exchange_->gone() ? 499 : 500);
    --*open_;
  }

  void json(int status, const Json& body) override { text(status, "application/json", body.dump()); }
  void text(int status, std::string_view content_type, std::string_view body) override {
    if (ended_ || streaming_) return;
    headers_.emplace_back("content-type", content_type);
    finish(exchange_->gone() ? 499 : status);
    exchange_->reply({status, std::move(headers_), std::string(body)});
  }
  void error(const Fault& fault) override {
    int status = 500;
    const Json body = error_json(fault, &status);
    if (status == 429 || status == 503) header("retry-after", std::to_string(services_->retry_after()));
    if (status == 504) header("x-should-retry", "false");
    json(status, body);
  }
  void header(std::string_view name, std::string_view value) override { headers_.emplace_back(name, value); }
  bool begin_events() override {
    headers_.emplace_back("content-type", "text/event-stream; charset=utf-8");
    headers_.emplace_back("cache-control", "no-cache");
    headers_.emplace_back("x-accel-buffering", "no");
    streaming_ = true;
    return exchange_->begin_stream(std::move(headers_));
  }
  bool write_events(std::string_view events) override { return events.empty() || exchange_->write(events); }
  void end_events() override {
    finish(exchange_->gone() ? 499 : 200);
    exchange_->end_stream();
  }
  bool full() const override { return exchange_->full(); }
  bool client_gone() const override { return exchange_->gone(); }
  void watch(std::function<void()> gone, std::function<void()> drained) override {
    exchange_->watch(std::move(gone), std::move(drained));
  }
  RequestRecord& record() override { return record_; }
  int64_t arrived_us() const override { return arrived_us_; }

 private:
  // One line and one count a request, without a word of its text; before the client can see the end, so that its own
  // sums and ours agree.
  void finish(int status) {
    ended_ = true;
    const int64_t us = services_->clock().now_us() - arrived_us_;
    services_->metrics().answered(route_, status, static_cast<double>(us) * 1e-6);
    services_->log().info("request", {{"route", route_},
                                      {"status", status},
                                      {"id", std::string_view(id_)},
                                      {"key", std::string_view(key_id_)},
                                      {"ms", static_cast<double>(us) * 1e-3},
                                      {"model", std::string_view(record_.model)},
                                      {"prompt_tokens", record_.prompt_tokens},
                                      {"cached_tokens", record_.cached_tokens},
                                      {"completion_tokens", record_.completion_tokens},
                                      {"first_token_ms", static_cast<double>(record_.first_token_us) * 1e-3},
                                      {"finish", std::string_view(record_.finish)}});
  }

  Services* services_;
  std::shared_ptr<net::Exchange> exchange_;
  const std::string_view route_;
  const std::string id_, key_id_;
  const int64_t arrived_us_;
  std::shared_ptr<std::atomic<int64_t>> open_;
  net::Headers headers_;
  RequestRecord record_;
  bool streaming_ = false, ended_ = false;
};

}  // namespace

struct Api::Found {
  const Route* route = nullptr;
  std::string tail, key_id;
};

Api::Api(const ApiOptions& options, Services* services, const Keys* keys)
    : options_(options), services_(services), keys_(keys), pool_(options.workers, options.max_queued) {}

Api::~Api() = default;

std::optional<Fault> Api::check_key(const net::Request& head, const Route& route, std::string* key_id) const {
  if (route.auth == Auth::kOpen || (route.auth == Auth::kMetrics && options_.metrics_open)) return std::nullopt;
  const bool admin = route.auth == Auth::kAdminKey;
  if (!keys_->any_api() && !admin) return std::nullopt;
  if (admin && !keys_->any_admin())
    return Fault{Status(Code::kPermissionDenied, "this needs an admin key, and the server has none"), "", ""};
  std::string_view given;
  if (const std::string* value = head.header("x-api-key")) given = *value;
  if (const std::string* value = head.header("authorization")) {
    constexpr std::string_view kBearer = "bearer ";
    std::string scheme = value->substr(0, kBearer.size());
    std::transform(scheme.begin(), scheme.end(), scheme.begin(), [](unsigned char c) { return std::tolower(c); });
    if (scheme == kBearer) given = std::string_view(*value).substr(kBearer.size());
  }
  if (given.empty())
    return Fault{Status(Code::kUnauthenticated, "a key is needed: send Authorization: Bearer KEY"), "",
                 "invalid_api_key"};
  const auto match = keys_->find(given);
  if (!match) return Fault{Status(Code::kUnauthenticated, "the key is not valid"), "", "invalid_api_key"};
  if (admin && !match->admin) return Fault{Status(Code::kPermissionDenied, "this needs an admin key"), "", ""};
  *key_id = match->id;
  return std::nullopt;
}

// What can be said of a request without its body. Fills *found when it may go on.
std::optional<net::Reply> Api::refuse(const net::Request& head, const std::string& id, Found* found) const {
  const auto answer = [&](int status, const Json& body) {
    net::Reply reply{status, {{"content-type", "application/json"}, {"x-request-id", id}}, body.dump()};
    if (status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
    if (status == 503) reply.headers.emplace_back("retry-after", std::to_string(services_->retry_after()));
    return reply;
  };
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string allow;
  for (const Route* route : routes()) {
    std::string tail;
    if (!fits(*route, head.path, &tail)) continue;
    allow += std::string(allow.empty() ? "" : ", ") + std::string(method_name(route->method)) +
             (route->method == Method::kGet ? ", HEAD" : "");
    if (method == method_name(route->method)) *found = {route, tail, ""};
  }
  if (method == "OPTIONS" && (!allow.empty() || head.path == "*"))
    return net::Reply{204, {{"allow", allow + (allow.empty() ? "OPTIONS" : ", OPTIONS")}, {"x-request-id", id}}, ""};
  if (allow.empty())
    return answer(404, error_body("there is no such path; GET /help lists them", "not_found_error", "", {}));
  if (found->route == nullptr) {
    net::Reply reply = answer(405, error_body("this path takes " + allow, "invalid_request_error", "", {}));
    reply.headers.emplace_back("allow", allow + ", OPTIONS");
    return reply;
  }
  int status = 0;
  if (const auto fault = check_key(head, *found->route, &found->key_id)) {
    const Json body = error_json(*fault, &status);
    return answer(status, body);
  }
  if (found->route->method == Method::kPost) {
    const std::string* type = head.header("content-type");
    if (type != nullptr && !is_json(*type)) {
      return answer(415, error_body("the body must be JSON: send Content-Type: application/json",
                                    "invalid_request_error", "", {}));
    }
    if (services_->draining()) {
      const Json body = error_json({unavailable("the server is ending"), "", ""}, &status);
      return answer(status, body);
    }
  }
  return std::nullopt;
}

std::optional<net::Reply> Api::on_head(const net::Request& head) {
  const std::string* given = head.header("x-request-id");
  const std::string id = given != nullptr && good_request_id(*given) ? *given : services_->new_id("req-");
  Found found;
  auto reply = refuse(head, id, &found);
  if (!reply) return std::nullopt;
  const std::string_view route = found.route != nullptr ? found.route->path : "none";
  services_->metrics().answered(route, reply->status, 0);
  services_->log().info("request", {{"route", route}, {"status", reply->status}, {"id", std::string_view(id)}});
  return reply;
}

void Api::on_request(std::shared_ptr<net::Exchange> exchange) {
  const net::Request& head = exchange->request();
  const std::string* given = head.header("x-request-id");
  const std::string id = given != nullptr && good_request_id(*given) ? *given : services_->new_id("req-");
  Found found;
  // Keys may have changed since the head.
  if (auto reply = refuse(head, id, &found)) return exchange->reply(*std::move(reply));
  auto request = std::make_shared<HttpRequest>();
  request->method = found.route->method;
  request->path = head.path;
  request->query = head.query;
  request->tail = std::move(found.tail);
  request->headers = head.headers;
  request->request_id = id;
  request->key_id = found.key_id;
  auto responder =
      std::make_shared<HttpResponder>(services_, exchange, found.route->path, id, std::move(found.key_id), open_);
  if (request->method == Method::kGet) return found.route->handle(*services_, *request, std::move(responder));
  const Route* route = found.route;
  const Status queued = pool_.submit([this, route, request, exchange, responder]() mutable {
    if (exchange->gone()) return;
    request->body = exchange->request().body;
    exchange.reset();
    route->handle(*services_, *request, std::move(responder));
  });
  if (!queued.ok()) responder->error({resource_exhausted("too many requests wait; try again later"), "", ""});
}

net::Reply Api::on_fault(int status, std::string_view message) {
  const Json code = status == 503 ? Json(503) : Json();
  net::Reply reply{
      status, {{"content-type", "application/json"}}, error_body(message, type_of_status(status), "", code).dump()};
  const std::string id = services_->new_id("req-");
  reply.headers.emplace_back("x-request-id", id);
  if (status == 503) reply.headers.emplace_back("retry-after", "1");
  services_->metrics().answered("none", status, 0);
  services_->log().info("request", {{"route", "none"}, {"status", status}, {"id", std::string_view(id)}});
  return reply;
}

Status check_exposure(const std::string& host, bool unix_socket, bool has_key, bool allow_open) {
  const bool loopback = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (unix_socket || loopback || has_key || allow_open) return {};
  return invalid_argument(
      "the address " + host +
      " can be reached from other machines and no key is set: give --api-key-file, or --allow-open "
      "to serve everybody");
}

}  // namespace bora::serve
