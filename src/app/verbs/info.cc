// info: what a model is and what it takes, or which devices are here. Nothing is loaded.
#include <algorithm>
#include <map>
#include <ostream>

#include "app/backends.h"
#include "app/loader.h"
#include "app/sequence.h"
#include "app/verb.h"
#include "model/family.h"

namespace bora::app {
namespace {

constexpr Flag kFlags[] = {
    {"MODEL", Flag::Kind::kOptionalPositional, "a .gguf or .safetensors file, or a directory"},
    {"--plan", Flag::Kind::kSwitch, "the exact memory plan"},
    {"--max-context", Flag::Kind::kInt,
     "positions of a sequence in the plan; 0 = what the model was trained for, at most 4096", "0"},
    {"--max-batch", Flag::Kind::kInt, "sequences in the plan", "1"},
    {"--max-batch-tokens", Flag::Kind::kInt, "rows of a step in the plan", "512"},
    {"--device", Flag::Kind::kText, "device of the plan", "auto"},
    {"--json", Flag::Kind::kSwitch, "as one JSON object"}};

int64_t state_bytes_per_token(const ir::Graph& g) {
  int64_t bytes = 0;
  for (const ir::StateSpec& s : g.states) {
    int64_t n = dtype_bytes(s.dtype);
    for (int32_t d : s.per_unit) n *= d;
    if (!s.same_as.valid()) bytes += n;
  }
  return bytes;
}

Json describe(const formats::Checkpoint& c, const model::Model& m) {
  Json out = Json::object();
  out.set("path", c.path());
  out.set("format", c.format());
  out.set("family", m.info.family);
  out.set("parameters", m.info.parameters);
  out.set("layers", int64_t{m.info.layers});
  out.set("hidden", int64_t{m.info.hidden});
  out.set("heads", int64_t{m.info.heads});
  out.set("kv_heads", int64_t{m.info.kv_heads});
  out.set("head_dim", int64_t{m.info.head_dim});
  out.set("vocab", int64_t{m.info.vocab});
  out.set("max_context", int64_t{m.info.max_context});
  uint64_t bytes = 0;
  std::map<std::string, int64_t> types;
  for (const formats::TensorEntry& t : c.tensors()) {
    bytes += t.size;
    ++types[std::string(t.scheme != nullptr ? t.scheme->name : dtype_name(t.dtype))];
  }
  out.set("tensors", static_cast<int64_t>(c.tensors().size()));
  out.set("tensor_bytes", static_cast<int64_t>(bytes));
  Json kinds = Json::object();
  for (const auto& [name, count] : types) kinds.set(name, count);
  out.set("tensor_types", std::move(kinds));
  out.set("state_bytes_per_token", state_bytes_per_token(m.graph));
  return out;
}

Result<Json> plan_of(const Args& args, const model::Model& m) {
  BORA_ASSIGN(const std::unique_ptr<device::Device> device, open_device(args.text("--device"), {}));
  const int64_t asked = args.integer("--max-context");
  const int64_t context = asked > 0 ? asked : std::min(m.info.max_context, 4096);
  const int64_t batch = args.integer("--max-batch"), tokens = args.integer("--max-batch-tokens");
  if (context > 1 << 24 || batch < 1 || batch > 4096 || tokens < 1 || tokens > 1 << 20) {
    return invalid_argument(
        "--max-context, --max-batch and --max-batch-tokens must be positive and of ordinary size");
  }
  const device::Bounds bounds =
      bounds_for(m.graph, static_cast<int32_t>(context), static_cast<int32_t>(tokens), static_cast<int32_t>(batch));
  BORA_ASSIGN(const device::MemoryPlan p, device->plan(m.graph, m.bindings, bounds));
  Json out = Json::object();
  out.set("device", device->name());
  out.set("context", context);
  out.set("sequences", batch);
  out.set("weights", static_cast<int64_t>(p.weights));
  out.set("states", static_cast<int64_t>(p.states));
  out.set("workspace", static_cast<int64_t>(p.workspace));
  out.set("total", static_cast<int64_t>(p.total()));
  return out;
}

void print(std::ostream& out, const Json& j, const std::string& indent) {
  for (const Json::Member& m : j.members()) {
    if (m.second.is_object()) {
      out << indent << m.first << '\n';
      print(out, m.second, indent + "  ");
    } else {
      out << indent << m.first << ' ' << (m.second.is_string() ? m.second.as_string() : m.second.dump()) << '\n';
    }
  }
}

Status info(const Args& args, Streams& io) {
  Json out = Json::object();
  if (!args.has("MODEL")) {
    for (const device::Backend* b : backends()) {
      std::string missing;
      BORA_ASSIGN(const std::vector<std::unique_ptr<device::Device>> devices, b->open({}, &missing));
      for (const auto& d : devices) out.set(d->name(), d->description());
      if (devices.empty()) out.set(b->name, "not usable: " + missing);
    }
  } else {
    BORA_ASSIGN(const std::unique_ptr<Source> source, open_source(args.text("MODEL")));
    BORA_ASSIGN(const model::Model m, model::build_model(*source->checkpoint, {}));
    out = describe(*source->checkpoint, m);
    if (args.has("--plan")) {
      BORA_ASSIGN(Json plan, plan_of(args, m));
      out.set("plan", std::move(plan));
    }
  }
  if (args.has("--json")) {
    io.out << out.dump() << '\n';
  } else {
    print(io.out, out, "");
  }
  return {};
}

}  // namespace

extern const Verb kInfo;
const Verb kInfo{.name = "info",
                 .summary = "What a model is and what it takes; without a model: the devices",
                 .flags = kFlags,
                 .examples = "  bora info\n  bora info model.gguf --plan --json",
                 .run = info};

}  // namespace bora::app
