// Status and Result<T>: how expected failures (input, network, files, capacity) travel.
//
// A Status is one pointer wide; OK allocates nothing. Codes are the canonical set, so that `serve` maps them to HTTP
// in one place. Context is added on the way up ("loading model.gguf: tensor blk.0.attn_q.weight: ..."), outermost
// first, and the message of a Status that reaches a user says what is wrong and what to do. Bugs are not Statuses:
// see check.h. Values of both types may be moved between threads; one object is used by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace bora {

enum class Code : unsigned char {
  kOk,
  kInvalidArgument,  // the caller's value is wrong, whatever the state of the system
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kUnauthenticated,
  kResourceExhausted,   // a limit or quota; trying later may work
  kFailedPrecondition,  // right value, wrong state
  kOutOfRange,
  kUnimplemented,  // understood and not supported
  kUnavailable,    // loading, draining, a peer that does not answer
  kDeadlineExceeded,
  kCancelled,
  kDataLoss,  // a file or message is damaged
  kInternal,  // an invariant failed somewhere that could still report it
};

std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const;  // empty when OK

  // "context: message"; OK stays OK.
  Status with_context(std::string_view context) &&;
  Status with_context(std::string_view context) const&;

  // "INVALID_ARGUMENT: message"
  std::string to_string() const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

inline Status ok_status() { return {}; }
Status invalid_argument(std::string message);
Status not_found(std::string message);
Status resource_exhausted(std::string message);
Status failed_precondition(std::string message);
Status out_of_range(std::string message);
Status unimplemented(std::string message);
Status unavailable(std::string message);
Status data_loss(std::string message);
Status internal_error(std::string message);

// Either a value or a Status that is not OK.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {
    BORA_CHECK(!status_.ok(), "Result from an OK Status");
  }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Status take_status() && { return std::move(status_); }

  // REQUIRES: ok()
  T& value() & {
    BORA_CHECK(ok(), status_.message().c_str());
    return *value_;
  }
  const T& value() const& {
    BORA_CHECK(ok(), status_.message().c_str());
    return *value_;
  }
  T&& value() && {
    BORA_CHECK(ok(), status_.message().c_str());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace bora

// BORA_TRY(expr): returns the Status of `expr` from the enclosing function unless it is OK.
#define BORA_TRY(expr)                                 \
  do {                                                 \
    ::bora::Status bora_try_status = (expr);           \
    if (!bora_try_status.ok()) return bora_try_status; \
  } while (false)

// BORA_TRY_CONTEXT(expr, text): the same, with `text` put before the message. `text` is evaluated on failure only.
#define BORA_TRY_CONTEXT(expr, text)                                                 \
  do {                                                                               \
    ::bora::Status bora_try_status = (expr);                                         \
    if (!bora_try_status.ok()) return std::move(bora_try_status).with_context(text); \
  } while (false)

#define BORA_CONCAT_INNER(a, b) a##b
#define BORA_CONCAT(a, b) BORA_CONCAT_INNER(a, b)

// BORA_ASSIGN(auto x, expr): declares x from a Result or returns its Status.
#define BORA_ASSIGN(declaration, expr) BORA_ASSIGN_INNER(BORA_CONCAT(bora_result_, __LINE__), declaration, expr)
#define BORA_ASSIGN_INNER(name, declaration, expr)      \
  auto name = (expr);                                   \
  if (!name.ok()) return std::move(name).take_status(); \
  declaration = *std::move(name)

// BORA_ASSIGN_CONTEXT(auto x, expr, text): the same with context.
#define BORA_ASSIGN_CONTEXT(declaration, expr, text) \
  BORA_ASSIGN_CONTEXT_INNER(BORA_CONCAT(bora_result_, __LINE__), declaration, expr, text)
#define BORA_ASSIGN_CONTEXT_INNER(name, declaration, expr, text)           \
  auto name = (expr);                                                      \
  if (!name.ok()) return std::move(name).take_status().with_context(text); \
  declaration = *std::move(name)
