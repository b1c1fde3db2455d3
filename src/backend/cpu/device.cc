// The CPU as a device: regions of memory, plans, programs that run a step on a team of workers.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "backend/cpu/cpu.h"
#include "backend/cpu/exec.h"
#include "backend/cpu/executor.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/pick.h"
#include "base/check.h"
#include "ir/ops.h"
#include "ir/passes.h"

namespace bora::cpu {
namespace {

class CpuRegion : public device::Region {
 public:
  CpuRegion(void* data, uint64_t size) : data_(data), size_(size) {}
  ~CpuRegion() override {
    if (size_ > 0) ::munmap(data_, size_);
  }
  uint64_t size() const override { return size_; }
  // Pages appear when touched; huge ones where the system gives them, which saves a fifth of the read time.
  Status commit() override {
    if (size_ > 0) (void)::madvise(data_, size_, MADV_HUGEPAGE);
    return {};
  }
  void decommit() override {
    if (size_ > 0) (void)::madvise(data_, size_, MADV_DONTNEED);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  uint64_t size_;
};

Result<std::unique_ptr<CpuRegion>> reserve_region(uint64_t bytes) {
  if (bytes == 0) return std::make_unique<CpuRegion>(nullptr, 0);
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return resource_exhausted("no address range of " + std::to_string(bytes) + " bytes");
  return std::make_unique<CpuRegion>(p, bytes);
}

class CpuStream : public device::Stream {
 public:
  Status synchronize() override { return {}; }  // a program's steps are in order by themselves; collect waits
};

int32_t logits_width(const ir::Graph& graph) {
  for (const ir::Entry& e : graph.entries) {
    for (const auto& [name, v] : e.outputs) {
      if (name == "logits") return static_cast<int32_t>(graph.info(v).shape[1].n);
    }
  }
  return 0;
}

PickPlan picks_of(const ir::Graph& graph, const device::Bounds& bounds, int32_t threads) {
  return plan_picks(logits_width(graph), bounds.pages * kKvBlock, bounds, threads);
}

// The driver checks and queues; the executor thread, worker 0 of the team, runs. They meet in rings of fixed size: a
// job's numbers are written before it is posted and not touched until its step was collected.
class CpuProgram : public device::Program {
 public:
  CpuProgram(ir::Graph graph, Plan plan, const device::Bounds& bounds, const Kernels* kernels, int32_t threads)
      : graph_(std::move(graph)),
        plan_(std::move(plan)),
        pick_plan_(picks_of(graph_, bounds, threads)),
        bounds_(bounds),
        team_(threads) {
    context_.kernels = kernels;
    context_.team = &team_;
  }

  Status init(const device::Bindings& bindings) {
    BORA_ASSIGN(weights_, reserve_region(static_cast<uint64_t>(plan_.weight_bytes)));
    BORA_ASSIGN(states_, reserve_region(static_cast<uint64_t>(plan_.state_bytes)));
    BORA_ASSIGN(workspace_, reserve_region(static_cast<uint64_t>(plan_.workspace_bytes)));
    BORA_ASSIGN(pick_region_, reserve_region(static_cast<uint64_t>(pick_plan_.bytes)));
    for (CpuRegion* r : {weights_.get(), states_.get(), workspace_.get(), pick_region_.get()}) BORA_TRY(r->commit());
    for (size_t i = 0; i < graph_.weights.size(); ++i) BORA_TRY(load(graph_.weights[i], plan_.weights[i], bindings));
    const Layout layout{
        &graph_,        &plan_, bindings.weights, weights_->data(), reinterpret_cast<float*>(workspace_->data()),
        states_->data()};
    for (const ir::Node& n : graph_.nodes) {
      BORA_ASSIGN(std::unique_ptr<Exec> e, make_exec(n, layout));
      steps_.push_back(std::move(e));
    }
    reserve_scratch();
    reserve_rings();
    return {};
  }

  Status launch(std::string_view entry, const device::StepPatch& p, device::Stream&) override {
    if (entry == "pick") return launch_pick(p);
    const ir::Entry* e = graph_.entry(entry);
    if (e == nullptr) return not_found("the program has no entry '" + std::string(entry) + "'");
    if (launched_ - collected_ == static_cast<int64_t>(flights_.size()))
      return failed_precondition("as many steps are in flight as the program has room for; collect one first");
    BORA_TRY(check(p));
    Flight& f = flights_[static_cast<size_t>(launched_) % flights_.size()];
    f = {.id = p.id, .result = static_cast<int32_t>(launched_ % results()), .picks = {}, .last_job = 0};
    ++launched_;
    post(e, p, f.result);
    f.last_job = executor_->posted();
    return {};
  }

