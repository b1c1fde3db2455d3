// Api: what stands between sockets and handlers. Routes, keys, media types, request ids, errors as the API words
// them, one log line and the metrics of every request.
//
// Order of checks, before a body is read: route 404, method 405, key 401 or 403, media type 415, draining 503.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/work_pool.h"
#include "net/server.h"
#include "serve/keys.h"
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {

struct ApiOptions {
  bool metrics_open = false;
  int workers = 2;          // of the pool that renders and tokenizes
  size_t max_queued = 256;  // requests that wait for it, before 429
};

// Any thread. Outlives the net::Server that it is handed to.
class Api : public net::Handler {
 public:
  // All outlive it.
  Api(const ApiOptions& options, Services* services, const Keys* keys);
  ~Api() override;

  std::optional<net::Reply> on_head(const net::Request& head) override;
  void on_request(std::shared_ptr<net::Exchange> exchange) override;
  net::Reply on_fault(int status, std::string_view message) override;

  // Requests whose answer has not ended.
  int64_t open_requests() const { return *open_; }

 private:
  struct Found;
  std::optional<net::Reply> refuse(const net::Request& head, const std::string& id, Found* found) const;
  std::optional<Fault> check_key(const net::Request& head, const Route& route, std::string* key_id) const;

  const ApiOptions options_;
  Services* services_;
  const Keys* keys_;
  std::shared_ptr<std::atomic<int64_t>> open_ = std::make_shared<std::atomic<int64_t>>(0);
  WorkPool pool_;
};

// A public address without a key is refused unless `allow_open`.
Status check_exposure(const std::string& host, bool unix_socket, bool has_key, bool allow_open);

}  // namespace bora::serve
