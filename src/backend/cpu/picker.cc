// Histories of tokens and the checks of what a step asks for.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "backend/cpu/pick.h"
#include "backend/cpu/pick_scan.h"
#include "base/rng.h"

namespace bora::cpu {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Takes pieces of a region one after the other; over base 0 it only counts.
class Cutter {
 public:
  explicit Cutter(uintptr_t base) : base_(base) {}
  template <typename T>
  T* take(int64_t n) {
    T* at = reinterpret_cast<T*>(base_ + static_cast<uintptr_t>(at_));
    at_ = round_up(at_ + n * static_cast<int64_t>(sizeof(T)), 64);
    return at;
  }
  template <typename T>
  int64_t skip(int64_t n) {
    const int64_t at = at_;
    (void)take<T>(n);
    return at;
  }
  int64_t end() const { return at_; }

 private:
  uintptr_t base_;
  int64_t at_ = 0;
};

int64_t cut_scratch(int64_t vocab, int64_t positions, uintptr_t base, PickScratch* s) {
  Cutter c(base);
  const int64_t blocks = (vocab + kScanBlock - 1) / kScanBlock;
  s->x = c.take<float>(vocab);
  s->counts = c.take<int32_t>(vocab);
  s->ids = c.take<int32_t>(vocab);
  s->weights = c.take<float>(vocab);
  s->list = c.take<Candidate>(vocab);
  s->order = c.take<Candidate>(vocab);
  s->block_max = c.take<float>(blocks);
  s->sums = c.take<double>(blocks);
  s->suffix = c.take<int32_t>(positions + 1);
  return c.end();
}

bool finite_in(float v, float low, float high) { return v >= low && v <= high; }

Status check_ids(std::span<const int32_t> ids, int32_t vocab, bool ascend, const char* what) {
  int32_t last = -1;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab) return out_of_range(std::string(what) + ": a token id is outside the vocabulary");
    if (ascend && id < last) return invalid_argument(std::string(what) + ": ids must ascend");
    last = id;
  }
  return {};
}

Status check_lists(const ir::PickParams& p, int32_t vocab) {
  for (const auto& [id, value] : p.bias) {
    if (id < 0 || id >= vocab) return out_of_range("bias: a token id is outside the vocabulary");
    if (std::isnan(value)) return invalid_argument("bias: a value is not a number");
  }
  BORA_TRY(check_ids(p.banned, vocab, false, "banned"));
  BORA_TRY(check_ids(p.allowed, vocab, true, "allowed"));
  BORA_TRY(check_ids(p.end_ids, vocab, false, "end_ids"));
  BORA_TRY(check_ids(p.dry_breakers, vocab, false, "dry_breakers"));
  BORA_TRY(check_ids(p.bad_words, vocab, false, "bad_words"));
  int32_t last = 0;
  for (const int32_t end : p.bad_word_ends) {
    if (end <= last || end > static_cast<int32_t>(p.bad_words.size()))
      return invalid_argument("bad_word_ends: a word is empty or beyond bad_words");
    last = end;
  }
  return {};
}

Status check_params(const ir::PickParams& p, int32_t vocab) {
  constexpr float kMost = 3e38f;
  const bool numbers = finite_in(p.temperature, 0, kMost) && finite_in(p.dynatemp_range, 0, kMost) &&
                       finite_in(p.dynatemp_exponent, 0, kMost) && finite_in(p.top_p, 0, 1) &&
                       finite_in(p.min_p, 0, 1) && finite_in(p.typical_p, 0, 1) && !std::isnan(p.top_n_sigma) &&
                       finite_in(p.xtc_probability, 0, 1) && finite_in(p.xtc_threshold, 0, 1) && p.mirostat >= 0 &&
                       p.mirostat <= 2 && finite_in(p.mirostat_tau, 0, kMost) &&
                       finite_in(p.mirostat_eta, 0, kMost) && p.repetition_penalty > 0 &&
                       p.repetition_penalty <= kMost && finite_in(p.presence_penalty, -kMost, kMost) &&
                       finite_in(p.frequency_penalty, -kMost, kMost) && finite_in(p.dry_multiplier, 0, kMost) &&
                       finite_in(p.dry_base, 0, kMost) && p.dry_allowed_length >= 0 && p.top_k >= 0;
  if (!numbers) return invalid_argument("a sampling parameter is out of its range");
  if (p.logprobs > kMaxAlternatives)
    return invalid_argument("logprobs must be at most " + std::to_string(kMaxAlternatives));
  return check_lists(p, vocab);
}

}  // namespace

