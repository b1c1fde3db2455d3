// The front doors for regex and choice.
#include <map>

#include "text/grammar/compiled.h"
#include "text/grammar/dfa.h"
#include "text/grammar/trie_nodes.h"

namespace bora::text {

Result<GrammarPtr> compile_regex(std::string_view pattern, const GrammarLimits& limits) {
  RegexOptions options;
  options.depth = limits.depth;
  BORA_ASSIGN(Expr e, parse_regex(pattern, options));
  Expr whole = whole_expr(std::move(e));
  ProgramBuilder builder;
  RuleId root = builder.new_rule();
  if (has_assert(whole)) {
    BORA_ASSIGN_CONTEXT(Dfa dfa, Dfa::from_expr(whole, options.unicode_classes), "regex");
    builder.set_rule(root, dfa.compile(false, builder.ret(), &builder));
  } else {
    BORA_ASSIGN_CONTEXT(NodeId start, compile_expr(whole, false, builder.ret(), &builder), "regex");
    builder.set_rule(root, start);
  }
  Result<Program> program = builder.finish(root);
  if (!program.ok()) return std::move(program).take_status().with_context("regex");
  return wrap_program(std::move(program), limits);
}

Result<GrammarPtr> compile_choice(std::span<const std::string> choices, const GrammarLimits& limits) {
  if (choices.empty()) return invalid_argument("choice: the list is empty");
  ProgramBuilder builder;
  RuleId root = builder.new_rule();
  std::vector<std::string> words(choices.begin(), choices.end());
  BORA_ASSIGN_CONTEXT(NodeId start, word_trie(std::move(words), false, builder.ret(), &builder), "choice");
  builder.set_rule(root, start);
  return wrap_program(builder.finish(root), limits);
}

}  // namespace bora::text
