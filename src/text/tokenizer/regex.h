// Regex: a pattern in the dialect of tokenizer files (Oniguruma with Ruby syntax), run by PCRE2.
//
// The pattern is translated: `^` and `$` are line anchors, `\h` a hexadecimal digit, `&&` in a class an intersection,
// `\p{Han}` a script and not its extensions, and letters assigned after the library's Unicode version are added to
// the classes. What cannot be translated exactly is an error that names it. Matching is JIT-compiled with limits on
// steps and depth; where a limit is hit there is no match, so a hostile text costs bounded time. One object may be
// used by many threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace bora::text {

// The PCRE2 text of `pattern`.
Result<std::string> translate_pattern(std::string_view pattern);

class Regex {
 public:
  static Result<std::unique_ptr<Regex>> compile(std::string_view pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Calls found(begin, end) for each match in order, as a global search does: matches do not overlap, an empty match
  // directly after a match is passed over. `text` is valid UTF-8.
  void for_each(std::string_view text, const std::function<void(size_t, size_t)>& found) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bora::text
