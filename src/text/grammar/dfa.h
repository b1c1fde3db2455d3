// Deterministic automata over code points: patterns with assertions, and the boolean combinations of patterns.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/expr.h"

namespace bora::text {

class Dfa {
 public:
  static constexpr size_t kMaxStates = 2000;

  // The texts that match `e` as a whole, assertions included. Errors: the automaton would be too large.
  static Result<Dfa> from_expr(const Expr& e, bool unicode_words);
  static Dfa any();
  Dfa complement() const;
  Result<Dfa> intersect(const Dfa& other) const;
  bool matches(std::string_view utf8) const;
  bool empty() const;
  NodeId compile(bool json, NodeId next, ProgramBuilder* out) const;

 private:
  friend class DfaBuilder;
  // symbols_ partition all code points; next_[state * symbols + symbol]. State 0 is the start; all states are total.
  std::vector<CharClass> symbols_;
  std::vector<uint32_t> next_;
  std::vector<char> accept_;
};

}  // namespace bora::text
