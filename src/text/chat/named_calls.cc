#include "text/chat/named_calls.h"

namespace bora::text {

namespace {

constexpr size_t kMaxHeader = 512;

std::string without_space(std::string_view t) {
  const size_t from = t.find_first_not_of(" \n\r\t");
  if (from == std::string_view::npos) return {};
  return std::string(t.substr(from, t.find_last_not_of(" \n\r\t") - from + 1));
}

class NamedCalls final : public Machine {
 public:
  NamedCalls(const AnswerOptions& options, const NamedCallsStyle& style)
      : Machine(options, style.layout), style_(style) {}

 protected:
  void begin(size_t which, bool next) override {
    const bool opens = !style_.open.text.empty() && !next && which + 1 < style_.layout.starts.size();
    phase_ = opens ? Phase::kOpen : Phase::kHeader;
    header_.clear();
    line_.clear();
    json_ = JsonPush();
  }

  Step call() override {
    if (phase_ == Phase::kOpen) {
      if (const Step s = expect(style_.open); s != Step::kDone) return s;
      phase_ = Phase::kHeader;
    }
    if (phase_ == Phase::kHeader) {
      if (const Step s = read_until(style_.separator, kMaxHeader, &header_); s != Step::kDone) return s;
      phase_ = style_.name_on_line ? Phase::kLine : Phase::kFence;
      if (phase_ == Phase::kFence && !named(header_)) return Step::kBad;
    }
    if (phase_ == Phase::kLine) {
      if (const Step s = read_until({"\n", false}, kMaxHeader, &line_); s != Step::kDone) return s;
      if (!named(line_)) return Step::kBad;
      phase_ = Phase::kFence;
    }
    if (phase_ == Phase::kFence) {
      if (!style_.fence.text.empty()) {
        const Step s = expect(style_.fence);
        if (s == Step::kMore) return s;
      }
      phase_ = Phase::kObject;
    }
    const Step s = read_object(&json_);
    if (s == Step::kDone) commit();
    return s;
  }

 private:
  enum class Phase : uint8_t { kOpen, kHeader, kLine, kFence, kObject };

  bool named(std::string_view header) {
    std::string name = style_.name_of != nullptr ? style_.name_of(without_space(header)) : without_space(header);
    if (!valid_call_name(name)) return false;
    set_name(std::move(name));
    return true;
  }

  NamedCallsStyle style_;
  Phase phase_ = Phase::kHeader;
  std::string header_, line_;
  JsonPush json_;
};

}  // namespace

std::unique_ptr<AnswerParser> make_named_calls(const AnswerOptions& options, const NamedCallsStyle& style) {
  return std::make_unique<NamedCalls>(options, style);
}

}  // namespace bora::text
