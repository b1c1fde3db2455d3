#include "net/parser.h"

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <sstream>

namespace bora::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

bool token_char(unsigned char c) {
  return std::isalnum(c) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
}

// A head can begin so. Known before its end, so that a TLS hello or noise is answered at once.
bool plausible(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && bytes[at] != ' ') {
    if (at >= 32 || !token_char(static_cast<unsigned char>(bytes[at]))) return false;
    ++at;
  }
  for (; at < bytes.size() && bytes[at] != '\n' && bytes[at] != '\r'; ++at) {
    const auto c = static_cast<unsigned char>(bytes[at]);
    if (c < 0x20 || c == 0x7f) return false;
  }
  return true;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool percent_decode(std::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out->push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1, low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high * 16 + low == 0) return false;
    out->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

// Origin form, absolute form and "*".
bool split_target(std::string_view target, Request* out) {
  out->target = std::string(target);
  for (std::string_view scheme : {"http://", "https://"}) {
    if (target.size() > scheme.size() && boost::beast::iequals(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(scheme.size());
      const size_t slash = target.find_first_of("/?");
      target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    }
  }
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  if (mark != std::string_view::npos) out->query = std::string(target.substr(mark + 1));
  std::string_view path = target.substr(0, mark);
  if (path.empty()) path = "/";
  if (path != "*" && path[0] != '/') return false;
  return percent_decode(path, &out->path);
}

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const ServerOptions& o) : options(o) {}

  Event fault(int status, std::string message) {
    fault_status = status;
    fault_message = std::move(message);
    return Event::kFault;
  }
  Event fault(const error_code& ec) {
    if (ec == http::error::header_limit) return fault(431, "the head of the request is too large");
    if (ec == http::error::body_limit) return fault(413, "the body of the request is too large");
    return fault(400, "the request is no valid HTTP/1.1: " + ec.message());
  }
  Event head();
  Event begin();

  const ServerOptions options;
  boost::beast::flat_buffer in;
  std::optional<http::request_parser<http::string_body>> parser;
  bool head_done = false, whole = false;
  size_t head_bytes = 0;
  Request request;
  int fault_status = 0;
  std::string fault_message;
};

RequestParser::Event RequestParser::Impl::head() {
  head_done = true;
  const auto& message = parser->get();
  request = {};
  if (message.version() != 10 && message.version() != 11) return fault(400, "only HTTP/1.0 and HTTP/1.1 are spoken");
  request.method = std::string(message.method_string());
  int hosts = 0;
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name == "host") ++hosts;
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  if (hosts > 1 || (hosts == 0 && message.version() == 11)) return fault(400, "exactly one Host header is required");
  if (!split_target(message.target(), &request)) return fault(400, "the request target is malformed");
  const std::string* expect = request.header("expect");
  if (expect != nullptr && !boost::beast::iequals(*expect, "100-continue"))
    return fault(417, "only Expect: 100-continue is understood");
  return Event::kHead;
}

// Blank lines before a request are skipped; then a parser of its own for it.
RequestParser::Event RequestParser::Impl::begin() {
  while (in.size() > 0 && (*static_cast<const char*>(in.cdata().data()) == '\r' ||
                           *static_cast<const char*>(in.cdata().data()) == '\n')) {
    in.consume(1);
  }
  if (in.size() == 0) return Event::kMore;
  parser.emplace();
  parser->header_limit(static_cast<uint32_t>(options.max_head_bytes));
  parser->body_limit(options.max_body_bytes);
  head_done = false;
  head_bytes = 0;
  return Event::kHead;
}

RequestParser::RequestParser(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
RequestParser::~RequestParser() = default;

void RequestParser::feed(std::string_view bytes) {
  auto room = impl_->in.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(room.data()));
  impl_->in.commit(bytes.size());
}

RequestParser::Event RequestParser::next() {
  Impl& p = *impl_;
  if (p.whole) p.parser.reset();
  p.whole = false;
  if (!p.parser && p.begin() == Event::kMore) return Event::kMore;
  while (true) {
    if (p.head_done && p.parser->is_done()) {
      p.request.body = std::move(p.parser->get().body());
      p.whole = true;
      return Event::kWhole;
    }
    if (p.in.size() == 0) return Event::kMore;
    if (!p.head_done && p.head_bytes == 0 &&
        !plausible({static_cast<const char*>(p.in.cdata().data()), p.in.size()})) {
      return p.fault(400, "this is not HTTP; the server speaks plain HTTP/1.1");
    }
    error_code ec;
    const size_t used = p.parser->put(p.in.cdata(), ec);
    p.in.consume(used);
    if (!p.head_done) p.head_bytes += used;
    if (ec == http::error::need_more) {
      if (!p.head_done && p.head_bytes + p.in.size() > p.options.max_head_bytes)
        return p.fault(http::error::header_limit);
      return Event::kMore;
    }
    if (ec) return p.fault(ec);
    if (!p.head_done && p.parser->is_header_done()) {
      if (p.head_bytes > p.options.max_head_bytes) return p.fault(http::error::header_limit);
      return p.head();
    }
  }
}

size_t RequestParser::buffered() const { return impl_->in.size(); }
bool RequestParser::in_head() const { return impl_->parser && !impl_->head_done; }
bool RequestParser::in_body() const { return impl_->parser && impl_->head_done && !impl_->parser->is_done(); }
Request& RequestParser::request() { return impl_->request; }
bool RequestParser::keep_alive() const { return impl_->parser->get().keep_alive(); }
bool RequestParser::http10() const { return impl_->parser->get().version() == 10; }
bool RequestParser::expects_continue() const { return impl_->request.header("expect") != nullptr; }
int64_t RequestParser::body_bytes() const {
  if (impl_->parser->chunked()) return -1;
  return static_cast<int64_t>(impl_->parser->content_length().value_or(0));
}
int RequestParser::fault_status() const { return impl_->fault_status; }
const std::string& RequestParser::fault_message() const { return impl_->fault_message; }

const std::string* Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string reply_head(const Reply& reply, int64_t length, bool keep_alive, bool http10) {
  http::response<http::empty_body> head(static_cast<http::status>(reply.status), http10 ? 10 : 11);
  for (const auto& [name, value] : reply.headers) {
    // A value comes from a client now and then: no line may end inside.
    std::string clean = value;
    std::replace_if(
        clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    head.insert(name, clean);
  }
  if (length >= 0) {
    if (reply.status != 204 && reply.status / 100 != 1) head.content_length(static_cast<uint64_t>(length));
  } else if (!http10) {
    head.chunked(true);
  }
  head.keep_alive(keep_alive);
  std::ostringstream text;
  text << head.base();
  return std::move(text).str();
}

int parse_request(std::string_view bytes, size_t piece, const ServerOptions& options, Request* out) {
  RequestParser parser(options);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    parser.feed(bytes.substr(at, piece));
    while (true) {
      const RequestParser::Event event = parser.next();
      if (event == RequestParser::Event::kFault) return parser.fault_status();
      if (event == RequestParser::Event::kMore) break;
      if (event == RequestParser::Event::kWhole) {
        *out = std::move(parser.request());
        return 200;
      }
    }
  }
  return 0;
}

}  // namespace bora::net
