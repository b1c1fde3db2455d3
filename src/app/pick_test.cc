// What the CPU backend picks, beside the float64 reference over random rows and parameters; and what a pick must not
// depend on. Rows from 5 to 49,152 tokens; seeds are printed.
#include "backend/cpu/pick.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "base/rng.h"
#include "sample/sampler.h"

namespace bora::app {
namespace {

uint64_t test_seed() {
  const char* given = std::getenv("BORA_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("BORA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

double normal(Rng* rng) {
  return std::sqrt(-2 * std::log(1 - rng->uniform())) * std::cos(6.283185307179586 * rng->uniform());
}
template <typename T>
T any(Rng* rng, std::initializer_list<T> values) {
  return values.begin()[rng->below(values.size())];
}
std::vector<int32_t> some_ids(Rng* rng, int32_t vocab, int32_t most, bool ascend) {
  std::vector<int32_t> out(rng->below(static_cast<uint64_t>(most) + 1));
  for (int32_t& id : out) id = static_cast<int32_t>(rng->below(static_cast<uint64_t>(vocab)));
  if (ascend) std::sort(out.begin(), out.end());
  return out;
}

// Parameters with the lists that they view.
struct Case {
  ir::PickParams p;
  std::vector<std::pair<int32_t, float>> bias;
  std::vector<int32_t> banned, allowed, ends, breakers, words, word_ends;
  std::vector<uint32_t> mask;
  std::vector<float> logits;
  std::vector<int32_t> history;
  int32_t prompt = 0;

  sample::Input input() const { return {.logits = logits, .history = history, .prompt = prompt, .mask = mask}; }
};

void draw_truncations(Rng* rng, ir::PickParams* p) {
  p->temperature = any(rng, {0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 1.5f, 5.0f});
  if (rng->chance(0.15)) {
    p->dynatemp_range = any(rng, {0.2f, 0.5f, 2.0f});
    p->dynatemp_exponent = any(rng, {0.5f, 1.0f, 2.0f});
  }
  if (rng->chance(0.3)) p->top_k = any(rng, {1, 2, 20, 40, 300, 5000});
  if (rng->chance(0.4)) p->top_p = any(rng, {0.05f, 0.5f, 0.9f, 0.95f, 0.999f});
  if (rng->chance(0.25)) p->min_p = any(rng, {0.001f, 0.05f, 0.3f, 1.0f});
  if (rng->chance(0.2)) p->typical_p = any(rng, {0.2f, 0.8f, 0.97f});
  if (rng->chance(0.2)) p->top_n_sigma = any(rng, {0.7f, 1.5f, 3.0f});
  if (rng->chance(0.2)) {
    p->xtc_probability = any(rng, {0.5f, 1.0f});
    p->xtc_threshold = any(rng, {0.02f, 0.1f, 0.3f});
  }
  if (rng->chance(0.15)) {
    p->mirostat = any(rng, {1, 2});
    p->mirostat_tau = any(rng, {1.0f, 3.0f, 5.0f});
  }
}

void draw_history_processors(Rng* rng, int32_t vocab, Case* c) {
  ir::PickParams* p = &c->p;
  if (rng->chance(0.3)) p->repetition_penalty = any(rng, {0.8f, 1.1f, 1.5f});
  if (rng->chance(0.3)) p->repetition_last_n = any(rng, {0, 3, 64});
  if (rng->chance(0.3)) p->presence_penalty = any(rng, {-0.5f, 0.5f, 1.5f});
  if (rng->chance(0.3)) p->frequency_penalty = any(rng, {-0.2f, 0.3f});
  if (rng->chance(0.3)) {
    p->dry_multiplier = 0.8f;
    p->dry_allowed_length = any(rng, {1, 2, 3});
    p->dry_last_n = any(rng, {-1, -1, 20});
    c->breakers = some_ids(rng, std::min(vocab, 8), 2, true);
  }
  if (rng->chance(0.3)) {
    for (int w = 0; w < 4; ++w) {
      // Often a word that is about to be completed.
      const size_t head = std::min<size_t>(rng->below(3), c->history.size());
      for (size_t i = 0; i < head; ++i) c->words.push_back(c->history[c->history.size() - head + i]);
      c->words.push_back(static_cast<int32_t>(rng->below(static_cast<uint64_t>(vocab))));
      c->word_ends.push_back(static_cast<int32_t>(c->words.size()));
    }
  }
}

std::unique_ptr<Case> random_case(Rng* rng, int32_t vocab) {
  auto c = std::make_unique<Case>();
  const double spread = any(rng, {0.5, 2.0, 4.0, 8.0});
  for (int32_t i = 0; i < vocab; ++i) c->logits.push_back(static_cast<float>(normal(rng) * spread));
  if (rng->chance(0.2)) {
    for (float& v : c->logits) v = std::round(v);  // many ties
  }
  if (rng->chance(0.1)) c->logits[rng->below(c->logits.size())] = NAN;
  if (rng->chance(0.1)) c->logits[rng->below(c->logits.size())] = -INFINITY;
  if (rng->chance(0.02)) c->logits[rng->below(c->logits.size())] = INFINITY;
  const int32_t length = static_cast<int32_t>(rng->below(any<uint64_t>(rng, {2, 10, 200})));
  const uint64_t kinds = any<uint64_t>(rng, {2, 5, static_cast<uint64_t>(vocab)});
  for (int32_t i = 0; i < length; ++i) c->history.push_back(static_cast<int32_t>(rng->below(kinds)));
  c->prompt = static_cast<int32_t>(rng->below(static_cast<uint64_t>(length) + 1));
  c->p.seed = rng->next();
  c->p.choice = static_cast<int32_t>(rng->below(4));
  draw_truncations(rng, &c->p);
  draw_history_processors(rng, vocab, c.get());
  if (rng->chance(0.2)) c->bias.push_back({static_cast<int32_t>(rng->below(static_cast<uint64_t>(vocab))), 3.5f});
  if (rng->chance(0.2)) c->banned = some_ids(rng, vocab, 5, false);
  if (rng->chance(0.1)) c->allowed = some_ids(rng, vocab, 50, true);
  if (rng->chance(0.2)) {
    c->ends = some_ids(rng, vocab, 3, false);
    c->p.min_tokens = 20;
  }
  if (rng->chance(0.15)) {
    for (int32_t i = 0; i < (vocab + 31) / 32; ++i) c->mask.push_back(static_cast<uint32_t>(rng->next()));
  }
  c->p.bias = c->bias;
  c->p.banned = c->banned;
  c->p.allowed = c->allowed;
  c->p.end_ids = c->ends;
  c->p.dry_breakers = c->breakers;
  c->p.bad_words = c->words;
  c->p.bad_word_ends = c->word_ends;
  return c;
}

// A picker with memory of its own, zero at the beginning as a program's.
class Bench {
 public:
  Bench(int32_t vocab, int32_t positions, int32_t slots, int32_t workers = 1) {
    device::Bounds b;
    b.rows = 64;
    b.histories = slots;
    plan_ = cpu::plan_picks(vocab, positions, b, workers);
    memory_ = std::unique_ptr<std::byte, decltype(&std::free)>(
        static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(plan_.bytes))), &std::free);
    std::memset(memory_.get(), 0, static_cast<size_t>(plan_.bytes));
    picker_ = cpu::Picker(plan_, memory_.get());
  }
  struct Out {
    device::PickedRow row;
    std::vector<device::TokenLogprob> top;
  };
  Out run(const device::PickRow& pick, std::span<const uint32_t> mask, const std::vector<float>& logits,
          int32_t worker = 0) {
    const Status s = picker_.check({&pick, 1}, mask, 1);
    BORA_CHECK(s.ok(), s.message().c_str());
    picker_.note_launched({&pick, 1});
    Out out;
    out.top.resize(cpu::kMaxAlternatives);
    picker_.run_row(pick, mask, logits.data(), plan_.vocab, worker, &out.row, out.top.data());
    out.top.resize(static_cast<size_t>(out.row.count));
    return out;
  }
  Out run(const Case& c, int32_t slot = 0, int32_t worker = 0) {
    device::PickRow pick;
    pick.slot = slot;
    pick.position = static_cast<int32_t>(c.history.size());
    pick.prompt = c.prompt;
    pick.mask = c.mask.empty() ? -1 : 0;
    pick.history = c.history;
    pick.params = &c.p;
    return run(pick, c.mask, c.logits, worker);
  }
  cpu::Picker& picker() { return picker_; }

 private:
  cpu::PickPlan plan_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  cpu::Picker picker_;
};

std::string words(const Case& c) {
  const ir::PickParams& p = c.p;
  char out[400];
  std::snprintf(
      out, sizeof(out),
      "V %zu T %g dyn %g^%g k %d p %g min %g typ %g sigma %g xtc %g/%g miro %d tau %g rep %g dry %g mask %zu",
      c.logits.size(), static_cast<double>(p.temperature), static_cast<double>(p.dynatemp_range),
      static_cast<double>(p.dynatemp_exponent), p.top_k, static_cast<double>(p.top_p), static_cast<double>(p.min_p),
      static_cast<double>(p.typical_p), static_cast<double>(p.top_n_sigma), static_cast<double>(p.xtc_probability),
      static_cast<double>(p.xtc_threshold), p.mirostat, static_cast<double>(p.mirostat_tau),
      static_cast<double>(p.repetition_penalty), static_cast<double>(p.dry_multiplier), c.mask.size());
  return out;
}

// The device rounds to float32: relative errors of a weight below 2e-5 where it counts.
constexpr double kEpsilon = 2e-5;

TEST(Pick, FollowsTheReference) {
  Rng rng(test_seed());
  int different = 0, cases = 0, none = 0;
  for (const auto& [vocab, count] : {std::pair{5, 3000}, {33, 3000}, {300, 3000}, {5000, 400}, {49152, 60}}) {
    Bench bench(vocab, 256, 2);
    for (int i = 0; i < count; ++i, ++cases) {
      const auto c = random_case(&rng, vocab);
      ASSERT_TRUE(sample::check(c->p, vocab).ok()) << sample::check(c->p, vocab).message();
      const sample::Picked want = sample::pick(c->input(), c->p);
      const int32_t got = bench.run(*c).row.id;
      none += want.id < 0 ? 1 : 0;
      if (got == want.id) continue;
      ++different;
      ASSERT_LT(want.margin, kEpsilon) << "reference " << want.id << ", device " << got << ": " << words(*c);
    }
  }
  std::printf("%d cases, %d without a token, %d differ by a decision nearer than %g\n", cases, none, different,
              kEpsilon);
  EXPECT_LE(different, cases / 200);
}

TEST(Pick, LogprobsFollowTheReference) {
  Rng rng(test_seed());
  for (int i = 0; i < 600; ++i) {
    const int32_t vocab = any(&rng, {5, 300, 5000});
    Bench bench(vocab, 256, 1);
    const auto c = random_case(&rng, vocab);
    c->p.logprobs = any(&rng, {0, 1, 5, 20, 128});
    const Bench::Out got = bench.run(*c);
    const sample::Logprobs want = sample::logprobs(c->logits, got.row.id, c->p.logprobs);
    ASSERT_EQ(got.row.rank, want.rank);
    const auto near = [](double a, float b) {
      const double d = static_cast<double>(b);
      return std::isinf(a) ? a == d : std::abs(a - d) <= 1e-6 + 2e-7 * std::abs(a);
    };
    ASSERT_TRUE(near(want.logprob, got.row.logprob)) << want.logprob << " " << got.row.logprob;
    ASSERT_EQ(got.top.size(), want.top.size());
    for (size_t k = 0; k < want.top.size(); ++k) {
      ASSERT_EQ(got.top[k].id, want.top[k].id);
      ASSERT_TRUE(near(want.top[k].logprob, got.top[k].logprob));
    }
  }
}

// Everything a pick reports, bit by bit.
bool same(const Bench::Out& a, const Bench::Out& b) {
  return std::memcmp(&a.row, &b.row, sizeof(a.row)) == 0 && a.top.size() == b.top.size() &&
         std::memcmp(a.top.data(), b.top.data(), a.top.size() * sizeof(a.top[0])) == 0;
}

// A choice of `n` tokens over rows that depend on the tokens before; `step` makes each pick.
template <typename Step>
std::vector<Bench::Out> choice(const Case& c, const std::vector<std::vector<float>>& rows, int32_t n, Step step) {
  std::vector<int32_t> tokens = c.history;
  std::vector<Bench::Out> out;
  for (int32_t i = 0; i < n; ++i) {
    const std::vector<float>& row = rows[static_cast<size_t>(tokens.empty() ? 0 : tokens.back()) % rows.size()];
    out.push_back(step(tokens, row));
    if (out.back().row.id < 0) break;
    tokens.push_back(out.back().row.id);
  }
  return out;
}

bool same(const std::vector<Bench::Out>& a, const std::vector<Bench::Out>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Bench::Out& x, const Bench::Out& y) { return same(x, y); });
}

