// An HTTP/1.1 server: sockets, framing, limits and time outs; it knows neither paths nor the API.
//
// A connection reads one request at a time, hands it to the Handler as an Exchange, and goes on to the next
// (pipelined ones wait in its buffer) when the answer is written. Answers are whole or a stream of server-sent
// events.
//
// Limits, each with its answer: head 431, body 413 (by Content-Length before a byte of it is read, by count when
// chunked), slow head or body 408, malformed 400, surplus connections 503. At the limit of connections one that has
// been idle or has half a head for a second is closed in favour of the new one, so half-open heads starve nobody.
//
// Threads: `io_threads` own the sockets, each connection on one strand. Handler members are called on them and must
// not block. Exchange members may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace bora::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name that resolves to one
  uint16_t port = 0;               // 0: the system chooses, see Server::port
  std::string unix_path;           // not empty: this socket instead of host and port, readable by the owner only
  int io_threads = 2;
  size_t max_connections = 4096;
  size_t max_head_bytes = 32 << 10;
  size_t max_body_bytes = 32 << 20;
  size_t stream_buffer_bytes = 64 << 10;   // waiting in a stream before Exchange::full
  int64_t head_timeout_us = 10'000'000;    // from the first byte of a head to its end
  int64_t body_timeout_us = 60'000'000;    // from the head to the end of the body
  int64_t idle_timeout_us = 75'000'000;    // between requests
  int64_t ping_us = 10'000'000;            // a comment after so much silence of a stream
  int64_t stall_timeout_us = 300'000'000;  // a client that takes nothing for so long is gone
};

struct Request {
  std::string method;  // as sent, upper case
  std::string target;  // as sent
  std::string path;    // decoded, without query
  std::string query;   // as sent, without '?'
  Headers headers;     // names in lower case, in order
  std::string body;

  // The first of that name (in lower case), or null.
  const std::string* header(std::string_view name) const;
};

struct Reply {
  int status = 200;
  Headers headers;  // Content-Length, Connection and Date are the server's affair
  std::string body;
};

// One request and its answer. Dropping it unanswered answers 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  virtual void reply(Reply reply) = 0;  // once, instead of a stream
  // A stream of events: head, then pieces that are complete events, then the end. False: the client is gone.
  virtual bool begin_stream(Headers headers) = 0;
  virtual bool write(std::string_view events) = 0;
  virtual void end_stream() = 0;
  // More waits than the client's buffer should hold: stop producing until `on_drained`.
  virtual bool full() const = 0;
  virtual bool gone() const = 0;
  // on_gone: once, when the client left before the end of the answer; on_drained: whenever full() became false.
  // Called on an io thread, or at once when the client has already left; both are dropped when the answer has ended.
  virtual void watch(std::function<void()> on_gone, std::function<void()> on_drained) = 0;
};

class Handler {
 public:
  virtual ~Handler() = default;
  // Sees the request before its body is read; an answer here spares reading the body. The body is empty.
  virtual std::optional<Reply> on_head(const Request& head) = 0;
  virtual void on_request(std::shared_ptr<Exchange> exchange) = 0;
  // Shapes an error that the transport found.
  virtual Reply on_fault(int status, std::string_view message) = 0;
};

class Server {
 public:
  // Listens and serves. `handler` outlives the server. kUnavailable: the address cannot be had; the message says why.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler* handler);
  virtual ~Server() = default;          // closes every connection and joins the threads
  virtual uint16_t port() const = 0;    // 0 for a unix socket
  virtual std::string url() const = 0;  // "http://127.0.0.1:8080" or "unix:PATH"
  virtual size_t connections() const = 0;
};

// What a request's bytes mean, without a socket: for fuzzing. Feeds `bytes` in pieces of `piece` bytes and returns
// the status that the transport would answer: 0 = more is needed, 200 = a whole request, filled into *out.
int parse_request(std::string_view bytes, size_t piece, const ServerOptions& options, Request* out);

}  // namespace bora::net
