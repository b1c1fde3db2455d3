// Tokens and log-probabilities of whole requests on real programs: equal to the last bit alone, among others that
// come and go, in chunks, with one and two steps in flight, one and two threads, at every level.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <random>
#include <thread>

#include "app/backends.h"
#include "app/sequence.h"
#include "backend/cpu/isa.h"
#include "base/rng.h"
#include "model/family.h"

namespace bora::app {
namespace {

constexpr int32_t kPositions = 256, kAnswer = 200, kRows = 300;

std::string fixture(const std::string& name) {
  const char* root = std::getenv("BORA_FIXTURES");
  const std::string dir = std::string(root ? root : BORA_SOURCE_DIR "/../shared") + "/fixtures/families/" + name;
  return name.rfind("gguf-", 0) == 0 ? dir + "/model.gguf" : dir + "/model.safetensors";
}

struct Loaded {
  std::unique_ptr<FileSystem> files = make_os_file_system();
  std::unique_ptr<formats::Checkpoint> checkpoint;
  model::Model model;
  std::unique_ptr<CheckpointWeights> weights;
};

std::unique_ptr<Loaded> load(const std::string& path) {
  auto out = std::make_unique<Loaded>();
  auto c = formats::open_checkpoint(*out->files, path);
  BORA_CHECK(c.ok(), c.status().message().c_str());
  out->checkpoint = *std::move(c);
  auto m = model::build_model(*out->checkpoint, {.kv_dtype = DType::kBF16});
  BORA_CHECK(m.ok(), m.status().message().c_str());
  out->model = *std::move(m);
  out->weights = std::make_unique<CheckpointWeights>(out->checkpoint.get());
  return out;
}

struct Wanted {
  std::vector<int32_t> prompt;
  ir::PickParams params;
  int32_t answer = kAnswer;
};

// What a request's client sees, to the bit.
struct Seen {
  std::vector<int32_t> numbers;
  std::vector<float> logprobs;
  void add(const device::PickedRow& row, const std::vector<device::TokenLogprob>& top) {
    numbers.insert(numbers.end(), {row.id, row.rank, row.count});
    logprobs.push_back(row.logprob);
    for (int32_t i = row.first; i < row.first + row.count; ++i) {
      numbers.push_back(top[static_cast<size_t>(i)].id);
      logprobs.push_back(top[static_cast<size_t>(i)].logprob);
    }
  }
  bool same(const Seen& o) const {
    return numbers == o.numbers && logprobs.size() == o.logprobs.size() &&
           std::memcmp(logprobs.data(), o.logprobs.data(), logprobs.size() * sizeof(float)) == 0;
  }
};

// Choices in the places of one program; each step takes some of them. What is not a subject ends early and another
// comes in its place.
class Serving {
 public:
  struct Options {
    int32_t places = 1, in_flight = 1, chunk = 0;  // chunk 0: any size, drawn
    bool steady = false;                           // every choice is in every step
  };
  Serving(device::Device& device, Loaded& loaded, const Options& o, uint64_t seed)
      : options_(o),
        rng_(seed),
        vocab_(loaded.model.info.vocab),
        bounds_(bounds_for(loaded.model.graph, kPositions, kRows, o.places)) {
    bounds_.in_flight = o.in_flight;
    bounds_.histories = o.places;
    auto program = device.compile(loaded.model.graph, bounds_, {loaded.weights.get(), loaded.model.bindings});
    BORA_CHECK(program.ok(), program.status().message().c_str());
    program_ = *std::move(program);
    stream_ = *device.stream();
    groups_ = loaded.model.graph.groups.size();
    choices_.resize(static_cast<size_t>(o.places));
  }

  // Runs the subjects at places of the rng's choice to their end.
  std::vector<Seen> run(const std::vector<Wanted>& subjects) {
    std::vector<size_t> order(choices_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& c = choices_[order[i]];
      c = {};
      if (i < subjects.size()) {
        c.wanted = subjects[i];
        c.subject = static_cast<int32_t>(i);
      } else {
        replace(&c);
      }
    }
    seen_.assign(subjects.size(), {});
    left_ = static_cast<int32_t>(subjects.size());
    while (left_ > 0) {
      if (flights_.size() == static_cast<size_t>(options_.in_flight)) collect();
      launch();
    }
    while (!flights_.empty()) collect();
    return seen_;
  }

