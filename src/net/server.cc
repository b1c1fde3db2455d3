#include "net/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <charconv>
#include <mutex>
#include <set>
#include <thread>

#include "net/parser.h"

namespace bora::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using std::chrono::microseconds;
using Moment = std::chrono::steady_clock::time_point;

namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kReadAhead = 64 << 10;    // of requests that wait behind the current one
constexpr int64_t kSmallBody = 64 << 10;   // read and dropped for the sake of the connection
constexpr size_t kLingerBytes = 64 << 20;  // read and dropped after an answer that ends the connection
constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kEvictAge = std::chrono::seconds(1);
constexpr size_t kRefusing = 64;  // surplus connections that are told so at a time

Moment now() { return std::chrono::steady_clock::now(); }

}  // namespace

class Connection;

// What the connections of a server share. Connections that a handler still holds keep it alive.
struct Shared {
  explicit Shared(const ServerOptions& o) : options(o), io(o.io_threads) {}
  const ServerOptions options;
  asio::io_context io;
  Handler* handler = nullptr;
  std::mutex mutex;
  std::set<std::shared_ptr<Connection>> open;  // guarded by mutex
  std::atomic<size_t> count{0};
  std::atomic<bool> stopping{false};
};

// Every member without a remark runs on the strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        parser_(shared_->options),
        since_(now().time_since_epoch().count()) {}

  // Any thread, once. `refused`: answers 503 and ends.
  void begin(bool refused) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), refused] {
      if (refused) {
        self->answer_fault(503, "too many connections; try again later");
      } else {
        self->enter(Phase::kIdle, microseconds(self->shared_->options.idle_timeout_us));
      }
      self->read();
    });
  }
  // Any thread.
  void close_soon() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->closed(); });
  }
  // Any thread: idle, or stuck in a head, for at least a second.
  bool evictable() const {
    const Phase phase = phase_;
    return (phase == Phase::kIdle || phase == Phase::kHead) &&
           now().time_since_epoch().count() - since_ >= Moment::duration(kEvictAge).count();
  }
  int64_t since() const { return since_; }

  // The exchange's side: any thread.
  void reply(uint64_t id, Reply reply);
  bool begin_stream(uint64_t id, Headers headers);
  bool write(uint64_t id, std::string_view text);
  void end_stream(uint64_t id);
  void abandon(uint64_t id);
  bool full() const;
  bool gone() const { return gone_; }
  void watch(uint64_t id, std::function<void()> on_gone, std::function<void()> on_drained);

 private:
  enum class Phase : uint8_t { kIdle, kHead, kBody, kAnswering, kLinger, kClosed };

  void enter(Phase phase, microseconds limit) {
    phase_ = phase;
    since_ = now().time_since_epoch().count();
    arm(limit);
  }
  void arm(microseconds limit);
  void expired();
  void tick();
  void read();
  void on_read(error_code ec, size_t bytes);
  void parse();
  void on_head();
  uint64_t begin_exchange();
  void dispatch();
  void answer_fault(int status, std::string_view message);
  void answer_now(Reply reply, bool keep_alive);
  void post_flush();
  void flush();
  void on_written(error_code ec);
  void answered();
  void linger();
  void closed();
  microseconds tick_length() const {
    return microseconds(std::max<int64_t>(
        1000, std::min({shared_->options.ping_us, shared_->options.stall_timeout_us, int64_t{10'000'000}})));
  }

  std::shared_ptr<Shared> shared_;
  Socket socket_;
  asio::steady_timer timer_;
  RequestParser parser_;
  std::array<char, kReadBytes> chunk_;
  std::atomic<Phase> phase_{Phase::kIdle};
  std::atomic<int64_t> since_;
  bool reading_ = false, writing_ = false, keep_alive_ = false, http10_ = false, head_only_ = false;
  std::optional<Reply> early_;  // the answer that does not need the body
  Moment last_write_;
  std::string in_flight_;
  size_t lingered_ = 0;

  std::atomic<bool> gone_{false};
  mutable std::mutex mutex_;  // guards what follows
  uint64_t exchange_ = 0;     // the current one; calls of older ones are void
  std::string raw_, events_;  // wait for the next write: heads and whole answers; the payload of a stream
  size_t flying_ = 0;
  bool streaming_ = false, finished_ = false, flush_posted_ = false, was_full_ = false;
  std::function<void()> on_gone_, on_drained_;
};

