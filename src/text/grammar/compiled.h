// The one implementation of Grammar: a Program and its shared, bounded Engine.
#pragma once

#include <memory>
#include <mutex>

#include "text/grammar/engine.h"
#include "text/grammar/grammar.h"

namespace bora::text {

class CompiledGrammar final : public Grammar, public std::enable_shared_from_this<CompiledGrammar> {
 public:
  CompiledGrammar(Program program, const GrammarLimits& limits);
  std::unique_ptr<GrammarMatcher> matcher(std::shared_ptr<const GrammarVocab> vocab) const override;
  const Program& program() const { return program_; }

  // Matchers of all threads share one engine under one lock. Above the memory limit it is replaced; every matcher
  // moves its own states over the next time it is used.
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<Engine> engine;
  };
  Shared& shared() const { return shared_; }
  size_t engine_bytes_max() const { return engine_bytes_max_; }

 private:
  Program program_;
  size_t engine_bytes_max_;
  mutable Shared shared_;
};

// Checks the size of a finished program against the limits and wraps it.
Result<GrammarPtr> wrap_program(Result<Program> program, const GrammarLimits& limits);

}  // namespace bora::text