 private:
  struct Choice {
    Wanted wanted;
    int32_t subject = -1;
    int64_t life = 0;                // changes when another comes
    int32_t length = 0;              // tokens the program has or will have
    std::vector<int32_t> confirmed;  // of the answer, read
    int32_t planned = 0;             // of the answer, picked or on the way
    int32_t pick = -1;               // its index among the picks of `pick_step`
    device::StepId pick_step = -1;
  };
  // A step's integers; they stay until it is collected.
  struct Flight {
    device::StepPatch patch;
    std::vector<int32_t> ids, pos, seq, begin{0}, len, rows, table, slot, from;
    std::vector<device::PickRow> picks;
    std::vector<std::pair<size_t, int64_t>> owners;  // by pick: choice and its life
    std::deque<std::vector<int32_t>> histories;
    std::deque<ir::PickParams> params;
  };

  void replace(Choice* c) {
    const int64_t life = c->life + 1;
    *c = {};
    c->life = life;
    for (uint64_t n = 1 + rng_.below(25); n > 0; --n)
      c->wanted.prompt.push_back(static_cast<int32_t>(rng_.below(static_cast<uint64_t>(vocab_))));
    c->wanted.answer = static_cast<int32_t>(rng_.between(1, 60));
    c->wanted.params.temperature = rng_.chance(0.5) ? 0.0f : 1.3f;
    c->wanted.params.frequency_penalty = rng_.chance(0.5) ? 0.0f : 0.4f;
    c->wanted.params.seed = rng_.next();
    c->wanted.params.logprobs = rng_.chance(0.5) ? -1 : 2;
  }

  // Adds the choice's next rows; false when it has none this time.
  bool add(size_t place, Flight* f) {
    Choice& c = choices_[place];
    const int32_t prompt = static_cast<int32_t>(c.wanted.prompt.size());
    if (c.planned == c.wanted.answer) return false;
    const bool decode = c.length >= prompt;
    const bool known = c.planned == static_cast<int32_t>(c.confirmed.size());
    if (decode && !known && c.pick_step != step_ - 1) return false;  // only the step just before can give its token
    if (!options_.steady && rng_.chance(0.2)) return false;
    int32_t n = 1;
    if (!decode) {
      n = options_.chunk > 0 ? options_.chunk : static_cast<int32_t>(rng_.between(1, prompt));
      n = std::min(n, prompt - c.length);
    }
    if (f->ids.size() + static_cast<size_t>(n) > static_cast<size_t>(bounds_.tokens)) return false;
    const int32_t seq = static_cast<int32_t>(f->len.size()), at = static_cast<int32_t>(place);
    for (int32_t p = 0; p < bounds_.pages; ++p) f->table.push_back(at + p * bounds_.seqs);
    for (int32_t i = 0; i < n; ++i, ++c.length) {
      const bool taken = decode && c.pick_step == step_ - 1 && (!known || rng_.chance(0.5));
      f->from.push_back(taken ? c.pick : -1);
      f->ids.push_back(taken ? -7 : decode ? c.confirmed.back() : c.wanted.prompt[static_cast<size_t>(c.length)]);
      f->pos.push_back(c.length);
      f->seq.push_back(seq);
      f->slot.push_back((at + c.length / 16 * bounds_.seqs) * 16 + c.length % 16);
    }
    f->begin.push_back(static_cast<int32_t>(f->ids.size()));
    f->len.push_back(c.length);
    if (c.length >= prompt) add_pick(place, f);
    return true;
  }

