// Structured output: JSON Schema, regex, EBNF and choices as one automaton over bytes that yields token masks.
//
// Compiling fails closed: what is not understood is an error with a JSON pointer or a position, and generation never
// goes on unconstrained. A compiled Grammar is immutable and shared; a Matcher is one sequence's state, with rollback
// and fork for speculation. Lengths and repetitions are counters. Compiling happens off the step thread, under a
// limit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::text {

// What masks are computed over. Views live as long as the GrammarVocab; build once a tokenizer.
struct VocabView {
  std::span<const std::string_view> token_bytes;  // by id; empty = never allowed by a grammar (control tokens, holes)
  std::span<const int32_t> end_ids;               // allowed exactly when the text may end
};
class GrammarVocab;
Result<std::shared_ptr<const GrammarVocab>> make_grammar_vocab(const VocabView& view);

struct GrammarLimits {
  double compile_seconds = 0.250;
  int64_t memory_bytes = 64 << 20;
  int32_t depth = 60;  // nesting of the source
};

class GrammarMatcher {
 public:
  virtual ~GrammarMatcher() = default;
  // Sets bit id of mask[id / 32] for every token that may come next; words = ceil(vocab / 32). REQUIRES: a vocab.
  virtual void fill_mask(std::span<uint32_t> mask) const = 0;
  // Advances; false (state unchanged) if the token or text is not allowed.
  virtual bool accept_token(int32_t id) = 0;
  virtual bool accept_text(std::string_view bytes) = 0;
  virtual bool can_end() const = 0;
  virtual bool ended() const = 0;  // an end id was accepted
  // Undoes the last n accepted tokens (accept_text counts as one). n <= 64 are kept.
  virtual void rollback(int32_t n) = 0;
  virtual std::unique_ptr<GrammarMatcher> fork() const = 0;
  // Bytes that must come next whatever is chosen (jump-forward); may be empty.
  virtual std::string forced() const = 0;
};

class Grammar {
 public:
  virtual ~Grammar() = default;
  // `vocab` may be null: then only accept_text, can_end, rollback, fork and forced work.
  virtual std::unique_ptr<GrammarMatcher> matcher(std::shared_ptr<const GrammarVocab> vocab) const = 0;
};

using GrammarPtr = std::shared_ptr<const Grammar>;
Result<GrammarPtr> compile_json_schema(const Json& schema, const GrammarLimits& limits);
Result<GrammarPtr> compile_regex(std::string_view pattern, const GrammarLimits& limits);
Result<GrammarPtr> compile_ebnf(std::string_view gbnf, const GrammarLimits& limits);
Result<GrammarPtr> compile_choice(std::span<const std::string> choices, const GrammarLimits& limits);

// Free text until one of `triggers` appears; then the part that belongs to it is enforced, then free text again (or
// the end).
struct TagPart {
  std::string begin;  // e.g. "<tool_call>\n"
  GrammarPtr content;
  std::string end;
};
struct StructuralTags {
  std::vector<TagPart> parts;
  std::vector<std::string> triggers;  // each part's begin starts with one of them
  bool at_least_one = false;          // tool_choice "required"
  bool stop_after_first = false;
};
Result<GrammarPtr> compile_structural_tags(const StructuralTags& tags, const GrammarLimits& limits);

}  // namespace bora::text