namespace {

class ExchangeOfConnection : public Exchange {
 public:
  ExchangeOfConnection(std::shared_ptr<Connection> connection, uint64_t id, Request request)
      : connection_(std::move(connection)), id_(id), request_(std::move(request)) {}
  ~ExchangeOfConnection() override { connection_->abandon(id_); }
  const Request& request() const override { return request_; }
  void reply(Reply reply) override { connection_->reply(id_, std::move(reply)); }
  bool begin_stream(Headers headers) override { return connection_->begin_stream(id_, std::move(headers)); }
  bool write(std::string_view events) override { return connection_->write(id_, events); }
  void end_stream() override { connection_->end_stream(id_); }
  bool full() const override { return connection_->full(); }
  bool gone() const override { return connection_->gone(); }
  void watch(std::function<void()> on_gone, std::function<void()> on_drained) override {
    connection_->watch(id_, std::move(on_gone), std::move(on_drained));
  }

 private:
  std::shared_ptr<Connection> connection_;
  const uint64_t id_;
  const Request request_;
};

}  // namespace

void Connection::arm(microseconds limit) {
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this()](error_code ec) {
    // A re-armed timer may have its old expiry queued already: the time tells.
    if (!ec && self->timer_.expiry() <= now()) self->expired();
  });
}

void Connection::expired() {
  switch (phase_) {
    case Phase::kHead:
      return answer_fault(408, "the head of the request did not arrive in time");
    case Phase::kBody:
      return answer_fault(408, "the body of the request did not arrive in time");
    case Phase::kAnswering:
      return tick();
    default:
      return closed();
  }
}

// While an answer is made or written: pings a silent stream, ends a client that takes nothing.
void Connection::tick() {
  const auto silent = now() - last_write_;
  if (writing_ && silent >= microseconds(shared_->options.stall_timeout_us)) return closed();
  if (!writing_ && silent + std::chrono::milliseconds(1) >= microseconds(shared_->options.ping_us)) {
    std::unique_lock lock(mutex_);
    if (streaming_ && !finished_ && events_.empty()) {
      events_ = ": ping\n\n";
      lock.unlock();
      flush();
    }
  }
  arm(tick_length());
}

void Connection::read() {
  if (reading_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kAnswering && parser_.buffered() >= kReadAhead) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code ec, size_t bytes) {
    self->reading_ = false;
    self->on_read(ec, bytes);
  });
}

void Connection::on_read(error_code ec, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (ec) {
    // Half a request, or a client that closed its side: it is gone, unless its answer is being written already.
    if (phase_ == Phase::kAnswering && ec == asio::error::eof) {
      std::lock_guard lock(mutex_);
      if (finished_) {
        keep_alive_ = false;
        return;
      }
    }
    return closed();
  }
  if (phase_ == Phase::kLinger) {
    lingered_ += bytes;
    if (lingered_ > kLingerBytes) return closed();
  } else {
    parser_.feed({chunk_.data(), bytes});
    if (phase_ != Phase::kAnswering) parse();
  }
  read();
}

void Connection::parse() {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHead || phase_ == Phase::kBody) {
    switch (parser_.next()) {
      case RequestParser::Event::kMore:
        if (phase_ == Phase::kIdle && parser_.in_head())
          enter(Phase::kHead, microseconds(shared_->options.head_timeout_us));
        return;
      case RequestParser::Event::kHead:
        on_head();
        break;
      case RequestParser::Event::kWhole:
        dispatch();
        break;
      case RequestParser::Event::kFault:
        return answer_fault(parser_.fault_status(), parser_.fault_message());
    }
  }
}