  void add_pick(size_t place, Flight* f) {
    Choice& c = choices_[place];
    device::PickRow pick;
    pick.row = static_cast<int32_t>(f->rows.size());
    pick.slot = static_cast<int32_t>(place);
    pick.position = c.length;
    pick.prompt = static_cast<int32_t>(c.wanted.prompt.size());
    if (c.planned == 0 || rng_.chance(0.1)) {
      std::vector<int32_t>& h = f->histories.emplace_back(c.wanted.prompt);
      h.insert(h.end(), c.confirmed.begin(), c.confirmed.end());
      pick.history = h;
    }
    pick.params = &f->params.emplace_back(c.wanted.params);
    f->rows.push_back(static_cast<int32_t>(f->ids.size()) - 1);
    f->owners.emplace_back(place, c.life);
    c.pick = static_cast<int32_t>(f->picks.size());
    c.pick_step = step_;
    f->picks.push_back(pick);
    ++c.planned;
  }

  void launch() {
    auto f = std::make_unique<Flight>();
    ++step_;
    std::vector<size_t> order(choices_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    for (const size_t place : order) {
      Choice& c = choices_[place];
      if (c.subject < 0 && c.planned == c.wanted.answer) replace(&c);
      (void)add(place, f.get());
    }
    if (f->ids.empty()) {
      --step_;
      if (!flights_.empty()) collect();
      return;
    }
    device::StepPatch& p = f->patch;
    p.id = step_;
    p.tokens = static_cast<int32_t>(f->ids.size());
    p.seqs = static_cast<int32_t>(f->len.size());
    p.ids = f->ids;
    p.pos = f->pos;
    p.seq = f->seq;
    p.seq_begin = f->begin;
    p.kv_len = f->len;
    p.rows = f->rows;
    p.ids_from = f->from;
    p.picks = f->picks;
    for (size_t g = 0; g < groups_; ++g) p.groups.push_back({f->table, f->slot, {}, {}});
    Status s = program_->launch("forward", p, *stream_);
    BORA_CHECK(s.ok(), s.message().c_str());
    if (!f->picks.empty()) s = program_->launch("pick", p, *stream_);
    BORA_CHECK(s.ok(), s.message().c_str());
    flights_.push_back(std::move(f));
  }

  void collect() {
    const Flight& f = *flights_.front();
    const Status s = program_->collect(f.patch.id, &result_);
    BORA_CHECK(s.ok(), s.message().c_str());
    BORA_CHECK(result_.rows.size() == f.picks.size(), "a result for each pick");
    for (size_t i = 0; i < f.owners.size(); ++i) {
      Choice& c = choices_[f.owners[i].first];
      if (c.life != f.owners[i].second) continue;
      c.confirmed.push_back(result_.rows[i].id);
      if (c.subject < 0) continue;
      seen_[static_cast<size_t>(c.subject)].add(result_.rows[i], result_.top);
      if (static_cast<int32_t>(c.confirmed.size()) == c.wanted.answer) --left_;
    }
    flights_.pop_front();
  }

  Options options_;
  Rng rng_;
  int32_t vocab_;
  device::Bounds bounds_;
  size_t groups_ = 0;
  std::unique_ptr<device::Program> program_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<Choice> choices_;
  std::deque<std::unique_ptr<Flight>> flights_;
  std::vector<Seen> seen_;
  int32_t left_ = 0;
  device::StepId step_ = 0;
  device::StepResult result_;
};

std::vector<Wanted> subjects_of(int32_t vocab) {
  Rng rng(11);
  std::vector<Wanted> out(4);
  for (Wanted& w : out) {
    for (uint64_t n = 5 + rng.below(40); n > 0; --n)
      w.prompt.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab))));
    w.params.logprobs = 3;
    w.params.seed = rng.next();
  }
  out[1].params.frequency_penalty = 0.3f;
  out[2].params.temperature = out[3].params.temperature = 1;
  out[2].params.top_p = 0.9f;
  out[2].params.presence_penalty = 0.5f;
  out[2].params.repetition_penalty = 1.1f;
  out[3].params.min_p = 0.02f;
  out[3].params.dry_multiplier = 0.8f;
  out[3].params.choice = 1;
  return out;
}

