#include "device/fake.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>

#include "base/rng.h"

namespace bora::device {
namespace {

constexpr uint64_t kRoot = 0x51ED2701u;

uint64_t advance(uint64_t prefix, int32_t id) {
  return mix64(prefix ^ (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull + 1));
}

bool forbidden(const ir::PickParams& p, int32_t id, int32_t made) {
  const auto in = [id](std::span<const int32_t> list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  return in(p.banned) || (!p.allowed.empty() && !in(p.allowed)) || (made < p.min_tokens && in(p.end_ids));
}

int32_t token_after(const FakeOptions& o, uint64_t prefix, const ir::PickParams& params, int32_t position,
                    int32_t prompt) {
  const uint64_t noise = params.temperature == 0 ? 0
                                                 : noise_u64(params.seed, static_cast<uint32_t>(params.choice),
                                                             static_cast<uint32_t>(position), 0);
  int32_t id = o.next ? o.next(prefix, params, position, prompt)
                      : static_cast<int32_t>(mix64(prefix + o.model * 77 + noise) % static_cast<uint64_t>(o.vocab));
  for (int32_t tries = 0; tries < o.vocab && forbidden(params, id, position - prompt); ++tries)
    id = (id + 1) % o.vocab;
  return id;
}

struct Cell {
  uint64_t before = 0, after = 0;
};

class FakeStream : public Stream {
 public:
  Status synchronize() override { return {}; }
};

class FakeRegion : public Region {
 public:
  explicit FakeRegion(uint64_t bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_; }
  Status commit() override { return {}; }
  void decommit() override {}

 private:
  uint64_t bytes_;
};

class FakeProgram : public Program {
 public:
  FakeProgram(const FakeOptions& options, FakeControl* control, const ir::Graph& graph, const Bounds& bounds)
      : options_(options), control_(*control), groups_(graph.groups), bounds_(bounds) {
    for (size_t g = 0; g < groups_.size(); ++g)
      cells_.emplace_back(static_cast<size_t>(bounds.blocks[g]) * static_cast<size_t>(width(g)));
    const int32_t block = groups_.empty() ? 16 : groups_[0].block;
    histories_.resize(static_cast<size_t>(bounds.histories));
    positions_ = bounds.pages * block;
  }

  Status launch(std::string_view entry, const StepPatch& patch, Stream&) override {
    const int64_t at = control_.refuse_at;
    if (at >= 0 && launched_ >= at) return unavailable("the fake device refuses a step on demand");
    if (entry == "pick") {
      if (open_.empty() || open_.back().forward.id != patch.id) return failed_precondition("pick before its forward");
      open_.back().picks = patch;
      return {};
    }
    if (entry != "forward") return not_found("the fake device has no such entry");
    if (static_cast<int32_t>(open_.size()) >= bounds_.in_flight)
      return failed_precondition("more steps in flight than the bounds say");
    if (patch.tokens < 1 || patch.tokens > bounds_.tokens || patch.seqs < 1 || patch.seqs > bounds_.seqs ||
        patch.rows.size() > static_cast<size_t>(bounds_.rows))
      return invalid_argument("the step is larger than the program's bounds");
    ++launched_;
    open_.push_back({patch, {}});
    control_.most_in_flight = std::max<int32_t>(control_.most_in_flight, static_cast<int32_t>(open_.size()));
    return {};
  }

  Status collect(StepId id, StepResult* out) override {
    if (open_.empty() || open_.front().forward.id != id)
      return failed_precondition("steps are collected in the order of their launch");
    const Step step = open_.front();
    open_.pop_front();
    const int64_t delay = control_.delay_us + control_.row_delay_us * step.forward.tokens;
    if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    if (control_.fail_at >= 0 && control_.steps >= control_.fail_at)
      return unavailable("the fake device fails on demand");
    out->id = id;
    out->rows.clear();
    out->top.clear();
    BORA_TRY_CONTEXT(forward(step.forward), "fake device, step " + std::to_string(id));
    BORA_TRY_CONTEXT(pick(step.picks, out), "fake device, step " + std::to_string(id));
    control_.rows += step.forward.tokens;
    ++control_.steps;
    return {};
  }

  std::span<const float> logits() const override { return {}; }
  std::span<const float> tap(std::string_view) const override { return {}; }
  std::vector<Extent> extents(int32_t, BlockId block) const override {
    return {{static_cast<uint64_t>(block) * options_.block_bytes, options_.block_bytes}};
  }
  std::string state_format() const override { return "fake"; }

 private:
  struct Step {
    StepPatch forward, picks;
  };

  bool last_only(size_t g) const { return groups_[g].keep == ir::Keep::kLast; }
  int32_t width(size_t g) const { return last_only(g) ? 1 : groups_[g].block; }

  Result<Cell*> cell(const StepPatch& p, size_t g, int32_t seq, int32_t position) {
    const int32_t page = position / width(g);
    if (page >= bounds_.pages) return out_of_range("position " + std::to_string(position) + " is beyond the table");
    const BlockId block = p.groups[g].table[static_cast<size_t>(seq * bounds_.pages + page)];
    if (block < 0 || block >= bounds_.blocks[g])
      return out_of_range("reads position " + std::to_string(position) + ", which has no block");
    return &cells_[g][static_cast<size_t>(block * width(g) + position % width(g))];
  }

  // The hash of what a row at `position` sees; every position that it may see hangs together.
  Result<uint64_t> read(const StepPatch& p, size_t g, int32_t seq, int32_t position) {
    if (position == 0) return kRoot;
    const int32_t from = groups_[g].keep == ir::Keep::kWindow ? std::max(0, position - groups_[g].window + 1) : 0;
    uint64_t after = from == 0 ? kRoot : 0;
    for (int32_t q = from; q < position; ++q) {
      BORA_ASSIGN(const Cell* c, cell(p, g, seq, q));
      if ((q > from || from == 0) && c->before != after)
        return internal_error("group " + std::to_string(g) + " holds at position " + std::to_string(q) +
                              " what somebody else wrote");
      after = c->after;
    }
    return after;
  }

  Status run_row(const StepPatch& p, size_t r, bool first) {
    const int32_t position = p.pos[r], seq = p.seq[r];
    int32_t id = p.ids[r];
    if (!p.ids_from.empty() && p.ids_from[r] >= 0) {
      if (static_cast<size_t>(p.ids_from[r]) >= last_picks_.size())
        return out_of_range("a row continues from a pick that the step before does not have");
      id = std::max(0, last_picks_[static_cast<size_t>(p.ids_from[r])]);
    }
    if (id < 0 || id >= options_.vocab) return out_of_range("token id " + std::to_string(id) + " of a row");
    uint64_t prefix = kRoot;
    bool known = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      uint64_t own = 0;
      if (!last_only(g)) {
        BORA_ASSIGN(own, read(p, g, seq, position));
      } else if (first) {
        const int32_t load = p.groups[g].load[static_cast<size_t>(seq)];
        own = load < 0 ? kRoot : cells_[g][static_cast<size_t>(load)].after;
      } else {
        own = hashes_[r - 1];
      }
      // A window knows where it is, not how it began.
      if (known && own != prefix)
        return internal_error("state groups disagree at position " + std::to_string(position));
      prefix = own;
      known = true;
    }
    const Cell now{prefix, advance(prefix, id)};
    hashes_[r] = now.after;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (last_only(g)) {
        const int32_t store = p.groups[g].store[r];
        if (store >= 0) cells_[g][static_cast<size_t>(store)] = now;
        continue;
      }
      const int32_t slot = p.groups[g].slot[r];
      BORA_ASSIGN(Cell * c, cell(p, g, seq, position));
      if (slot < 0 || &cells_[g][static_cast<size_t>(slot)] != c)
        return internal_error("a row is written where its table does not lead");
      *c = now;
    }
    return {};
  }