void Connection::on_head() {
  keep_alive_ = parser_.keep_alive() && !shared_->stopping;
  http10_ = parser_.http10();
  head_only_ = parser_.request().method == "HEAD";
  early_ = shared_->handler->on_head(parser_.request());
  enter(Phase::kBody, microseconds(shared_->options.body_timeout_us));
  const int64_t body = parser_.body_bytes();
  if (early_ && (body < 0 || body > kSmallBody || parser_.expects_continue())) {
    if (body != 0) return answer_now(*std::move(early_), false);
  }
  if (!early_ && parser_.expects_continue() && body != 0) {
    std::lock_guard lock(mutex_);
    raw_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->flush(); });
  }
}

// An answer begins: its number, by which late writers of an earlier one are told apart.
uint64_t Connection::begin_exchange() {
  last_write_ = now();
  enter(Phase::kAnswering, tick_length());
  std::lock_guard lock(mutex_);
  streaming_ = finished_ = was_full_ = false;
  return ++exchange_;
}

void Connection::dispatch() {
  if (early_) return answer_now(*std::move(early_), keep_alive_);
  const uint64_t id = begin_exchange();
  shared_->handler->on_request(
      std::make_shared<ExchangeOfConnection>(shared_from_this(), id, std::move(parser_.request())));
}

void Connection::answer_fault(int status, std::string_view message) {
  answer_now(shared_->handler->on_fault(status, message), false);
}

void Connection::answer_now(Reply reply, bool keep_alive) {
  early_.reset();
  keep_alive_ = keep_alive;
  const uint64_t id = begin_exchange();
  this->reply(id, std::move(reply));
}

void Connection::reply(uint64_t id, Reply reply) {
  std::lock_guard lock(mutex_);
  if (id != exchange_ || finished_ || streaming_ || gone_) return;
  raw_ += reply_head(reply, static_cast<int64_t>(reply.body.size()), keep_alive_, http10_);
  if (!head_only_ && reply.status != 204) raw_ += reply.body;
  finished_ = true;
  post_flush();
}

bool Connection::begin_stream(uint64_t id, Headers headers) {
  std::lock_guard lock(mutex_);
  if (id != exchange_ || finished_ || streaming_ || gone_) return false;
  if (http10_) keep_alive_ = false;
  Reply reply;
  reply.headers = std::move(headers);
  raw_ += reply_head(reply, -1, keep_alive_, http10_);
  streaming_ = true;
  post_flush();
  return true;
}

bool Connection::write(uint64_t id, std::string_view text) {
  std::lock_guard lock(mutex_);
  if (id != exchange_ || finished_ || !streaming_ || gone_) return false;
  events_ += text;
  if (events_.size() + flying_ > shared_->options.stream_buffer_bytes) was_full_ = true;
  post_flush();
  return true;
}

void Connection::end_stream(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (id != exchange_ || finished_ || !streaming_ || gone_) return;
  finished_ = true;
  post_flush();
}

void Connection::abandon(uint64_t id) {
  bool streaming = false;
  {
    std::lock_guard lock(mutex_);
    if (id != exchange_ || finished_ || gone_) return;
    streaming = streaming_;
  }
  if (streaming) return close_soon();  // a cut stream must not look complete
  reply(id, shared_->handler->on_fault(500, "the request was dropped without an answer"));
}

bool Connection::full() const {
  std::lock_guard lock(mutex_);
  return was_full_;
}

void Connection::watch(uint64_t id, std::function<void()> on_gone, std::function<void()> on_drained) {
  {
    std::lock_guard lock(mutex_);
    if (id != exchange_ || finished_) return;
    if (!gone_) {
      on_gone_ = std::move(on_gone);
      on_drained_ = std::move(on_drained);
      return;
    }
  }
  on_gone();
}

