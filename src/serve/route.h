// Routes are records: what is not in the record is not special-cased elsewhere. Help, auth, limits, metrics labels
// and the conformance suite are derived from it; a route that is not listed does not exist, and one that says nothing
// needs a key.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::serve {

enum class Method : uint8_t { kGet, kPost, kDelete };  // closed: what HTTP has and we use
// kMetrics: a key, unless the server was told to show its metrics to everybody.
enum class Auth : uint8_t { kApiKey, kAdminKey, kOpen, kMetrics };

struct HttpRequest {
  Method method = Method::kGet;
  std::string path, query, body;
  std::string tail;                                          // what stood for {…} at the end of the route's path
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string request_id;
  std::string key_id;  // identity of the key, empty without one
};

// Why a request is refused: mapped to HTTP and the API's error shape in one place.
struct Fault {
  Status status;
  std::string param;  // the field, a path with index for nested ones; empty = none
  std::string code;   // "unsupported_feature", "context_length_exceeded", …; empty = none
};

// What the log line and the metrics of a request say besides its head; filled by handlers, never with text of it.
struct RequestRecord {
  std::string model;
  int32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  int64_t first_token_us = -1;  // from the request's arrival
  std::string finish;
};

// How a handler answers. Calls from one thread at a time; calls after the client left do nothing and return false.
// Exactly one of json, text, error and begin_events; dropping it unanswered answers 500.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void json(int status, const Json& body) = 0;
  virtual void text(int status, std::string_view content_type, std::string_view body) = 0;
  virtual void error(const Fault& fault) = 0;
  virtual void header(std::string_view name, std::string_view value) = 0;  // before the first byte of the body
  // Server-sent events, preformatted: "data: …\n\n" as often as wanted.
  virtual bool begin_events() = 0;
  virtual bool write_events(std::string_view events) = 0;
  virtual void end_events() = 0;
  virtual bool full() const = 0;  // the client reads slower than we write: wait for `drained`
  virtual bool client_gone() const = 0;
  // `gone` once when the client leaves before the end; `drained` when full() became false. Called on another thread.
  virtual void watch(std::function<void()> gone, std::function<void()> drained) = 0;
  virtual RequestRecord& record() = 0;  // before the end of the answer
  virtual int64_t arrived_us() const = 0;
};

struct FieldSpec {
  std::string_view name, type, range, summary;  // for docs and validation tables
  std::string_view refused = "";                // JSON of a value that gives 400 naming the field; empty: none is
};

class Services;  // what handlers may use: engine front end, tokenizers, metrics, clock; handed in by the composition
                 // root

struct Route {
  Method method = Method::kGet;
  std::string_view path;  // may end in "{name}", which stands for the rest, not empty
  std::span<const std::string_view> aliases;
  std::string_view summary;
  Auth auth = Auth::kApiKey;
  std::span<const FieldSpec> fields;  // of the JSON body; empty for GET
  std::string_view example;           // a body that gives 200; for a path with {…}, the tail that does
  // GET: on a network thread, must not block. Others: on the work pool. The answer may come later, from any thread.
  void (*handle)(Services& services, const HttpRequest& request, std::shared_ptr<Responder> responder) = nullptr;
};

std::span<const Route* const> routes();

}  // namespace bora::serve