class CpuPicks : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(fixture(GetParam()))) GTEST_SKIP() << "fixture " << GetParam() << " is absent";
    loaded_ = load(fixture(GetParam()));
    subjects_ = subjects_of(loaded_->model.info.vocab);
    device_ = *open_device("cpu", {2, ""});
    const auto one = *open_device("cpu", {1, ""});
    for (const Wanted& w : subjects_) want_.push_back(alone(*one, w, {.chunk = 64, .steady = true}));
  }
  Seen alone(device::Device& device, const Wanted& w, const Serving::Options& o) {
    return Serving(device, *loaded_, o, 1).run({w})[0];
  }
  std::unique_ptr<Loaded> loaded_;
  std::vector<Wanted> subjects_;
  std::unique_ptr<device::Device> device_;
  std::vector<Seen> want_;
};

TEST_P(CpuPicks, AloneAtEveryLevelWithOneAndTwoStepsInFlight) {
  for (const Seen& s : want_) ASSERT_EQ(s.numbers.size(), static_cast<size_t>(kAnswer) * 6);
  // Sampling is at work: two requests of one prompt part ways with their seeds.
  Wanted other = subjects_[2];
  ++other.params.seed;
  EXPECT_FALSE(alone(*device_, other, {.chunk = 64, .steady = true}).same(want_[2]));
  ASSERT_TRUE(alone(*device_, subjects_[2], {.in_flight = 2, .chunk = 7}).same(want_[2])) << "two threads";
  for (const cpu::IsaLevel* level : cpu::isa_levels()) {
    if (!level->present()) {
      std::printf("level %s is not on this machine: not tested\n", std::string(level->name).c_str());
      continue;
    }
    for (const int32_t in_flight : {1, 2}) {
      const Serving::Options o{.in_flight = in_flight, .chunk = 7, .steady = in_flight == 2};
      auto one = open_device("cpu", {1, std::string(level->name)});
      ASSERT_TRUE(one.ok());
      for (size_t i = 0; i < subjects_.size(); ++i)
        ASSERT_TRUE(alone(**one, subjects_[i], o).same(want_[i]))
            << level->name << ", one thread, in flight " << in_flight << " request " << i;
      // Two threads meet often, which a busy machine makes slow: all requests together.
      auto two = open_device("cpu", {2, std::string(level->name)});
      ASSERT_TRUE(two.ok());
      Serving::Options together = o;
      together.places = static_cast<int32_t>(subjects_.size());
      const std::vector<Seen> got = Serving(**two, *loaded_, together, 3).run(subjects_);
      for (size_t i = 0; i < subjects_.size(); ++i)
        ASSERT_TRUE(got[i].same(want_[i]))
            << level->name << ", two threads, in flight " << in_flight << " request " << i;
    }
  }
}