// Under the lock. Whatever is written until the strand gets to it goes out as one write.
void Connection::post_flush() {
  if (flush_posted_) return;
  flush_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    {
      std::lock_guard lock(self->mutex_);
      self->flush_posted_ = false;
    }
    self->flush();
  });
}

void Connection::flush() {
  if (writing_ || phase_ == Phase::kClosed || phase_ == Phase::kLinger) return;
  {
    std::lock_guard lock(mutex_);
    if (raw_.empty() && events_.empty() && !(streaming_ && finished_)) return;
    in_flight_.swap(raw_);
    raw_.clear();
    const bool body = streaming_ && !head_only_;
    if (body && !events_.empty()) {
      if (!http10_) {
        char size[20];
        const auto end = std::to_chars(size, size + sizeof size, events_.size(), 16);
        in_flight_.append(size, end.ptr).append("\r\n");
      }
      in_flight_ += events_;
      if (!http10_) in_flight_ += "\r\n";
    }
    events_.clear();
    if (streaming_ && finished_) {
      if (body && !http10_) in_flight_ += "0\r\n\r\n";
      streaming_ = false;
    }
    flying_ = in_flight_.size();
  }
  writing_ = true;
  last_write_ = now();
  asio::async_write(socket_, asio::buffer(in_flight_), [self = shared_from_this()](error_code ec, size_t) {
    self->writing_ = false;
    self->on_written(ec);
  });
}

void Connection::on_written(error_code ec) {
  if (phase_ == Phase::kClosed) return;
  if (ec) return closed();
  last_write_ = now();
  in_flight_.clear();
  std::function<void()> drained;
  bool more = false, done = false;
  {
    std::lock_guard lock(mutex_);
    flying_ = 0;
    if (was_full_ && events_.size() <= shared_->options.stream_buffer_bytes / 2) {
      was_full_ = false;
      drained = on_drained_;
    }
    more = !raw_.empty() || !events_.empty() || (streaming_ && finished_);
    done = finished_ && !more;
  }
  if (more) flush();
  if (drained && !done) drained();
  if (done && phase_ == Phase::kAnswering) answered();
}

void Connection::answered() {
  {
    std::lock_guard lock(mutex_);
    ++exchange_;
    on_gone_ = nullptr;
    on_drained_ = nullptr;
  }
  if (!keep_alive_ || shared_->stopping) return linger();
  enter(Phase::kIdle, microseconds(shared_->options.idle_timeout_us));
  parse();
  read();
}

// Closing at once would make the system reset the connection and lose the answer when the client still sends.
void Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  enter(Phase::kLinger, std::chrono::duration_cast<microseconds>(kLinger));
  read();
}

void Connection::closed() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  std::function<void()> gone;
  {
    std::lock_guard lock(mutex_);
    gone_ = true;
    gone = std::move(on_gone_);
    on_gone_ = on_drained_ = nullptr;
    raw_.clear();
    events_.clear();
  }
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->open.erase(shared_from_this()) > 0) --shared_->count;
  }
  if (gone) gone();
}

namespace {

template <typename Acceptor>
Status listen_on(Acceptor& acceptor, const typename Acceptor::endpoint_type& endpoint, const std::string& name) {
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec && endpoint.protocol().family() != AF_UNIX) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return unavailable("cannot listen on " + name + ": " + ec.message() + "; choose another address");
  return {};
}

class ServerImpl : public Server {
 public:
  ServerImpl(const ServerOptions& options, Handler* handler)
      : shared_(std::make_shared<Shared>(options)), tcp_(io_), local_(io_), pause_(io_) {
    shared_->handler = handler;
  }

  Status open() {
    const ServerOptions& o = shared_->options;
    if (!o.unix_path.empty()) return open_unix();
    error_code ec;
    asio::ip::address address = asio::ip::make_address(o.host, ec);
    if (ec) {
      asio::ip::tcp::resolver resolver(io_);
      const auto found = resolver.resolve(o.host, std::to_string(o.port), ec);
      if (ec || found.empty()) return unavailable("cannot find the address of '" + o.host + "': " + ec.message());
      address = found.begin()->endpoint().address();
    }
    const std::string shown = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
    BORA_TRY(listen_on(tcp_, {address, o.port}, shown + ":" + std::to_string(o.port)));
    port_ = tcp_.local_endpoint(ec).port();
    url_ = "http://" + shown + ":" + std::to_string(port_);
    accept(tcp_);
    run();
    return {};
  }

