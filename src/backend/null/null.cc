#include "backend/null/null.h"

#include <algorithm>
#include <deque>
#include <string>

namespace bora::null {
namespace {

using device::Bounds;
using device::StepPatch;

// Width of the logits, the one thing of a graph that matters here.
int32_t vocabulary(const ir::Graph& graph) {
  for (const ir::Entry& e : graph.entries) {
    for (const auto& [name, v] : e.outputs) {
      if (name == "logits") return graph.info(v).shape[1].n;
    }
  }
  return 0;
}

class NullRegion : public device::Region {
 public:
  explicit NullRegion(uint64_t bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_; }
  Status commit() override { return {}; }
  void decommit() override {}

 private:
  uint64_t bytes_;
};

class NullStream : public device::Stream {
 public:
  Status synchronize() override { return {}; }
};

class NullProgram : public device::Program {
 public:
  NullProgram(const Bounds& bounds, int32_t vocab) : bounds_(bounds), vocab_(vocab) {}

  Status launch(std::string_view entry, const StepPatch& p, device::Stream&) override {
    if (entry == "pick") {
      if (open_.empty() || open_.back().id != p.id) return failed_precondition("pick belongs to the last forward");
      open_.back().picks = p.picks;
      return {};
    }
    if (entry != "forward") return not_found("the program has no entry '" + std::string(entry) + "'");
    if (p.tokens < 1 || p.tokens > bounds_.tokens || p.seqs < 1 || p.seqs > bounds_.seqs)
      return invalid_argument("the step is larger than the program's bounds");
    if (static_cast<int32_t>(open_.size()) >= std::max(1, bounds_.in_flight))
      return failed_precondition("collect a step first");
    open_.push_back({p.id, p.rows.size(), {}});
    return {};
  }
  Status collect(device::StepId id, device::StepResult* out) override {
    if (open_.empty() || open_.front().id != id) return failed_precondition("steps are collected in order");
    out->id = id;
    out->rows.clear();
    out->top.clear();
    for (const device::PickRow& p : open_.front().picks) {
      device::PickedRow row;
      row.id = p.target >= 0 ? p.target : static_cast<int32_t>(int64_t{p.position} * 7919 % vocab_);
      out->rows.push_back(row);
    }
    logits_.assign(open_.front().rows * static_cast<size_t>(vocab_), 0);
    open_.pop_front();
    return {};
  }
  std::span<const float> logits() const override { return logits_; }
  std::span<const float> tap(std::string_view name) const override {
    return name == "logits" ? logits() : std::span<const float>();
  }
  std::vector<device::Extent> extents(int32_t, device::BlockId) const override { return {}; }
  std::string state_format() const override { return "null"; }

 private:
  struct Step {
    device::StepId id;
    size_t rows;
    std::span<const device::PickRow> picks;
  };
  Bounds bounds_;
  int32_t vocab_;
  std::deque<Step> open_;
  std::vector<float> logits_;
};

class NullDevice : public device::Device {
 public:
  std::string_view name() const override { return "null"; }
  std::string description() const override { return "no arithmetic: tokens follow from positions"; }
  Result<std::unique_ptr<device::Region>> reserve(uint64_t bytes) override {
    return std::unique_ptr<device::Region>(std::make_unique<NullRegion>(bytes));
  }
  Result<std::unique_ptr<device::Stream>> stream() override {
    return std::unique_ptr<device::Stream>(std::make_unique<NullStream>());
  }
  bool claims(const ir::Node&, const ir::Graph&, const Bounds&) const override { return true; }
  device::LayoutId layout(const ir::WeightDecl&, const ir::WeightBinding&, const Bounds&) const override {
    return "rows";
  }
  Result<device::MemoryPlan> plan(const ir::Graph&, std::span<const ir::WeightBinding>,
                                  const Bounds&) const override {
    return device::MemoryPlan{};
  }
  Result<std::unique_ptr<device::Program>> compile(const ir::Graph& graph, const Bounds& bounds,
                                                   const device::Bindings&) override {
    if (vocabulary(graph) < 1) return invalid_argument("the graph has no logits");
    return std::unique_ptr<device::Program>(std::make_unique<NullProgram>(bounds, vocabulary(graph)));
  }
};

Result<std::vector<std::unique_ptr<device::Device>>> open(const device::DeviceOptions&, std::string*) {
  std::vector<std::unique_ptr<device::Device>> out;
  out.push_back(std::make_unique<NullDevice>());
  return out;
}

}  // namespace

extern const device::Backend kBackend;
const device::Backend kBackend{
    .name = "null", .summary = "computes nothing: for measuring all the rest", .open = open, .computes = false};

}  // namespace bora::null
