// The bytes of requests, taken apart (Beast underneath): everything about a request that needs no socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/server.h"

namespace bora::net {

// One connection's incoming bytes. One thread at a time.
class RequestParser {
 public:
  enum class Event : uint8_t {
    kMore,   // all bytes are consumed, nothing has ended
    kHead,   // request() is filled but for the body; call next() to go on
    kWhole,  // request() is complete; next() begins another
    kFault,  // fault_status, fault_message; the connection must end
  };
  explicit RequestParser(const ServerOptions& options);
  ~RequestParser();

  void feed(std::string_view bytes);
  Event next();
  // Bytes that wait, of requests behind the current one.
  size_t buffered() const;
  bool in_head() const;  // at least a byte of a head was read, and not its end
  bool in_body() const;
  Request& request();
  bool keep_alive() const;
  bool http10() const;
  bool expects_continue() const;
  // Bytes of body that Content-Length promises, -1 when chunked; valid after kHead.
  int64_t body_bytes() const;
  int fault_status() const;
  const std::string& fault_message() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The head of a reply as text. `length` < 0: a chunked stream (http10: until the connection closes).
std::string reply_head(const Reply& reply, int64_t length, bool keep_alive, bool http10);

}  // namespace bora::net
