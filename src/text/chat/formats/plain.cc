// No tools; reasoning in <think> tags.
#include "text/chat/formats.h"
#include "text/chat/machine.h"

namespace bora::text {

namespace {

class Plain final : public Machine {
 public:
  explicit Plain(const AnswerOptions& options)
      : Machine(options,
                {.starts = {}, .swallow = {}, .nexts = {}, .think_open = {"<think>"}, .think_close = {"</think>"}}) {}

 protected:
  void begin(size_t, bool) override {}
  Step call() override { return Step::kBad; }
};

std::unique_ptr<AnswerParser> make(const AnswerOptions& options) { return std::make_unique<Plain>(options); }

}  // namespace

const AnswerFormat kPlain = {"plain", "no tools, <think> reasoning", {}, make};

}  // namespace bora::text
