#include "base/status.h"

namespace bora {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kDataLoss:
      return "DATA_LOSS";
    case Code::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

Status::Status(Code code, std::string message) {
  if (code != Code::kOk) rep_ = std::make_unique<Rep>(Rep{code, std::move(message)});
}

Status::Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  return *this;
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return rep_ ? rep_->message : kEmpty;
}

Status Status::with_context(std::string_view context) && {
  if (rep_) rep_->message.insert(0, std::string(context) + ": ");
  return std::move(*this);
}

Status Status::with_context(std::string_view context) const& { return Status(*this).with_context(context); }

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(code_name(rep_->code)) + ": " + rep_->message;
}

Status invalid_argument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
Status not_found(std::string message) { return {Code::kNotFound, std::move(message)}; }
Status resource_exhausted(std::string message) { return {Code::kResourceExhausted, std::move(message)}; }
Status failed_precondition(std::string message) { return {Code::kFailedPrecondition, std::move(message)}; }
Status out_of_range(std::string message) { return {Code::kOutOfRange, std::move(message)}; }
Status unimplemented(std::string message) { return {Code::kUnimplemented, std::move(message)}; }
Status unavailable(std::string message) { return {Code::kUnavailable, std::move(message)}; }
Status data_loss(std::string message) { return {Code::kDataLoss, std::move(message)}; }
Status internal_error(std::string message) { return {Code::kInternal, std::move(message)}; }

}  // namespace bora
