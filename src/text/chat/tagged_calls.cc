#include "text/chat/tagged_calls.h"

#include "text/chat/param_types.h"

namespace bora::text {

namespace {

constexpr size_t kMaxName = 512;

class TaggedCalls final : public Machine {
 public:
  TaggedCalls(const AnswerOptions& options, const TaggedCallsStyle& style)
      : Machine(options, style.layout), style_(style) {}

 protected:
  void begin(size_t which, bool next) override {
    const std::span<const Marker> from =
        next && !style_.layout.nexts.empty() ? style_.layout.nexts : style_.layout.starts;
    const bool at_name = style_.name_open.text.empty() || from[which].text == style_.name_open.text;
    phase_ = at_name ? Phase::kName : Phase::kOpen;
    text_.clear();
    any_ = false;
  }

  Step call() override {
    while (true) {
      Step s = Step::kBad;
      switch (phase_) {
        case Phase::kOpen:
          s = expect(style_.name_open);
          if (s == Step::kDone) phase_ = Phase::kName;
          break;
        case Phase::kName: s = read_name(); break;
        case Phase::kNext: s = read_next(); break;
        case Phase::kKey: s = read_key(); break;
        case Phase::kGap:
          s = style_.value_open.text.empty() ? Step::kDone : expect(style_.value_open);
          if (s == Step::kDone) begin_value();
          break;
        case Phase::kValue: s = read_value(); break;
        case Phase::kDone: return Step::kDone;
      }
      if (s != Step::kDone) return s;
    }
  }

 private:
  enum class Phase : uint8_t { kOpen, kName, kNext, kKey, kGap, kValue, kDone };

  Step read_name() {
    while (has() && style_.name_stop.find(cur()) == std::string_view::npos) {
      text_.push_back(cur());
      take(1);
      if (text_.size() > kMaxName) return Step::kBad;
    }
    if (!has()) return Step::kMore;
    if (!style_.name_close.text.empty()) {
      const Match m = match(style_.name_close);
      if (m == Match::kPartial) return Step::kMore;
      if (m == Match::kNo) return Step::kBad;
      take(style_.name_close.text.size());
    }
    while (!text_.empty() && (text_.back() == ' ' || text_.back() == '\r')) text_.pop_back();
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.erase(0, 1);
    if (!valid_call_name(text_)) return Step::kBad;
    set_name(text_);
    text_.clear();
    args().assign(1, '{');
    phase_ = Phase::kNext;
    return Step::kDone;
  }

  Step read_next() {
    if (!skip_space()) return Step::kMore;
    const Match close = match(style_.call_close), key = match(style_.key_open);
    if (close == Match::kYes) {
      take(style_.call_close.text.size());
      args() += "}";
      commit();
      phase_ = Phase::kDone;
      return Step::kDone;
    }
    if (key == Match::kYes) {
      take(style_.key_open.text.size());
      phase_ = Phase::kKey;
      return Step::kDone;
    }
    return close == Match::kPartial || key == Match::kPartial ? Step::kMore : Step::kBad;
  }

  Step read_key() {
    const Step s = read_until(style_.key_close, kMaxName, &text_);
    if (s != Step::kDone) return s;
    if (text_.find('\n') != std::string::npos) return Step::kBad;
    phase_ = Phase::kGap;
    return s;
  }

  void begin_value() {
    types_ = param_types(options().tools, name(), text_);
    args() += any_ ? ", \"" : "\"";
    any_ = true;
    json_escape(text_, &args());
    args() += "\": ";
    text_.clear();
    streams_ =
        types_.only_text() && !types_.number && !types_.boolean && !types_.object && !types_.array && !types_.any;
    if (streams_) args() += "\"";
    first_ = true;
    line_end_ = false;
    phase_ = Phase::kValue;
  }

  Step read_value() {
    while (has()) {
      if (cur() == style_.value_close.text[0]) {
        const Match m = match(style_.value_close);
        if (m == Match::kPartial) return Step::kMore;
        if (m == Match::kYes) return end_value();
      }
      const char c = cur();
      take(1);
      if (style_.trims_line_ends && first_ && c == '\n') {
        first_ = false;
        continue;
      }
      first_ = false;
      if (line_end_) put('\n');
      line_end_ = style_.trims_line_ends && c == '\n';
      if (!line_end_) put(c);
      if (streams_) grown();
    }
    return Step::kMore;
  }

  void put(char c) {
    if (streams_)
      json_escape({&c, 1}, &args());
    else
      text_.push_back(c);
  }

  Step end_value() {
    take(style_.value_close.text.size());
    args() += streams_ ? "\"" : typed_value(types_, text_);
    text_.clear();
    grown();
    phase_ = Phase::kNext;
    return Step::kDone;
  }

  TaggedCallsStyle style_;
  Phase phase_ = Phase::kOpen;
  std::string text_;
  ParamTypes types_;
  bool any_ = false, streams_ = false, first_ = true, line_end_ = false;
};

}  // namespace

std::unique_ptr<AnswerParser> make_tagged_calls(const AnswerOptions& options, const TaggedCallsStyle& style) {
  return std::make_unique<TaggedCalls>(options, style);
}

}  // namespace bora::text
