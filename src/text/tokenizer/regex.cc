#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr size_t kJitStackBytes = 1 << 20;

}  // namespace

struct Regex::Impl {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Impl() {
    if (code) pcre2_code_free(code);
  }
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::~Regex() = default;

Result<std::unique_ptr<Regex>> Regex::compile(std::string_view pattern) {
  if (pattern.size() > 65536) return invalid_argument("split pattern: longer than 65536 bytes");
  BORA_ASSIGN_CONTEXT(std::string translated, translate_pattern(pattern), "split pattern " + std::string(pattern));
  int error = 0;
  PCRE2_SIZE where = 0;
  auto impl = std::make_unique<Impl>();
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  impl->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK, &error, &where, context.get());
  if (!impl->code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    return invalid_argument("split pattern " + std::string(pattern) + ": " + reinterpret_cast<const char*>(message));
  }
  impl->jit = pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE) == 0;
  return std::unique_ptr<Regex>(new Regex(std::move(impl)));
}

void Regex::for_each(std::string_view text, const std::function<void(size_t, size_t)>& found) const {
  struct Free {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };
  std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(impl_->code, nullptr));
  std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
  std::unique_ptr<pcre2_jit_stack, Free> stack(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t pos = 0;
  size_t last_end = SIZE_MAX;
  while (pos <= text.size()) {
    int rc = pcre2_match(impl_->code, subject, text.size(), pos, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (rc < 0) return;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    size_t begin = range[0];
    size_t end = range[1];
    if (begin == end && end == last_end) {  // empty, right after a match: look one character further
      if (end >= text.size()) return;
      pos = end + utf8_length(static_cast<uint8_t>(text[end]));
      last_end = SIZE_MAX;
      continue;
    }
    if (begin > end) return;  // \K inside a look-ahead: no sense in a split pattern
    found(begin, end);
    last_end = end;
    pos = end;
  }
}

}  // namespace bora::text
