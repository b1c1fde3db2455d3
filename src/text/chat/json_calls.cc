#include "text/chat/json_calls.h"

#include "text/chat/param_types.h"

namespace bora::text {

namespace {
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
}  // namespace

CallObject::Result CallObject::begin_value(char c) {
  json_ = JsonPush();
  scratch_.clear();
  phase_ = Phase::kValue;
  if (target_ == Target::kArguments && c != '{') target_ = Target::kArgumentsText;
  return Result::kMore;
}

CallObject::Result CallObject::value_done(std::string* args) {
  phase_ = Phase::kAfter;
  if (target_ == Target::kArguments) have_arguments_ = true;
  if (target_ != Target::kName && target_ != Target::kArgumentsText) return Result::kMore;
  const auto value = Json::parse(scratch_);
  if (!value.ok()) return Result::kBad;
  if (target_ == Target::kName) {
    if (!value->is_string() || have_name_ || !valid_call_name(value->as_string())) return Result::kBad;
    name_ = value->as_string();
    have_name_ = true;
    return Result::kMore;
  }
  // Arguments as a text that holds JSON, or null.
  have_arguments_ = true;
  if (value->is_null()) {
    args->append("{}");
    return Result::kMore;
  }
  if (!value->is_string()) return Result::kBad;
  const auto inner = Json::parse(value->as_string());
  if (!inner.ok() || !inner->is_object()) return Result::kBad;
  args->append(value->as_string());
  return Result::kMore;
}

CallObject::Result CallObject::close(std::string* args) {
  if (!have_name_ || (need_arguments_ && !have_arguments_)) return Result::kBad;
  if (!have_arguments_) args->append("{}");
  return Result::kDone;
}

CallObject::Result CallObject::feed(char c, std::string* args) {
  switch (phase_) {
    case Phase::kOpen:
      if (is_space(c)) return Result::kMore;
      phase_ = Phase::kFirstKey;
      return c == '{' ? Result::kMore : Result::kBad;
    case Phase::kFirstKey:
    case Phase::kKey:
      if (is_space(c)) return Result::kMore;
      if (c == '}' && phase_ == Phase::kFirstKey) return close(args);
      if (c != '"') return Result::kBad;
      json_ = JsonPush();
      scratch_.clear();
      phase_ = Phase::kKeyText;
      json_.feed(c, &scratch_);
      return Result::kMore;
    case Phase::kKeyText: {
      const auto r = json_.feed(c, &scratch_);
      if (r == JsonPush::Result::kBad) return Result::kBad;
      if (r == JsonPush::Result::kDone) phase_ = Phase::kColon;
      return Result::kMore;
    }
    case Phase::kColon:
      if (is_space(c)) return Result::kMore;
      if (c != ':') return Result::kBad;
      target_ = scratch_ == "\"name\""                                        ? Target::kName
                : scratch_ == "\"arguments\"" || scratch_ == "\"parameters\"" ? Target::kArguments
                                                                              : Target::kOther;
      if (target_ == Target::kArguments && have_arguments_) return Result::kBad;
      phase_ = Phase::kGap;
      return Result::kMore;
    case Phase::kGap:
      if (is_space(c)) return Result::kMore;
      begin_value(c);
      break;
    case Phase::kValue: break;
    case Phase::kAfter:
      if (is_space(c)) return Result::kMore;
      if (c == '}') return close(args);
      phase_ = Phase::kKey;
      return c == ',' ? Result::kMore : Result::kBad;
  }
  if (target_ == Target::kOther) scratch_.clear();
  const auto r = json_.feed(c, target_ == Target::kArguments ? args : &scratch_);
  if (r == JsonPush::Result::kMore) return Result::kMore;
  if (r == JsonPush::Result::kBad || value_done(args) == Result::kBad) return Result::kBad;
  return r == JsonPush::Result::kBefore ? feed(c, args) : Result::kMore;
}

namespace {

class JsonCalls final : public Machine {
 public:
  JsonCalls(const AnswerOptions& options, const JsonCallsStyle& style)
      : Machine(options, style.layout), style_(style) {}

 protected:
  void begin(size_t which, bool) override {
    object_ = CallObject(style_.need_arguments);
    array_ = false;
    open_ = false;
    if (style_.brace_starts && style_.layout.starts[which].text == "{") {
      open_ = true;
      std::string none;
      object_.feed('{', &none);
    }
  }

  Step call() override {
    if (!open_) {
      if (!skip_space()) return Step::kMore;
      if (cur() == '[' && !array_) {
        array_ = true;
        take(1);
        if (!skip_space()) return Step::kMore;
      }
      if (cur() != '{') return Step::kBad;
      open_ = true;
    }
    while (has()) {
      const CallObject::Result r = object_.feed(cur(), &args());
      if (r == CallObject::Result::kBad) return Step::kBad;
      take(1);
      if (object_.named() && name().empty()) {
        if (style_.known_names && !is_known_tool(options().tools, object_.name())) return Step::kBad;
        set_name(object_.name());
      }
      grown();
      if (r == CallObject::Result::kDone) {
        commit();
        return Step::kDone;
      }
    }
    return Step::kMore;
  }

  Join joins() override {
    if (array_ && cur() == ']') {
      take(1);
      array_ = false;
      return Join::kSkipped;
    }
    if (array_ ? cur() != ',' : style_.separator == 0 || cur() != style_.separator) return Join::kNo;
    take(1);
    object_ = CallObject(style_.need_arguments);
    open_ = false;
    return Join::kCall;
  }

 private:
  JsonCallsStyle style_;
  CallObject object_;
  bool array_ = false, open_ = false;
};

}  // namespace

std::unique_ptr<AnswerParser> make_json_calls(const AnswerOptions& options, const JsonCallsStyle& style) {
  return std::make_unique<JsonCalls>(options, style);
}

}  // namespace bora::text