PickPlan plan_picks(int32_t vocab, int32_t positions, const device::Bounds& bounds, int32_t workers) {
  PickPlan p;
  if (bounds.histories <= 0) return p;
  p.vocab = vocab;
  p.positions = positions;
  p.slots = bounds.histories;
  p.rows = bounds.rows;
  p.workers = workers;
  p.steps = std::max(1, bounds.in_flight) + 1;  // a step's tokens are read while the next is picked
  Cutter c(0);
  p.tokens = c.skip<int32_t>(int64_t{p.slots} * (positions + 1));
  p.mu = c.skip<Surprise>(int64_t{p.slots} * (positions + 2));
  p.results = c.skip<device::PickedRow>(int64_t{p.steps} * p.rows);
  p.top = c.skip<device::TokenLogprob>(int64_t{p.steps} * p.rows * kMaxAlternatives);
  PickScratch unused;
  p.scratch_bytes = cut_scratch(vocab, positions, 0, &unused);
  p.scratch = c.skip<std::byte>(p.scratch_bytes * workers);
  p.bytes = round_up(c.end(), 4096);
  return p;
}

PickScratch pick_scratch(const PickPlan& plan, std::byte* region, int32_t worker) {
  PickScratch s;
  (void)cut_scratch(plan.vocab, plan.positions,
                    reinterpret_cast<uintptr_t>(region + plan.scratch + worker * plan.scratch_bytes), &s);
  return s;
}

Picker::Picker(const PickPlan& plan, std::byte* region)
    : plan_(plan), region_(region), known_(static_cast<size_t>(plan.slots)) {}

device::PickedRow* Picker::results(int32_t step) const {
  return reinterpret_cast<device::PickedRow*>(region_ + plan_.results) + int64_t{step} * plan_.rows;
}
device::TokenLogprob* Picker::top(int32_t step, int64_t row) const {
  return reinterpret_cast<device::TokenLogprob*>(region_ + plan_.top) +
         (int64_t{step} * plan_.rows + row) * kMaxAlternatives;
}

namespace {

// What a slot of known tokens [begin, end) holds after a pick's history was written; contiguous.
void extend(int32_t first, int32_t count, int32_t* begin, int32_t* end) {
  if (count == 0) return;
  const int32_t last = first + count;
  if (first > *end || last < *begin) {
    *begin = first;
    *end = last;
  } else {
    *begin = std::min(*begin, first);
    *end = std::max(*end, last);
  }
}

}  // namespace

Status Picker::check_row(const device::PickRow& p, size_t rows, size_t masks) const {
  if (p.row < 0 || static_cast<size_t>(p.row) >= rows) return out_of_range("a pick's row is not a wanted one");
  if (p.params == nullptr) return invalid_argument("a pick has no parameters");
  BORA_TRY(check_params(*p.params, plan_.vocab));
  if (p.target >= plan_.vocab) return out_of_range("a pick's target is outside the vocabulary");
  if (p.target >= 0) return {};
  if (p.slot < 0 || p.slot >= plan_.slots) return out_of_range("a pick's history slot is out of range");
  if (p.position < 0 || p.position > plan_.positions || p.prompt < 0 || p.prompt > p.position)
    return out_of_range("a pick's position or prompt is out of range");
  if (p.mask >= static_cast<int32_t>(masks)) return out_of_range("a pick's mask is not in the step");
  const int32_t count = static_cast<int32_t>(std::min<size_t>(p.history.size(), 1u << 30));
  if (p.history_begin < 0 || count > p.position - p.history_begin)
    return out_of_range("a pick's history is not below its position");
  BORA_TRY(check_ids(p.history, plan_.vocab, false, "history"));
  Known k = known_[static_cast<size_t>(p.slot)];
  if (k.stamp == stamp_) return invalid_argument("two picks of a step name one history slot");
  extend(p.history_begin, count, &k.begin, &k.end);
  if (p.position > 0 && (k.begin > 0 || k.end < p.position) && reads_history(*p.params))
    return failed_precondition("the history slot lacks tokens that the pick's penalties read");
  return {};
}

