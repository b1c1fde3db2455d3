// <|tool_call>call:NAME{key:<|"|>text<|"|>,n:1}<tool_call|>: Gemma 4.
#include "text/chat/formats.h"
#include "text/chat/machine.h"
#include "text/chat/param_types.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|tool_call>"}};
constexpr Marker kSwallow[] = {{"<tool_call|>"}};
constexpr Marker kQuote = {"<|\"|>"};
constexpr size_t kMaxDepth = 200, kMaxWord = 256;

class Gemma4 final : public Machine {
 public:
  explicit Gemma4(const AnswerOptions& options)
      : Machine(options, {.starts = kStarts,
                          .swallow = kSwallow,
                          .nexts = {},
                          .think_open = {"<|channel>"},
                          .think_close = {"<channel|>"},
                          .think_label = {"thought", false}}) {}

 protected:
  void begin(size_t, bool) override {
    phase_ = Phase::kCall;
    stack_.clear();
    word_.clear();
  }

  Step call() override {
    if (phase_ == Phase::kCall) {
      if (const Step s = expect({"call:", false}); s != Step::kDone) return s;
      phase_ = Phase::kName;
    }
    while (has()) {
      if (phase_ == Phase::kText || phase_ == Phase::kValue || phase_ == Phase::kKey || phase_ == Phase::kFirstKey) {
        const Match m = cur() == '<' ? match(kQuote) : Match::kNo;
        if (m == Match::kPartial) return Step::kMore;
        if (m == Match::kYes) {
          take(kQuote.text.size());
          quote();
          grown();
          continue;
        }
      }
      const char c = cur();
      const Step s = feed(c);
      if (s == Step::kBad) return s;
      if (s == Step::kMore) take(1);  // kDone here: look at the same character again
      grown();
      if (phase_ == Phase::kEnd) {
        commit();
        return Step::kDone;
      }
    }
    return Step::kMore;
  }

 private:
  enum class Phase : uint8_t { kCall, kName, kFirstKey, kKey, kColon, kValue, kWord, kText, kAfter, kEnd };

  // A string begins or ends.
  void quote() {
    if (phase_ != Phase::kText) {
      text_is_key_ = phase_ != Phase::kValue;
      args() += "\"";
      phase_ = Phase::kText;
      return;
    }
    args() += text_is_key_ ? "\": " : "\"";
    phase_ = text_is_key_ ? Phase::kColon : Phase::kAfter;
  }

  static bool space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  Step feed(char c) {
    switch (phase_) {
      case Phase::kName:
        if (c != '{') {
          word_.push_back(c);
          return word_.size() <= kMaxWord ? Step::kMore : Step::kBad;
        }
        if (!valid_call_name(word_)) return Step::kBad;
        set_name(word_);
        word_.clear();
        return open('{');
      case Phase::kFirstKey:
        if (c == '}') return close('{');
        [[fallthrough]];
      case Phase::kKey:
        if (c != ':') {
          if (!space(c) || !word_.empty()) word_.push_back(c);
          return word_.size() <= kMaxWord && c != '{' && c != '}' && c != ',' ? Step::kMore : Step::kBad;
        }
        if (word_.empty()) return Step::kBad;
        args() += "\"";
        json_escape(word_, &args());
        args() += "\": ";
        word_.clear();
        phase_ = Phase::kValue;
        return Step::kMore;
      case Phase::kColon:
        if (c == ':') phase_ = Phase::kValue;
        return c == ':' || space(c) ? Step::kMore : Step::kBad;
      case Phase::kValue:
        if (space(c)) return Step::kMore;
        if (c == '{' || c == '[') return open(c);
        if (c == ']' && fresh_ && stack_.back() == '[') return close('[');
        if (c == ',' || c == '}' || c == ']') return Step::kBad;
        phase_ = Phase::kWord;
        return Step::kDone;
      case Phase::kWord: return word(c);
      case Phase::kText: json_escape({&c, 1}, &args()); return Step::kMore;
      case Phase::kAfter:
        if (space(c)) return Step::kMore;
        if (c == '}' || c == ']') return close(c == '}' ? '{' : '[');
        if (c != ',') return Step::kBad;
        args() += ", ";
        fresh_ = false;
        phase_ = stack_.back() == '{' ? Phase::kKey : Phase::kValue;
        return Step::kMore;
      default: return Step::kBad;
    }
  }

  Step word(char c) {
    if (c != ',' && c != '}' && c != ']') {
      word_.push_back(c);
      return word_.size() <= kMaxWord ? Step::kMore : Step::kBad;
    }
    while (!word_.empty() && space(word_.back())) word_.pop_back();
    const ParamTypes any{.number = true, .boolean = true, .null = true};
    args() += typed_value(any, word_);
    word_.clear();
    phase_ = Phase::kAfter;
    return Step::kDone;
  }

  Step open(char c) {
    if (stack_.size() >= kMaxDepth) return Step::kBad;
    stack_.push_back(c);
    args().push_back(c);
    fresh_ = true;
    phase_ = c == '{' ? Phase::kFirstKey : Phase::kValue;
    return Step::kMore;
  }

  Step close(char c) {
    if (stack_.back() != c) return Step::kBad;
    stack_.pop_back();
    args().push_back(c == '{' ? '}' : ']');
    phase_ = stack_.empty() ? Phase::kEnd : Phase::kAfter;
    return Step::kMore;
  }

  Phase phase_ = Phase::kCall;
  std::string word_;
  std::vector<char> stack_;
  bool fresh_ = false, text_is_key_ = false;
};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return std::make_unique<Gemma4>(options); }

constexpr std::string_view kMarks[] = {"<|tool_call>call:", "<|tool_call>"};
}  // namespace

const AnswerFormat kGemma4 = {"gemma4", "call:NAME{...} between the Gemma 4 tool tokens, thought channel", kMarks,
                              make};

}  // namespace bora::text
