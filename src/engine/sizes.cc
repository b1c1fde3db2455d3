#include "engine/sizes.h"

#include <algorithm>
#include <string>

namespace bora::engine {
namespace {

constexpr int32_t kScoreRows = 48;            // logits rows of a step beside the decoding ones
constexpr int32_t kSnapshots = 64;            // of recurrent state, beside the working slots
constexpr uint64_t kReserve = 64ull << 20;    // left for everything that is no plan's
constexpr int64_t kCacheDefault = 2ll << 30;  // state bytes at most unless asked for

Status check_options(const ModelOptions& o) {
  const auto in = [](const char* name, int64_t v, int64_t low, int64_t high) {
    if (v >= low && v <= high) return ok_status();
    return invalid_argument(std::string(name) + " must be " + std::to_string(low) + " to " + std::to_string(high) +
                            ", got " + std::to_string(v));
  };
  BORA_TRY(in("max_batch", o.max_batch, 1, 1024));
  BORA_TRY(in("max_batch_tokens", o.max_batch_tokens, o.max_batch + 64, 65536));
  BORA_TRY(in("steps_in_flight", o.steps_in_flight, 1, 2));
  BORA_TRY(in("step_target_us", o.step_target_us, 100, 60'000'000));
  if (o.max_context != 0) BORA_TRY(in("max_context", o.max_context, 16, 1 << 24));
  if (o.kv_memory != 0) BORA_TRY(in("kv_memory", o.kv_memory, 1 << 16, int64_t{1} << 50));
  return {};
}

int32_t slots_of(const ModelOptions& o) { return 1 + o.steps_in_flight; }

// Bounds for a context of `pages` blocks and `blocks` blocks a paged group.
device::Bounds bounds_of(const ir::Graph& graph, const ModelOptions& o, int32_t pages, int32_t blocks) {
  device::Bounds b;
  b.tokens = o.max_batch_tokens;
  b.seqs = o.max_batch;
  b.rows = std::max(64, o.max_batch + kScoreRows);
  b.pages = pages;
  b.in_flight = o.steps_in_flight;
  b.histories = b.rows * o.steps_in_flight;
  for (const ir::StateGroup& g : graph.groups)
    b.blocks.push_back(g.keep == ir::Keep::kLast ? slots_of(o) * o.max_batch + kSnapshots : blocks);
  return b;
}

Status too_large(const model::Model& model, const device::MemoryPlan& p, const AvailableMemory& memory) {
  return resource_exhausted(model.info.family + ": needs " + bytes_text(p.total()) + " (weights " +
                            bytes_text(p.weights) + ", cache " + bytes_text(p.states) + ", workspace " +
                            bytes_text(p.workspace) + "), but " + memory.source + " is " + bytes_text(memory.bytes) +
                            "; lower --max-context, --max-batch or --kv-memory, or take a smaller model");
}

void fill_groups(const ir::Graph& graph, const ModelOptions& o, Sizes* s) {
  int32_t align = 16;
  for (size_t g = 0; g < graph.groups.size(); ++g) {
    const ir::StateGroup& from = graph.groups[g];
    const bool last = from.keep == ir::Keep::kLast;
    align = std::max(align, from.align);
    s->groups.push_back({.keep = static_cast<kv::Keep>(from.keep),
                         .window = from.window,
                         .block = last ? slots_of(o) : from.block,
                         .align = from.align,
                         .blocks = s->bounds.blocks[g]});
  }
  s->limits.align = align;
  s->limits.max_seqs = o.max_batch;
  s->limits.max_tokens = o.max_batch_tokens;
  s->limits.max_rows = s->bounds.rows;
  s->limits.steps_in_flight = o.steps_in_flight;
  s->limits.max_waiting = 1 << 30;  // the host counts the queue
}

}  // namespace

Result<Sizes> choose_sizes(const device::Device& device, const model::Model& model, const ModelOptions& o,
                           const AvailableMemory& memory) {
  BORA_TRY(check_options(o));
  const auto plan = [&](int32_t pages, int32_t blocks) {
    return device.plan(model.graph, model.bindings, bounds_of(model.graph, o, pages, blocks));
  };
  const int32_t block = model.graph.groups.empty() ? 16 : model.graph.groups[0].block;
  const int32_t longest = model.info.max_context > 0 ? model.info.max_context : 4096;
  if (o.max_context > longest) {
    return invalid_argument("max_context " + std::to_string(o.max_context) + " is more than the model's own " +
                            std::to_string(longest));
  }
  int32_t context = o.max_context > 0 ? o.max_context : longest;
  // A block's bytes from two plans: they are linear in the blocks.
  BORA_ASSIGN(const device::MemoryPlan small, plan(1, 16));
  BORA_ASSIGN(const device::MemoryPlan more, plan(1, 16 + 1024));
  const uint64_t per_block = std::max<uint64_t>(1, (more.states - small.states) / 1024);
  const auto pages_of = [block](int32_t positions) { return (positions + block - 1) / block + 1; };
  const auto room_for = [&](int32_t pages) -> Result<int64_t> {
    BORA_ASSIGN(const device::MemoryPlan bare, plan(pages, 16));
    const uint64_t fixed = bare.total() + kReserve;
    return memory.bytes > fixed ? static_cast<int64_t>((memory.bytes - fixed) / per_block) : 0;
  };
  BORA_ASSIGN(int64_t room, room_for(pages_of(context)));
  while (o.max_context == 0 && room < pages_of(context) && context > 512) {  // the model's own does not fit
    context /= 2;
    BORA_ASSIGN(room, room_for(pages_of(context)));
  }
  const int32_t pages = pages_of(context);
  int64_t blocks = int64_t{pages} * o.max_batch;
  if (o.kv_memory > 0) {
    blocks = o.kv_memory / static_cast<int64_t>(per_block);
    if (blocks < pages) {
      return invalid_argument("kv_memory holds " + std::to_string(blocks * block) + " positions; a context of " +
                              std::to_string(context) + " needs " +
                              bytes_text(static_cast<uint64_t>(pages) * per_block) +
                              ": raise it or lower --max-context");
    }
  } else {
    const int64_t most = std::min(kCacheDefault / static_cast<int64_t>(per_block), room / 2);
    blocks = std::min(blocks, std::max<int64_t>(pages, most));
  }
  blocks = std::min<int64_t>(blocks, 1 << 26);
  Sizes s;
  s.bounds = bounds_of(model.graph, o, pages, static_cast<int32_t>(blocks));
  BORA_ASSIGN(s.plan, device.plan(model.graph, model.bindings, s.bounds));
  if (s.plan.total() + kReserve > memory.bytes) return too_large(model, s.plan, memory);
  fill_groups(model.graph, o, &s);
  s.limits.max_context = context;
  return s;
}

}  // namespace bora::engine