  Status collect(device::StepId id, device::StepResult* out) override {
    if (collected_ == launched_ || flights_[static_cast<size_t>(collected_) % flights_.size()].id != id)
      return failed_precondition("step " + std::to_string(id) + " is not the one to be collected next");
    const Flight& f = flights_[static_cast<size_t>(collected_) % flights_.size()];
    executor_->wait_for(f.last_job);
    ++collected_;
    out->id = id;
    out->rows.clear();
    out->top.clear();
    for (size_t i = 0; i < f.picks.size(); ++i) {
      device::PickedRow row = picker_.results(f.result)[i];
      const device::TokenLogprob* top = picker_.top(f.result, static_cast<int64_t>(i));
      row.first = static_cast<int32_t>(out->top.size());
      out->top.insert(out->top.end(), top, top + row.count);
      out->rows.push_back(row);
    }
    return {};
  }

  std::span<const float> logits() const override { return tap("logits"); }
  std::span<const float> tap(std::string_view name) const override {
    if (collected_ == 0) return {};
    for (const auto& [n, v] : entry_->outputs) {
      if (n != name) continue;
      const ValuePlan& p = plan_.values[static_cast<size_t>(v.id)];
      const int64_t rows = graph_.info(v).shape[0].sym == ir::Sym::kRows ? context_.rows : context_.tokens;
      return {reinterpret_cast<const float*>(workspace_->data()) + p.offset, static_cast<size_t>(rows * p.n)};
    }
    return {};
  }

  std::vector<device::Extent> extents(int32_t group, device::BlockId block) const override {
    const GroupPlan& g = plan_.groups[static_cast<size_t>(group)];
    return {{static_cast<uint64_t>(g.offset + g.block_bytes * block), static_cast<uint64_t>(g.block_bytes)}};
  }
  std::string state_format() const override {
    std::string out = "cpu-16";
    for (const ir::StateSpec& s : graph_.states) {
      out += ";" + s.name + ":" + std::string(dtype_name(s.dtype));
      for (int32_t n : s.per_unit) out += "x" + std::to_string(n);
    }
    return out;
  }

 private:
  struct Job {
    const ir::Entry* entry = nullptr;  // null: the picks
    device::StepPatch patch;
    int32_t result = 0;  // where the step's picks go
  };
  struct Flight {
    device::StepId id = -1;
    int32_t result = 0;
    std::span<const device::PickRow> picks;  // once launched
    uint32_t last_job = 0;
  };

  // One more than may be in flight: a step reads the tokens of the one before it, collected or not.
  int32_t results() const { return static_cast<int32_t>(flights_.size()) + 1; }

  void reserve_rings() {
    flights_.resize(static_cast<size_t>(std::max(1, bounds_.in_flight)));
    jobs_.resize(2 * flights_.size());
    for (Job& j : jobs_) j.patch.groups.reserve(graph_.groups.size());
    ids_.resize(static_cast<size_t>(bounds_.tokens));
    if (pick_plan_.bytes > 0) picker_ = Picker(pick_plan_, pick_region_->data());
    forward_body_ = [this](int32_t worker) {
      for (int32_t i = entry_->first; i < entry_->first + entry_->count; ++i) {
        steps_[static_cast<size_t>(i)]->run(context_, worker);
        team_.barrier();
      }
    };
    pick_body_ = [this](int32_t worker) {
      for (size_t i = static_cast<size_t>(worker); i < picking_->patch.picks.size();
           i += static_cast<size_t>(team_.size()))
        run_pick(*picking_, i, worker);
    };
    executor_ = std::make_unique<Executor>([this](uint32_t job) { run_job(jobs_[job % jobs_.size()]); });
  }

  Status launch_pick(const device::StepPatch& p) {
    Flight* f = launched_ == collected_ ? nullptr : &flights_[static_cast<size_t>(launched_ - 1) % flights_.size()];
    if (f == nullptr || f->id != p.id || !f->picks.empty())
      return failed_precondition("pick: step " + std::to_string(p.id) + " is not the one launched just before");
    BORA_TRY(picker_.check(p.picks, p.masks, forward_rows_));
    if (p.picks.empty()) return {};
    picker_.note_launched(p.picks);
    f->picks = p.picks;
    last_picks_ = p.picks.size();
    post(nullptr, p, f->result);
    f->last_job = executor_->posted();
    return {};
  }