  ~ServerImpl() override {
    shared_->stopping = true;
    asio::post(io_, [this] {
      error_code ignored;
      tcp_.close(ignored);
      local_.close(ignored);
      pause_.cancel();
    });
    std::vector<std::shared_ptr<Connection>> open;
    {
      std::lock_guard lock(shared_->mutex);
      open.assign(shared_->open.begin(), shared_->open.end());
    }
    for (const auto& connection : open) connection->close_soon();
    open.clear();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    if (!shared_->options.unix_path.empty()) ::unlink(shared_->options.unix_path.c_str());
  }

  uint16_t port() const override { return port_; }
  std::string url() const override { return url_; }
  size_t connections() const override { return shared_->count; }

 private:
  Status open_unix() {
    const std::string& path = shared_->options.unix_path;
    if (path.size() > 100) return invalid_argument("the path of the unix socket is longer than 100 bytes");
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0) {
      if (!S_ISSOCK(info.st_mode)) return invalid_argument(path + " exists and is no socket");
      asio::local::stream_protocol::socket probe(io_);
      error_code ec;
      probe.connect(asio::local::stream_protocol::endpoint(path), ec);
      if (!ec) return unavailable(path + ": another server listens there");
      ::unlink(path.c_str());
    }
    const mode_t before = ::umask(0177);
    const Status status = listen_on(local_, asio::local::stream_protocol::endpoint(path), path);
    ::umask(before);
    BORA_TRY(status);
    url_ = "unix:" + path;
    accept(local_);
    run();
    return {};
  }

  void run() {
    for (int i = 0; i < shared_->options.io_threads; ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
  }

  template <typename Acceptor>
  void accept(Acceptor& acceptor) {
    acceptor.async_accept(asio::make_strand(io_), [this, &acceptor](error_code ec, auto socket) {
      if (shared_->stopping || ec == asio::error::operation_aborted) return;
      if (ec) {
        // Out of descriptors, most likely: they come back as clients leave.
        pause_.expires_after(std::chrono::milliseconds(50));
        pause_.async_wait([this, &acceptor](error_code stop) {
          if (!stop) accept(acceptor);
        });
        return;
      }
      if constexpr (std::is_same_v<Acceptor, asio::ip::tcp::acceptor>) {
        error_code ignored;
        socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      }
      admit(Socket(std::move(socket)));
      accept(acceptor);
    });
  }

  void admit(Socket socket) {
    const size_t most = shared_->options.max_connections;
    auto connection = std::make_shared<Connection>(std::move(socket), shared_);
    bool refused = false;
    {
      std::lock_guard lock(shared_->mutex);
      if (shared_->count >= most) {
        std::shared_ptr<Connection> oldest;
        for (const auto& c : shared_->open) {
          if (c->evictable() && (!oldest || c->since() < oldest->since())) oldest = c;
        }
        if (oldest) {
          shared_->open.erase(oldest);
          --shared_->count;
          oldest->close_soon();
        } else if (shared_->count >= most + kRefusing) {
          return;  // too many even to be told
        } else {
          refused = true;
        }
      }
      shared_->open.insert(connection);
      ++shared_->count;
    }
    connection->begin(refused);
  }

  std::shared_ptr<Shared> shared_;
  asio::io_context& io_ = shared_->io;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  asio::ip::tcp::acceptor tcp_;
  asio::local::stream_protocol::acceptor local_;
  asio::steady_timer pause_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
  std::string url_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler* handler) {
  auto server = std::make_unique<ServerImpl>(options, handler);
  BORA_TRY(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace bora::net