  Status forward(const StepPatch& p) {
    for (const BlockCopy& c : p.copies) {
      const int32_t n = width(static_cast<size_t>(c.group));
      auto& cells = cells_[static_cast<size_t>(c.group)];
      for (int32_t i = 0; i < n; ++i)
        cells[static_cast<size_t>(c.to * n + i)] = cells[static_cast<size_t>(c.from * n + i)];
    }
    hashes_.assign(static_cast<size_t>(p.tokens), 0);
    for (int32_t s = 0; s < p.seqs; ++s) {
      const int32_t begin = p.seq_begin[static_cast<size_t>(s)], end = p.seq_begin[static_cast<size_t>(s) + 1];
      for (int32_t r = begin; r < end; ++r) {
        if (p.seq[static_cast<size_t>(r)] != s) return internal_error("rows are not ordered by sequence");
        BORA_TRY(run_row(p, static_cast<size_t>(r), r == begin));
      }
      if (end > begin && p.kv_len[static_cast<size_t>(s)] != p.pos[static_cast<size_t>(end) - 1] + 1)
        return internal_error("a sequence's length is not its last position");
    }
    wanted_.assign(p.rows.begin(), p.rows.end());
    last_picks_.clear();
    return {};
  }

  // The history that a pick reads must be the very ids that its row computed.
  Status check_history(const PickRow& pick, uint64_t prefix) {
    std::vector<int32_t>& tokens = histories_[static_cast<size_t>(pick.slot)];
    if (static_cast<int32_t>(tokens.size()) < pick.history_begin) return internal_error("a history begins in a gap");
    if (!pick.history.empty()) {
      tokens.resize(static_cast<size_t>(pick.history_begin));
      tokens.insert(tokens.end(), pick.history.begin(), pick.history.end());
    }
    if (static_cast<int32_t>(tokens.size()) < pick.position) return internal_error("a history lacks tokens");
    tokens.resize(static_cast<size_t>(pick.position));
    uint64_t own = kRoot;
    for (int32_t id : tokens) own = advance(own, id);
    return own == prefix ? ok_status() : internal_error("a history slot holds other tokens than its row computed");
  }

