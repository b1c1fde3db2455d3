// Routes are records: what is not in the record is not special-cased elsewhere. Help, auth, limits, metrics labels
// and the conformance suite are derived from it; a route that is not listed does not exist, and one that says nothing
// needs a key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::serve {

enum class Method : uint8_t { kGet, kPost, kDelete };  // closed: what HTTP has and we use
enum class Auth : uint8_t { kApiKey, kAdminKey, kOpen };

struct HttpRequest {
  Method method = Method::kGet;
  std::string path, query, body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string request_id;
  std::string key_id;  // identity of the key, empty without one
};

// How a handler answers. One thread at a time; calls after the client left return false.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void json(int status, const Json& body) = 0;
  virtual void text(int status, std::string_view content_type, std::string_view body) = 0;
  virtual void error(const Status& status, std::string_view param) = 0;    // mapped to HTTP and the API's error shape
  virtual void header(std::string_view name, std::string_view value) = 0;  // before the first byte of the body
  // Server-sent events. False: the client is gone or its buffer is full for good.
  virtual bool begin_events() = 0;
  virtual bool event(std::string_view data) = 0;
  virtual void end_events() = 0;
  virtual bool client_gone() const = 0;
};

struct FieldSpec {
  std::string_view name, type, range, summary;  // for docs and validation tables
};

class Services;  // what handlers may use: engine front end, tokenizers, metrics, clock; handed in by the composition
                 // root

struct Route {
  Method method = Method::kGet;
  std::string_view path;
  std::span<const std::string_view> aliases;
  std::string_view summary;
  Auth auth = Auth::kApiKey;
  std::span<const FieldSpec> fields;  // of the JSON body; empty for GET
  std::string_view example;           // a body that gives 200
  void (*handle)(Services& services, const HttpRequest& request, Responder& responder) = nullptr;
};

std::span<const Route* const> routes();

}  // namespace bora::serve