TEST_P(CpuPicks, AmongOthersThatComeAndGo) {
  const char* given = std::getenv("BORA_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("BORA_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto one = *open_device("cpu", {1, ""});
  for (const int32_t places : {2, 3, 7, 16, 64}) {
    for (const int32_t in_flight : {1, 2}) {
      Serving serving(in_flight == 1 ? *one : *device_, *loaded_, {.places = places, .in_flight = in_flight}, seed);
      for (size_t first = 0; first < subjects_.size(); first += static_cast<size_t>(places)) {
        const size_t n = std::min(subjects_.size() - first, static_cast<size_t>(places));
        const std::vector<Wanted> some(subjects_.begin() + static_cast<ptrdiff_t>(first),
                                       subjects_.begin() + static_cast<ptrdiff_t>(first + n));
        const std::vector<Seen> got = serving.run(some);
        for (size_t i = 0; i < n; ++i)
          ASSERT_TRUE(got[i].same(want_[first + i]))
              << places << " places, " << in_flight << " in flight, request " << first + i;
      }
    }
  }
}

// One sequence of one row a step, for what launch refuses.
struct Small {
  explicit Small(device::Device& device, Loaded& loaded, int32_t in_flight) {
    device::Bounds b = bounds_for(loaded.model.graph, 64, 8, 1);
    b.in_flight = in_flight;
    b.histories = 2;
    program = *device.compile(loaded.model.graph, b, {loaded.weights.get(), loaded.model.bindings});
    stream = *device.stream();
    pick.params = &greedy;
    table.resize(static_cast<size_t>(b.pages));
    for (int32_t i = 0; i < b.pages; ++i) table[static_cast<size_t>(i)] = i;
    patch.tokens = patch.seqs = 1;
    patch.ids = {&id, 1};
    patch.pos = patch.seq = patch.rows = {&zero, 1};
    patch.seq_begin = begin;
    patch.kv_len = {&one, 1};
    for (size_t g = 0; g < loaded.model.graph.groups.size(); ++g) patch.groups.push_back({table, {&zero, 1}, {}, {}});
    patch.picks = {&pick, 1};
  }
  Code launch(std::string_view entry, device::StepId step) {
    patch.id = step;
    return program->launch(entry, patch, *stream).code();
  }
  std::unique_ptr<device::Program> program;
  std::unique_ptr<device::Stream> stream;
  device::StepPatch patch;
  device::StepResult result;
  device::PickRow pick;
  ir::PickParams greedy;
  std::vector<int32_t> table;
  int32_t id = 1, zero = 0, one = 1, begin[2] = {0, 1}, from = 0;
};

TEST_P(CpuPicks, LaunchRefusesWhatIsOutOfOrder) {
  Small s(*device_, *loaded_, 2);
  EXPECT_EQ(s.launch("nothing", 1), Code::kNotFound);
  EXPECT_EQ(s.launch("pick", 1), Code::kFailedPrecondition);  // before its forward
  EXPECT_EQ(s.program->collect(1, &s.result).code(), Code::kFailedPrecondition);
  s.patch.ids_from = {&s.from, 1};
  EXPECT_EQ(s.launch("forward", 1), Code::kOutOfRange);  // no step before
  s.patch.ids_from = {};
  ASSERT_EQ(s.launch("forward", 1), Code::kOk);
  s.patch.ids_from = {&s.from, 1};
  EXPECT_EQ(s.launch("forward", 2), Code::kOutOfRange);  // its step picks nothing yet
  ASSERT_EQ(s.launch("pick", 1), Code::kOk);
  EXPECT_EQ(s.launch("pick", 1), Code::kFailedPrecondition);  // twice
  s.from = 1;
  EXPECT_EQ(s.launch("forward", 2), Code::kOutOfRange);
  s.from = 0;
  ASSERT_EQ(s.launch("forward", 2), Code::kOk);
  EXPECT_EQ(s.launch("forward", 3), Code::kFailedPrecondition);  // two are in flight
  EXPECT_EQ(s.program->collect(2, &s.result).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(s.program->collect(1, &s.result).ok());
  ASSERT_EQ(s.result.rows.size(), 1u);
  EXPECT_GE(s.result.rows[0].id, 0);
  ASSERT_TRUE(s.program->collect(2, &s.result).ok());
  EXPECT_TRUE(s.result.rows.empty());
}

TEST_P(CpuPicks, AnIdleProgramTakesNoTime) {
  Small s(*device_, *loaded_, 1);
  ASSERT_EQ(s.launch("forward", 1), Code::kOk);
  ASSERT_TRUE(s.program->collect(1, &s.result).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();  // of the whole process
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.02);
}

TEST_P(CpuPicks, ThePlanCountsHistories) {
  device::Bounds b = bounds_for(loaded_->model.graph, 64, 8, 1);
  const uint64_t without = device_->plan(loaded_->model.graph, loaded_->model.bindings, b)->workspace;
  b.histories = 1;
  const uint64_t one = device_->plan(loaded_->model.graph, loaded_->model.bindings, b)->workspace;
  b.histories = 1025;
  const uint64_t many = device_->plan(loaded_->model.graph, loaded_->model.bindings, b)->workspace;
  EXPECT_GT(one, without);
  // A slot: a token and mirostat's 8 bytes a position, and their ends.
  EXPECT_EQ((many - one + 4095) / 4096, (1024 * (65 * 4 + 66 * 8) + 4095) / 4096);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CpuPicks,
                         testing::Values("llama-gqa-llama3-tied", "gemma3-text", "gguf-llama-q4_0",
                                         "gguf-wide-q4_k_m"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace bora::app