  Status pick(const StepPatch& p, StepResult* out) {
    for (const PickRow& row : p.picks) {
      const uint64_t prefix = hashes_[static_cast<size_t>(wanted_[static_cast<size_t>(row.row)])];
      PickedRow r;
      r.id = row.target;
      if (row.target < 0) {
        if (row.slot < 0 || row.slot >= bounds_.histories) return out_of_range("a history slot is out of range");
        if (row.position >= positions_) return out_of_range("a pick's position is out of range");
        BORA_TRY(check_history(row, prefix));
        r.id = token_after(options_, prefix, *row.params, row.position, row.prompt);
        if (control_.nan_at >= 0 && control_.steps >= control_.nan_at) r.id = -1;
        histories_[static_cast<size_t>(row.slot)].push_back(std::max(0, r.id));  // as a row that continues reads it
      }
      r.first = static_cast<int32_t>(out->top.size());
      if (row.params->logprobs >= 0) {
        r.logprob = -static_cast<float>(mix64(prefix + static_cast<uint64_t>(r.id)) % 1000) / 100;
        for (int32_t i = 0; i < row.params->logprobs; ++i)
          out->top.push_back({(r.id + i) % options_.vocab, r.logprob - static_cast<float>(i)});
        r.count = row.params->logprobs;
      }
      out->rows.push_back(r);
      last_picks_.push_back(r.id);
    }
    return {};
  }

  FakeOptions options_;
  FakeControl& control_;
  std::vector<ir::StateGroup> groups_;
  Bounds bounds_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<std::vector<int32_t>> histories_;
  std::deque<Step> open_;
  std::vector<uint64_t> hashes_;
  std::vector<int32_t> wanted_, last_picks_;
  int32_t positions_ = 0;
  int64_t launched_ = 0;
};

class FakeDevice : public Device {
 public:
  FakeDevice(const FakeOptions& options, FakeControl* control) : options_(options), control_(control) {}
  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "a device without arithmetic"; }
  Result<std::unique_ptr<Region>> reserve(uint64_t bytes) override {
    return std::unique_ptr<Region>(std::make_unique<FakeRegion>(bytes));
  }
  Result<std::unique_ptr<Stream>> stream() override {
    return std::unique_ptr<Stream>(std::make_unique<FakeStream>());
  }
  bool claims(const ir::Node&, const ir::Graph&, const Bounds&) const override { return true; }
  LayoutId layout(const ir::WeightDecl&, const ir::WeightBinding&, const Bounds&) const override { return "rows"; }
  Result<MemoryPlan> plan(const ir::Graph&, std::span<const ir::WeightBinding>, const Bounds& bounds) const override {
    MemoryPlan p = options_.plan;
    for (int32_t n : bounds.blocks) p.states += static_cast<uint64_t>(n) * options_.block_bytes;
    return p;
  }
  Result<std::unique_ptr<Program>> compile(const ir::Graph& graph, const Bounds& bounds, const Bindings&) override {
    if (bounds.blocks.size() != graph.groups.size())
      return invalid_argument("bounds name blocks for another number of state groups");
    return std::unique_ptr<Program>(std::make_unique<FakeProgram>(options_, control_, graph, bounds));
  }

 private:
  FakeOptions options_;
  FakeControl* control_;
};

}  // namespace

std::unique_ptr<Device> make_fake_device(const FakeOptions& options, FakeControl* control) {
  return std::make_unique<FakeDevice>(options, control);
}

int32_t fake_next(const FakeOptions& options, std::span<const int32_t> ids, const ir::PickParams& params,
                  int32_t prompt) {
  uint64_t prefix = kRoot;
  for (int32_t id : ids) prefix = advance(prefix, id);
  return token_after(options, prefix, params, static_cast<int32_t>(ids.size()), prompt);
}

}  // namespace bora::device