TEST(Pick, DependsOnNothingButRowHistoryParamsAndPosition) {
  Rng rng(test_seed());
  for (int i = 0; i < 60; ++i) {
    const int32_t vocab = any(&rng, {20, 700});
    const auto c = random_case(&rng, vocab), other = random_case(&rng, vocab);
    c->p.logprobs = 3;
    std::vector<std::vector<float>> rows;
    for (int k = 0; k < 7; ++k) rows.push_back(random_case(&rng, vocab)->logits);
    device::PickRow pick;
    pick.prompt = static_cast<int32_t>(c->history.size());
    pick.mask = c->mask.empty() ? -1 : 0;
    pick.params = &c->p;
    // The tokens come once, then only what is picked.
    Bench first(vocab, 256, 5, 2);
    const auto grows = [&](Bench& bench, int32_t slot, int32_t worker) {
      return [&, slot, worker](const std::vector<int32_t>& tokens, const std::vector<float>& row) {
        pick.slot = slot;
        pick.position = static_cast<int32_t>(tokens.size());
        const bool begins = pick.position == pick.prompt;
        pick.history = begins ? std::span<const int32_t>(c->history) : std::span<const int32_t>();
        return bench.run(pick, c->mask, row, worker);
      };
    };
    const auto want = choice(*c, rows, 30, grows(first, 0, 0));
    ASSERT_FALSE(want.empty());
    // Another slot and worker, after another choice stood there; other rows between.
    (void)first.run(*other, 4, 1);
    const auto elsewhere = choice(*c, rows, 30, [&](const auto& tokens, const auto& row) {
      (void)first.run(*other, 2, 1);
      return grows(first, 4, 1)(tokens, row);
    });
    ASSERT_TRUE(same(want, elsewhere)) << words(*c);
    // All tokens given at every step, also into a fresh slot each time (mirostat's mu is not in them).
    const auto given = choice(*c, rows, 30, [&](const auto& tokens, const auto& row) {
      pick.slot = c->p.mirostat != 0 ? 3 : static_cast<int32_t>(rng.below(2)) + 2;
      pick.position = static_cast<int32_t>(tokens.size());
      pick.history = tokens;
      return first.run(pick, c->mask, row, 0);
    });
    ASSERT_TRUE(same(want, given)) << words(*c);
    // Steps that are repeated, and positions that go back.
    const auto again = choice(*c, rows, 30, [&](const auto& tokens, const auto& row) {
      auto step = grows(first, 1, 0);
      Bench::Out out = step(tokens, row);
      while (rng.chance(0.3)) {
        if (tokens.size() > c->history.size() + 2 && rng.chance(0.5)) {
          // Two tokens back and forward again.
          for (size_t n = tokens.size() - 2; n < tokens.size(); ++n) {
            const std::vector<int32_t> shorter(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
            (void)step(shorter, rows[static_cast<size_t>(shorter.back()) % rows.size()]);
          }
        }
        out = step(tokens, row);
      }
      return out;
    });
    ASSERT_TRUE(same(want, again)) << words(*c);
  }
}

TEST(Pick, ATargetIsScoredAndWritesNothing) {
  Rng rng(test_seed());
  Bench bench(300, 64, 1);
  const auto c = random_case(&rng, 300);
  c->p = {};
  c->p.temperature = 1;
  c->p.repetition_penalty = 1.3f;
  c->p.logprobs = 2;
  c->mask.clear();
  for (size_t i = 0; i < c->logits.size(); ++i) c->logits[i] = static_cast<float>(normal(&rng));
  c->history = {1, 2, 3};
  c->prompt = 3;
  const Bench::Out want = bench.run(*c);
  device::PickRow target;
  target.target = 17;
  target.params = &c->p;
  const Bench::Out scored = bench.run(target, {}, c->logits);
  EXPECT_EQ(scored.row.id, 17);
  EXPECT_NEAR(static_cast<double>(scored.row.logprob), sample::logprobs(c->logits, 17, 0).logprob, 1e-5);
  EXPECT_TRUE(same(want, bench.run(*c)));
}

TEST(Pick, WrongNumbersAreErrors) {
  Bench bench(300, 64, 2);
  const ir::PickParams greedy;
  ir::PickParams penalties;
  penalties.presence_penalty = 1;
  const std::vector<int32_t> history{1, 2, 3}, outside{300};
  const auto pick_of = [&](auto set) {
    device::PickRow p;
    p.params = &greedy;
    p.position = 3;
    p.history = history;
    set(&p);
    return p;
  };
  const auto refused = [&](auto set) {
    const device::PickRow p = pick_of(set);
    return !bench.picker().check({&p, 1}, {}, 1).ok();
  };
  EXPECT_FALSE(refused([](device::PickRow*) {}));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->row = 1; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->row = -1; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->slot = 2; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->slot = -1; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->position = 65; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->position = 2; }));  // below its history's end
  EXPECT_TRUE(refused([](device::PickRow* p) { p->prompt = 4; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->mask = 0; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->target = 300; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->history_begin = -1; }));
  EXPECT_TRUE(refused([](device::PickRow* p) { p->params = nullptr; }));
  EXPECT_TRUE(refused([&](device::PickRow* p) { p->history = outside; }));
  // Penalties need the tokens before.
  EXPECT_TRUE(refused([&](device::PickRow* p) {
    p->params = &penalties;
    p->history = {};
  }));
  EXPECT_FALSE(refused([&](device::PickRow* p) { p->params = &penalties; }));
  // Lists and numbers of the parameters.
  ir::PickParams bad;
  bad.temperature = NAN;
  EXPECT_TRUE(refused([&](device::PickRow* p) { p->params = &bad; }));
  bad = {};
  bad.banned = outside;
  EXPECT_TRUE(refused([&](device::PickRow* p) { p->params = &bad; }));
  bad = {};
  bad.logprobs = cpu::kMaxAlternatives + 1;
  EXPECT_TRUE(refused([&](device::PickRow* p) { p->params = &bad; }));
  // One slot serves one pick of a step.
  const device::PickRow twice[2] = {pick_of([](device::PickRow*) {}), pick_of([](device::PickRow*) {})};
  EXPECT_FALSE(bench.picker().check(twice, {}, 1).ok());
}

}  // namespace
}  // namespace bora::app