  // Views are copied, what they view is not; the vector of groups has its room.
  void post(const ir::Entry* entry, const device::StepPatch& p, int32_t result) {
    Job& j = jobs_[executor_->posted() % jobs_.size()];
    j.entry = entry;
    j.patch = p;
    j.result = result;
    if (entry != nullptr) {
      forward_rows_ = p.rows.size();
      last_picks_ = 0;
    }
    executor_->post();
  }

  // The executor's side from here.
  void run_job(const Job& j) {
    if (j.entry != nullptr) {
      run_forward(j);
    } else if (picking_ = &j; j.patch.picks.size() == 1) {
      run_pick(j, 0, 0);
    } else {
      team_.run(pick_body_);
    }
  }

  void run_forward(const Job& j) {
    const device::StepPatch& p = j.patch;
    context_.tokens = p.tokens;
    context_.rows = static_cast<int64_t>(p.rows.size());
    context_.pages = bounds_.pages;
    context_.ids = p.ids.data();
    context_.pos = p.pos.data();
    context_.seq = p.seq.data();
    context_.wanted = p.rows.data();
    for (size_t g = 0; g < p.groups.size(); ++g) {
      context_.tables[g] = p.groups[g].table.data();
      context_.slots[g] = p.groups[g].slot.data();
    }
    if (!p.ids_from.empty()) {
      const device::PickedRow* before = picker_.results((j.result + results() - 1) % results());
      for (size_t i = 0; i < p.ids.size(); ++i)
        ids_[i] = p.ids_from[i] < 0 ? p.ids[i] : std::max(0, before[p.ids_from[i]].id);  // -1: the row is surplus
      context_.ids = ids_.data();
    }
    for (const device::BlockCopy& c : p.copies) copy_block(c);
    entry_ = j.entry;
    team_.run(forward_body_);
    compact_outputs();
  }

  void run_pick(const Job& j, size_t i, int32_t worker) {
    picker_.run_row(j.patch.picks[i], j.patch.masks, logits_data(), logits_width_, worker,
                    picker_.results(j.result) + i, picker_.top(j.result, static_cast<int64_t>(i)));
  }

  const float* logits_data() const {
    for (const auto& [n, v] : entry_->outputs) {
      if (n != "logits") continue;
      return reinterpret_cast<const float*>(workspace_->data()) + plan_.values[static_cast<size_t>(v.id)].offset;
    }
    return nullptr;
  }

  Status load(const ir::WeightDecl& decl, const WeightPlan& w, const device::Bindings& bindings) {
    if (w.use == WeightUse::kUnused || w.use == WeightUse::kTable || decl.same_as.valid()) return {};
    BORA_ASSIGN(const std::vector<quant::CodedMatrix> parts, bindings.weights->coded(decl, {}));
    if (w.use == WeightUse::kVector) {
      float* out = reinterpret_cast<float*>(weights_->data()) + w.offset;
      for (size_t p = 0; p < parts.size(); ++p) {
        for (int64_t r = 0; r < parts[p].rows; ++r) {
          const int64_t source = decl.parts[p].row_map.source(r);
          parts[p].scheme->decode(parts[p], source, source + 1, out + decl.parts[p].row + r);
        }
      }
      return {};
    }
    for (const MatrixPlan& m : w.matrices) pack(decl, m, parts);
    bindings.weights->dont_need(decl);
    return {};
  }

  // Parts that share a scheme become one matrix: each row knows its part and row there.
  void pack(const ir::WeightDecl& decl, const MatrixPlan& m, const std::vector<quant::CodedMatrix>& parts) {
    const int64_t tiles = (m.rows + kTileRows - 1) / kTileRows;
    std::vector<RowSource> rows;
    for (int32_t p = m.first_part; p < m.first_part + m.parts; ++p) {
      const ir::Part& part = decl.parts[static_cast<size_t>(p)];
      for (int64_t r = 0; r < part.rows; ++r)
        rows.push_back({&parts[static_cast<size_t>(p)], part.row_map.source(r)});
    }
    team_.run([&](int32_t worker) {
      const int64_t share = (tiles + team_.size() - 1) / team_.size();
      const int64_t first = std::min(tiles, worker * share), last = std::min(tiles, first + share);
      pack_rows(*m.recipe, rows, m.cols, first, last, weights_->data() + m.offset);
    });
  }

