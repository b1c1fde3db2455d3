// <|tool_call_start|>[name(key="value", …), …]<|tool_call_end|>: LFM2.
#include "text/chat/formats.h"
#include "text/chat/machine.h"
#include "text/chat/python_push.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|tool_call_start|>"}};
constexpr Marker kSwallow[] = {{"<|tool_call_end|>"}};

class Lfm2 final : public Machine {
 public:
  explicit Lfm2(const AnswerOptions& options)
      : Machine(options, {.starts = kStarts,
                          .swallow = kSwallow,
                          .nexts = {},
                          .think_open = {"<think>"},
                          .think_close = {"</think>"}}) {}

 protected:
  void begin(size_t, bool) override { restart(false); }

  Step call() override {
    while (has()) {
      const char c = cur();
      const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      bool ok = true;
      switch (phase_) {
        case Phase::kLead:
          if (c == '[' && !list_)
            list_ = true;
          else if (!space)
            phase_ = Phase::kName;
          if (phase_ == Phase::kName) continue;
          break;
        case Phase::kName:
          if (c == '(')
            ok = end_name();
          else
            text_.push_back(c);
          ok = ok && text_.size() <= 256;
          break;
        case Phase::kFirst:
          if (c == ')') return end_call();
          [[fallthrough]];
        case Phase::kKey:
          if (c == '=' && !text_.empty())
            ok = end_key();
          else if (!space)
            text_.push_back(c);
          ok = ok && text_.size() <= 256;
          break;
        case Phase::kValue: {
          const PythonPush::Result r = value_.feed(c, &args());
          grown();
          if (r == PythonPush::Result::kDone || r == PythonPush::Result::kBefore) phase_ = Phase::kAfter;
          if (r == PythonPush::Result::kBefore) continue;
          ok = r != PythonPush::Result::kBad;
          break;
        }
        case Phase::kAfter:
          if (c == ')') return end_call();
          if (c == ',') phase_ = Phase::kKey;
          ok = c == ',' || space;
          break;
      }
      if (!ok) return Step::kBad;
      take(1);
    }
    return Step::kMore;
  }

  Join joins() override {
    if (list_ && cur() == ']') {
      take(1);
      list_ = false;
      return Join::kSkipped;
    }
    if (!list_ || cur() != ',') return Join::kNo;
    take(1);
    restart(true);
    return Join::kCall;
  }

 private:
  enum class Phase : uint8_t { kLead, kName, kFirst, kKey, kValue, kAfter };

  void restart(bool list) {
    phase_ = Phase::kLead;
    list_ = list;
    text_.clear();
    any_ = false;
  }

  bool end_name() {
    if (!valid_call_name(text_)) return false;
    set_name(text_);
    text_.clear();
    args().assign(1, '{');
    phase_ = Phase::kFirst;
    return true;
  }

  bool end_key() {
    if (!valid_call_name(text_)) return false;
    args() += any_ ? ", \"" : "\"";
    any_ = true;
    json_escape(text_, &args());
    args() += "\": ";
    text_.clear();
    value_ = PythonPush();
    phase_ = Phase::kValue;
    return true;
  }

  Step end_call() {
    if (phase_ == Phase::kFirst && !text_.empty()) return Step::kBad;
    take(1);
    args() += "}";
    commit();
    return Step::kDone;
  }

  Phase phase_ = Phase::kLead;
  bool list_ = false, any_ = false;
  std::string text_;
  PythonPush value_;
};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return std::make_unique<Lfm2>(options); }

constexpr std::string_view kMarks[] = {"<|tool_call_start|>", "<|tool_list_start|>"};
}  // namespace

const AnswerFormat kLfm2 = {"lfm2", "a Python list of calls between the LFM2 tool tokens", kMarks, make};

}  // namespace bora::text
