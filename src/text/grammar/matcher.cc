// One sequence's state: the current configuration, its history, and the length of the current run of white space.
#include <algorithm>
#include <deque>

#include "text/grammar/compiled.h"

namespace bora::text {
namespace {

// White space between JSON tokens is free but not endless: from kWsSoft bytes on no token may begin with more of it,
// and kWsHard is never passed.
constexpr uint32_t kWsSoft = 128;
constexpr uint32_t kWsHard = 512;
constexpr size_t kHistory = 64;
constexpr size_t kForcedMax = 4096;

struct State {
  ConfigId config = kDeadConfig;
  uint32_t ws_run = 0;
  bool ended = false;
};

class Matcher final : public GrammarMatcher {
 public:
  Matcher(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const GrammarVocab> vocab)
      : grammar_(std::move(grammar)), vocab_(std::move(vocab)) {
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    state_.config = engine_->start();
  }
  Matcher(const Matcher&) = default;

  void fill_mask(std::span<uint32_t> mask) const override {
    BORA_CHECK(vocab_ != nullptr, "fill_mask needs a vocabulary");
    BORA_CHECK(mask.size() >= vocab_->words, "mask is too short");
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(vocab_->words), mask.end(), 0u);
    if (state_.ended) {
      std::fill(mask.begin(), mask.end(), 0u);
      return;
    }
    engine_->fill_mask(state_.config, *vocab_, mask);
    if (ws_full()) {
      for (size_t i = 0; i < vocab_->words; ++i) mask[i] &= ~vocab_->ws_start[i];
    }
    if (!engine_->can_end(state_.config)) return;
    for (int32_t id : vocab_->end_ids) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }

  bool accept_token(int32_t id) override {
    BORA_CHECK(vocab_ != nullptr, "accept_token needs a vocabulary");
    if (state_.ended || id < 0 || static_cast<size_t>(id) >= vocab_->bytes.size()) return false;
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    State next = state_;
    if (vocab_->is_end(id)) {
      if (!engine_->can_end(state_.config)) return false;
      next.ended = true;
    } else {
      std::string_view bytes = vocab_->bytes[static_cast<size_t>(id)];
      if (bytes.empty()) return false;
      if (ws_full() && is_json_ws(static_cast<uint8_t>(bytes[0]))) return false;
      // A mask does not count the white space inside a token, so neither does this.
      if (!advance(bytes, UINT32_MAX, &next)) return false;
    }
    commit(next);
    return true;
  }

  bool accept_text(std::string_view bytes) override {
    if (state_.ended) return false;
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    State next = state_;
    if (!advance(bytes, kWsHard, &next)) return false;
    commit(next);
    return true;
  }

  bool can_end() const override {
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    return !state_.ended && engine_->can_end(state_.config);
  }
  bool ended() const override { return state_.ended; }

  void rollback(int32_t n) override {
    BORA_CHECK(n >= 0 && static_cast<size_t>(n) <= history_.size(), "rollback past the history");
    for (; n > 0; --n) {
      state_ = history_.back();
      history_.pop_back();
    }
  }

  std::unique_ptr<GrammarMatcher> fork() const override { return std::make_unique<Matcher>(*this); }

  std::string forced() const override {
    std::string out;
    if (state_.ended) return out;
    std::lock_guard lock(grammar_->shared().mutex);
    sync();
    ConfigId at = state_.config;
    for (int b = 0; out.size() < kForcedMax && (b = engine_->forced_byte(at)) >= 0;) {
      at = engine_->step(at, static_cast<uint8_t>(b));
      if (at == kDeadConfig) break;
      out.push_back(static_cast<char>(b));
    }
    return out;
  }

 private:
  // REQUIRES: the lock. Follows the grammar to its current engine, replacing that engine when it has grown too large.
  void sync() const {
    CompiledGrammar::Shared& shared = grammar_->shared();
    if (!shared.engine || shared.engine->bytes() > grammar_->engine_bytes_max()) {
      shared.engine = std::make_shared<Engine>(grammar_->program());
    }
    if (engine_ == shared.engine) return;
    if (engine_) {
      state_.config = move_over(state_.config);
      for (State& s : history_) s.config = move_over(s.config);
    }
    engine_ = shared.engine;
  }
  ConfigId move_over(ConfigId id) const {
    return id == kDeadConfig ? id : grammar_->shared().engine->import(*engine_, id);
  }

  bool ws_full() const { return state_.ws_run >= kWsSoft && engine_->in_ws(state_.config); }

  bool advance(std::string_view bytes, uint32_t ws_max, State* state) const {
    for (char c : bytes) {
      auto byte = static_cast<uint8_t>(c);
      bool ws = is_json_ws(byte) && engine_->in_ws(state->config);
      state->ws_run = ws ? state->ws_run + 1 : 0;
      if (state->ws_run > ws_max) return false;
      state->config = engine_->step(state->config, byte);
      if (state->config == kDeadConfig) return false;
    }
    return true;
  }

  void commit(const State& next) {
    history_.push_back(state_);
    if (history_.size() > kHistory) history_.pop_front();
    state_ = next;
  }

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<const GrammarVocab> vocab_;
  // Ids belong to engine_; sync() renumbers them without changing what they mean.
  mutable std::shared_ptr<Engine> engine_;
  mutable State state_;
  mutable std::deque<State> history_;
};

}  // namespace

CompiledGrammar::CompiledGrammar(Program program, const GrammarLimits& limits)
    : program_(std::move(program)),
      engine_bytes_max_(static_cast<size_t>(std::max<int64_t>(limits.memory_bytes, 1 << 20))) {}

std::unique_ptr<GrammarMatcher> CompiledGrammar::matcher(std::shared_ptr<const GrammarVocab> vocab) const {
  return std::make_unique<Matcher>(shared_from_this(), std::move(vocab));
}

Result<GrammarPtr> wrap_program(Result<Program> program, const GrammarLimits& limits) {
  if (!program.ok()) return std::move(program).take_status();
  if (static_cast<int64_t>(program->bytes()) > limits.memory_bytes) {
    return resource_exhausted("the grammar is larger than the memory limit");
  }
  return GrammarPtr(std::make_shared<CompiledGrammar>(std::move(*program), limits));
}

}  // namespace bora::text