  void reserve_scratch() {
    int64_t widest = 0;
    for (const WeightPlan& w : plan_.weights) {
      for (const MatrixPlan& m : w.matrices) widest = std::max(widest, m.cols);
    }
    const int64_t rows = std::max(bounds_.tokens, bounds_.rows);
    for (int32_t i = 0; i <= team_.size(); ++i) {
      const int64_t n = (i == 0 ? rows : 2) * widest;
      codes_.emplace_back(static_cast<size_t>(n));
      scales_.emplace_back(static_cast<size_t>(n / kBlock + 1));
      sums_.emplace_back(static_cast<size_t>(n / 16 + 2));
      totals_.emplace_back(scales_.back().size() * 2);
      float* totals = totals_.back().data();
      context_.quant.push_back({codes_.back().data(), scales_.back().data(), sums_.back().data(), totals,
                                totals + scales_.back().size(), 0, 0});
    }
    for (int32_t w = 0; w < team_.size(); ++w)
      context_.scratch.emplace_back(static_cast<size_t>(kAttentionScratch) + 8192);
    context_.tables.resize(graph_.groups.size());
    context_.slots.resize(graph_.groups.size());
  }

  // A step is our own engine's work, but it holds numbers that come from requests: wrong ones are errors, not
  // accidents.
  Status check(const device::StepPatch& p) const {
    const size_t t = static_cast<size_t>(p.tokens);
    if (p.tokens < 1 || p.tokens > bounds_.tokens || p.seqs < 1 || p.seqs > bounds_.seqs ||
        p.rows.size() > static_cast<size_t>(bounds_.rows)) {
      return invalid_argument("the step is larger than the program's bounds");
    }
    if (p.ids.size() != t || p.pos.size() != t || p.seq.size() != t || p.groups.size() != graph_.groups.size()) {
      return invalid_argument("the step is incomplete");
    }
    if (!p.ids_from.empty() && p.ids_from.size() != t) return invalid_argument("ids_from is incomplete");
    for (int32_t c : p.cont) {
      if (c != 0) return unimplemented("rows that the device continues by itself, on the CPU backend");
    }
    const int32_t positions = bounds_.pages * kKvBlock;
    for (size_t r = 0; r < t; ++r) {
      if (p.seq[r] < 0 || p.seq[r] >= p.seqs || p.pos[r] < 0 || p.pos[r] >= positions) {
        return out_of_range("row " + std::to_string(r) + " has a sequence or position out of range");
      }
      const bool picked = !p.ids_from.empty() && p.ids_from[r] >= 0;
      if (picked && static_cast<size_t>(p.ids_from[r]) >= last_picks_)
        return out_of_range("row " + std::to_string(r) + " takes a token that the step before does not pick");
      if (!picked && (p.ids[r] < 0 || p.ids[r] >= vocab_))
        return out_of_range("token id " + std::to_string(p.ids[r]) + " is outside the vocabulary");
    }
    for (const device::BlockCopy& c : p.copies) {
      const bool known = c.group >= 0 && static_cast<size_t>(c.group) < p.groups.size();
      const int32_t blocks = known ? plan_.groups[static_cast<size_t>(c.group)].blocks : 0;
      if (c.from < 0 || c.to < 0 || c.from >= blocks || c.to >= blocks)
        return out_of_range("a copied block is out of range");
    }
    for (int32_t r : p.rows) {
      if (r < 0 || r >= p.tokens) return out_of_range("a wanted row is not in the step");
    }
    for (size_t g = 0; g < p.groups.size(); ++g) {
      const int32_t blocks = plan_.groups[g].blocks;
      if (p.groups[g].table.size() != static_cast<size_t>(p.seqs * bounds_.pages) || p.groups[g].slot.size() != t) {
        return invalid_argument("a group's table or slots are incomplete");
      }
      for (int32_t b : p.groups[g].table) {
        if (b >= blocks) return out_of_range("a block id is out of range");
      }
      for (int32_t s : p.groups[g].slot) {
        if (s >= blocks * kKvBlock) return out_of_range("a slot is out of range");
      }
    }
    return {};
  }

  // Outputs are given as dense rows; the next step writes them anew.
  void compact_outputs() {
    for (const auto& [name, v] : entry_->outputs) {
      const ValuePlan& p = plan_.values[static_cast<size_t>(v.id)];
      float* data = reinterpret_cast<float*>(workspace_->data()) + p.offset;
      const int64_t rows = graph_.info(v).shape[0].sym == ir::Sym::kRows ? context_.rows : context_.tokens;
      for (int64_t r = 1; r < rows && p.stride != p.n; ++r) {
        std::memmove(data + r * p.n, data + r * p.stride, static_cast<size_t>(p.n) * 4);
      }
    }
  }

  static int32_t vocab_of(const ir::Graph& graph) {
    for (const ir::Node& n : graph.nodes) {
      if (n.op->name == "embed") return static_cast<int32_t>(graph.weight(n.weights[0]).shape[0]);
    }
    return 0;
  }

