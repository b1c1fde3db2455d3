// A blocking HTTP client for tests: raw bytes out, answers taken apart. One thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace bora::net::test {

struct Answer {
  int status = 0;  // 0: the connection ended before a head
  std::map<std::string, std::string> headers;
  std::string body;
  bool complete = false;
};

class Client {
 public:
  explicit Client(uint16_t port, int timeout_s = 10, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    prepare(timeout_s, receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit Client(const std::string& unix_path) {
    fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    prepare(10, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy_n(unix_path.c_str(), std::min(unix_path.size() + 1, sizeof address.sun_path), address.sun_path);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Appends what comes; false at the end or after the time limit.
  bool more() {
    char chunk[16384];
    const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    in_.append(chunk, static_cast<size_t>(n));
    return true;
  }
  // True when the peer closed, within the time limit; drops what comes before.
  bool ended() {
    char chunk[16384];
    while (true) {
      const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
      if (n == 0) return true;
      if (n < 0) return errno == ECONNRESET;
    }
  }
  // Waits until `mark` has come; false at the end.
  bool until(std::string_view mark) {
    while (in_.find(mark) == std::string::npos) {
      if (!more()) return false;
    }
    return true;
  }
  const std::string& pending() const { return in_; }

  Answer read(bool head_only = false) {
    Answer a;
    while (true) {
      if (!until("\r\n\r\n")) return a;
      const size_t end = in_.find("\r\n\r\n");
      parse_head(in_.substr(0, end), &a);
      in_.erase(0, end + 4);
      if (a.status != 100) break;
    }
    if (head_only || a.status == 204) {
      a.complete = true;
      return a;
    }
    if (a.headers.count("content-length") != 0) {
      const size_t size = std::strtoull(a.headers["content-length"].c_str(), nullptr, 10);
      while (in_.size() < size) {
        if (!more()) break;
      }
      a.complete = in_.size() >= size;
      a.body = in_.substr(0, size);
      in_.erase(0, size);
    } else if (a.headers["transfer-encoding"] == "chunked") {
      a.complete = chunks(&a.body);
    } else {
      while (more()) {
      }
      a.body = std::move(in_);
      a.complete = true;
    }
    return a;
  }
  Answer ask(std::string_view method, std::string_view path, std::string_view body = "", std::string_view more = "") {
    send(request(method, path, body, more));
    return read(method == "HEAD");
  }
  static std::string request(std::string_view method, std::string_view path, std::string_view body = "",
                             std::string_view more = "") {
    std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n";
    if (!body.empty() || method == "POST") {
      if (more.find("Content-Type") == std::string_view::npos) text += "Content-Type: application/json\r\n";
      text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    }
    return text + std::string(more) + "\r\n" + std::string(body);
  }

 private:
  void prepare(int timeout_s, int receive_buffer) {
    const timeval limit{timeout_s, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  static void parse_head(const std::string& head, Answer* a) {
    a->headers.clear();
    a->status = head.size() > 12 ? std::atoi(head.c_str() + 9) : 0;
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      const size_t begin = at + 2, end = std::min(head.find("\r\n", begin), head.size());
      const size_t colon = head.find(':', begin);
      std::string name = head.substr(begin, colon - begin);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      a->headers[name] = head.substr(std::min(colon + 2, end), end - std::min(colon + 2, end));
      at = head.find("\r\n", begin);
    }
  }
  bool chunks(std::string* body) {
    while (true) {
      if (!until("\r\n")) return false;
      const size_t size = std::strtoull(in_.c_str(), nullptr, 16), line = in_.find("\r\n") + 2;
      while (in_.size() < line + size + 2) {
        if (!more()) return false;
      }
      body->append(in_, line, size);
      in_.erase(0, line + size + 2);
      if (size == 0) return true;
    }
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string in_;
};

}  // namespace bora::net::test