Status Picker::check(std::span<const device::PickRow> picks, std::span<const uint32_t> masks, size_t rows) {
  if (!picks.empty() && region_ == nullptr) return failed_precondition("the program was compiled without histories");
  if (picks.size() > static_cast<size_t>(plan_.rows)) return invalid_argument("more picks than the program's rows");
  const size_t words = (static_cast<size_t>(plan_.vocab) + 31) / 32;
  if (!masks.empty() && masks.size() % words != 0) return invalid_argument("the masks are incomplete");
  ++stamp_;
  for (const device::PickRow& p : picks) {
    BORA_TRY(check_row(p, rows, words == 0 ? 0 : masks.size() / words));
    if (p.target < 0) known_[static_cast<size_t>(p.slot)].stamp = stamp_;
  }
  return {};
}

void Picker::note_launched(std::span<const device::PickRow> picks) {
  for (const device::PickRow& p : picks) {
    if (p.target >= 0) continue;
    Known& k = known_[static_cast<size_t>(p.slot)];
    extend(p.history_begin, static_cast<int32_t>(p.history.size()), &k.begin, &k.end);
    if (k.end < p.position || k.begin > p.position) k.begin = p.position;
    k.end = p.position + 1;
  }
}

namespace {

// Whose mu it is: a slot may come to another choice with the same tokens. Never 0.
uint32_t owner_of(const ir::PickParams& p) {
  uint64_t h = mix64(p.seed) ^ static_cast<uint32_t>(p.choice);
  h = mix64(h ^ std::bit_cast<uint32_t>(p.mirostat_tau)) ^ std::bit_cast<uint32_t>(p.mirostat_eta);
  return static_cast<uint32_t>(mix64(h ^ static_cast<uint32_t>(p.mirostat))) | 1u;
}

void forget(Surprise* mu, int32_t from, int32_t positions) {
  for (int32_t i = from; i <= positions + 1 && mu[i].owner != 0; ++i) mu[i] = {};
}

}  // namespace

void Picker::run_row(const device::PickRow& p, std::span<const uint32_t> masks, const float* logits, int64_t stride,
                     int32_t worker, device::PickedRow* row, device::TokenLogprob* top) {
  const PickScratch s = pick_scratch(plan_, region_, worker);
  PickInput in{.logits = logits + p.row * stride,
               .vocab = plan_.vocab,
               .history = {},
               .prompt = p.prompt,
               .mask = nullptr,
               .params = p.params,
               .mu = 0};
  *row = {};
  row->id = p.target;
  if (p.target < 0) {
    int32_t* tokens = reinterpret_cast<int32_t*>(region_ + plan_.tokens) + int64_t{p.slot} * (plan_.positions + 1);
    Surprise* mu = reinterpret_cast<Surprise*>(region_ + plan_.mu) + int64_t{p.slot} * (plan_.positions + 2);
    for (size_t i = 0; i < p.history.size(); ++i) {
      const int32_t at = p.history_begin + static_cast<int32_t>(i);
      if (tokens[at] == p.history[i]) continue;
      tokens[at] = p.history[i];
      forget(mu, at + 1, plan_.positions);
    }
    in.history = {tokens, static_cast<size_t>(p.position)};
    if (p.mask >= 0)
      in.mask = masks.data() + static_cast<size_t>(p.mask) * ((static_cast<size_t>(in.vocab) + 31) / 32);
    const uint32_t owner = p.params->mirostat == 0 ? 0 : owner_of(*p.params);
    const Surprise& known = mu[p.position];
    in.mu = p.position == p.prompt || known.owner != owner ? 2 * p.params->mirostat_tau : known.mu;
    float next = 0;
    row->id = pick_token(in, s, &next);
    tokens[p.position] = std::max(0, row->id);  // a row without a token is surplus; 0 keeps what follows in bounds
    forget(mu, p.position + 1, plan_.positions);
    mu[p.position + 1] = {next, owner};
  }
  if (p.params->logprobs >= 0) row->count = pick_logprobs(in, s, row->id, p.params->logprobs, row, top);
}

}  // namespace bora::cpu