  void copy_block(const device::BlockCopy& c) {
    const GroupPlan& g = plan_.groups[static_cast<size_t>(c.group)];
    std::byte* base = states_->data() + g.offset;
    std::memcpy(base + c.to * g.block_bytes, base + c.from * g.block_bytes, static_cast<size_t>(g.block_bytes));
  }

  ir::Graph graph_;
  Plan plan_;
  PickPlan pick_plan_;
  device::Bounds bounds_;
  int32_t vocab_ = vocab_of(graph_), logits_width_ = logits_width(graph_);
  Team team_;
  Context context_;
  std::unique_ptr<CpuRegion> weights_, states_, workspace_, pick_region_;
  std::vector<std::unique_ptr<Exec>> steps_;
  std::vector<std::vector<int8_t>> codes_;
  std::vector<std::vector<float>> scales_, totals_;  // totals: and shifts behind them
  std::vector<std::vector<int32_t>> sums_;
  // The driver's.
  std::vector<Flight> flights_;
  int64_t launched_ = 0, collected_ = 0;
  size_t forward_rows_ = 0, last_picks_ = 0;  // of the step launched last
  // Posted by the driver, then the executor's until the step is collected.
  std::vector<Job> jobs_;
  // The executor's.
  Picker picker_;
  std::vector<int32_t> ids_;
  const ir::Entry* entry_ = nullptr;
  const Job* picking_ = nullptr;
  std::function<void(int32_t)> forward_body_, pick_body_;
  std::unique_ptr<Executor> executor_;  // last: it ends before what its jobs use
};

class CpuDevice : public device::Device {
 public:
  CpuDevice(const IsaLevel* isa, int32_t threads) : isa_(isa), threads_(threads) {}
  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return "CPU, " + std::to_string(threads_) + " threads, kernels " + std::string(isa_->name);
  }
  Result<std::unique_ptr<device::Region>> reserve(uint64_t bytes) override {
    BORA_ASSIGN(std::unique_ptr<CpuRegion> r, reserve_region(bytes));
    return std::unique_ptr<device::Region>(std::move(r));
  }
  Result<std::unique_ptr<device::Stream>> stream() override {
    return std::unique_ptr<device::Stream>(std::make_unique<CpuStream>());
  }
  bool claims(const ir::Node& node, const ir::Graph&, const device::Bounds&) const override { return runs(node); }
  device::LayoutId layout(const ir::WeightDecl&, const ir::WeightBinding& b, const device::Bounds&) const override {
    return "cpu-" + std::string(b.schemes.empty() ? "rows" : b.schemes[0]->name) + "-16";
  }
  Result<device::MemoryPlan> plan(const ir::Graph& graph, std::span<const ir::WeightBinding> bindings,
                                  const device::Bounds& bounds) const override {
    ir::Graph g = graph;
    BORA_TRY(ir::expand_pass(g, {}));
    BORA_ASSIGN(const Plan p, make_plan(g, bindings, bounds));
    return device::MemoryPlan{
        .weights = static_cast<uint64_t>(p.weight_bytes),
        .states = static_cast<uint64_t>(p.state_bytes),
        .workspace = static_cast<uint64_t>(p.workspace_bytes + picks_of(g, bounds, threads_).bytes)};
  }
  Result<std::unique_ptr<device::Program>> compile(const ir::Graph& graph, const device::Bounds& bounds,
                                                   const device::Bindings& bindings) override {
    ir::Graph g = graph;
    BORA_TRY(ir::expand_pass(g, {}));
    BORA_ASSIGN(Plan p, make_plan(g, bindings.schemes, bounds));
    auto program = std::make_unique<CpuProgram>(std::move(g), std::move(p), bounds, isa_->kernels, threads_);
    BORA_TRY(program->init(bindings));
    return std::unique_ptr<device::Program>(std::move(program));
  }

 private:
  const IsaLevel* isa_;
  int32_t threads_;
};

Result<std::vector<std::unique_ptr<device::Device>>> open(const device::DeviceOptions& options,
                                                          std::string* missing) {
  std::vector<std::unique_ptr<device::Device>> out;
  auto isa = choose_isa(options.isa);
  if (!isa.ok()) {
    if (isa.status().code() == Code::kInvalidArgument || !options.isa.empty()) return std::move(isa).take_status();
    *missing = isa.status().message();
    return out;
  }
  int32_t threads = options.threads;
  if (threads <= 0) threads = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  out.push_back(std::make_unique<CpuDevice>(*isa, std::min(threads, 256)));
  return out;
}

}  // namespace

extern const device::Backend kBackend;
const device::Backend kBackend{.name = "cpu", .summary = "x86-64 processors with AVX2 or more", .open = open};

}  // namespace bora::cpu
