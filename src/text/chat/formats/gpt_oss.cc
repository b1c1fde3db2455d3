// Harmony: channels analysis, commentary and final; calls are messages to functions.NAME. gpt-oss.
#include <algorithm>

#include "text/chat/formats.h"
#include "text/chat/machine.h"

namespace bora::text {

namespace {

constexpr Marker kStarts[] = {{"<|channel|>"}, {"<|start|>"}};
constexpr Marker kSwallow[] = {{"<|end|>"}, {"<|call|>"}, {"<|return|>"}};
constexpr Marker kMessage = {"<|message|>"}, kNoStop = {"", false};
constexpr size_t kMaxHeader = 1024;

// Every message is read as a "call" of the machine; only those with a recipient become one.
class GptOss final : public Machine {
 public:
  explicit GptOss(const AnswerOptions& options)
      : Machine(
            options,
            {.starts = kStarts, .swallow = kSwallow, .nexts = {}, .think_open = kNoStop, .think_close = kNoStop}) {}

 protected:
  void begin(size_t which, bool) override {
    header_ = kStarts[which].text;
    kind_ = Kind::kHeader;
    json_ = JsonPush();
  }

  Step call() override {
    if (kind_ == Kind::kHeader) {
      if (const Step s = read_until(kMessage, kMaxHeader, &header_); s != Step::kDone) return s;
      if (!read_header()) return Step::kBad;
    }
    if (kind_ != Kind::kCall) return body();
    const Step s = read_object(&json_);
    if (s == Step::kDone) commit();
    return s;
  }

 private:
  enum class Kind : uint8_t { kHeader, kContent, kReasoning, kCall };

  static std::string word_after(std::string_view text, std::string_view mark) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + mark.size());
    return std::string(text.substr(0, std::min(text.find_first_of(" \n\t<"), text.size())));
  }

  bool read_header() {
    std::string to = word_after(header_, "to=");
    if (to.starts_with("functions.")) to.erase(0, 10);
    if (!to.empty()) {
      if (!valid_call_name(to)) return false;
      set_name(to);
      kind_ = Kind::kCall;
      return true;
    }
    kind_ = word_after(header_, "<|channel|>") == "analysis" ? Kind::kReasoning : Kind::kContent;
    settle();
    if (kind_ == Kind::kReasoning) more_reasoning();
    return true;
  }

  // Text up to the message's end.
  Step body() {
    while (has()) {
      const std::string_view text = rest();
      const size_t n = std::min(text.find('<'), text.size());
      pass(text.substr(0, n));
      take(n);
      settle();
      if (!has()) break;
      Match best = match(kStarts[1]);
      for (const Marker& m : kSwallow) best = std::max(best, match(m));
      if (best == Match::kPartial) return Step::kMore;
      if (best == Match::kYes) {
        if (kind_ == Kind::kReasoning) end_reasoning();
        return Step::kDone;
      }
      pass("<");
      take(1);
      settle();
    }
    return Step::kMore;
  }

  void pass(std::string_view text) { kind_ == Kind::kReasoning ? reasoning(text) : content(text); }

  std::string header_;
  Kind kind_ = Kind::kHeader;
  JsonPush json_;
};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return std::make_unique<GptOss>(options); }

constexpr std::string_view kMarks[] = {"<|channel|>"};
}  // namespace

const AnswerFormat kGptOss = {"gpt_oss", "harmony channels and recipients", kMarks, make};

}  // namespace bora::text
