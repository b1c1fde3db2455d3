// Tokens of a template, as Jinja2's lexer makes them with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace bora::text::jinja {

enum class Tok : uint8_t {
  kData,
  kVarBegin,
  kVarEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOp,
  kEof
};

struct Token {
  Tok type;
  int32_t line;
  std::string_view text;  // kString: unescaped, in the heap; others: in the source
};

// "\r\n" and "\r" become "\n"; one line end at the very end is dropped.
std::string normalize_source(std::string_view source);
// `source` is normalized and outlives the tokens. Throws Failure (TemplateSyntaxError, with the line).
std::vector<Token> lex(std::string_view source, Heap& heap);
[[noreturn]] void fail_syntax(int32_t line, std::string message);

}  // namespace bora::text::jinja
