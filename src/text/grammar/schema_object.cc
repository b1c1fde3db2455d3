// Objects. Members come in the order of the schema, names it does not declare come last. Where several branches of an
// allOf each declare members there is no one order, so up to kFreeOrder of them may come in any.
#include <algorithm>

#include "text/grammar/schema_emit.h"

namespace bora::text {
namespace {

constexpr size_t kFreeOrder = 5;
constexpr size_t kMaxCountedNodes = 200000;
constexpr size_t kMaxPatterns = 3;

}  // namespace

Result<SchemaEmitter::ObjectPlan> SchemaEmitter::plan_object(const Alternative& alt) {
  ObjectPlan plan;
  std::map<std::string, size_t> seen;
  auto declare = [&](const std::string& name) { seen.emplace(name, seen.size()); };
  for (const Json* layer : alt.object_layers) {
    const Json* props = layer->find("properties");
    if (!props) continue;
    for (const auto& entry : props->members()) declare(entry.first);
  }
  for (const auto& entry : alt.members) declare(entry.first);
  for (const std::string& name : alt.required) declare(name);
  std::vector<const std::string*> order(seen.size());
  for (const auto& [name, index] : seen) order[index] = &name;
  std::map<std::string, bool> required;
  for (const std::string& name : alt.required) required[name] = true;
  for (const std::string* name : order) {
    BORA_TRY(check_time());
    Member m{*name, {}, required.count(*name) != 0};
    BORA_ASSIGN(m.refs, model_->member_refs(alt, *name));
    plan.taken.push_back(*name);
    if (!never(m.refs)) {
      plan.members.push_back(std::move(m));
    } else if (m.required) {
      plan.possible = false;
    }
  }
  BORA_TRY(plan_extras(alt, &plan));
  return plan;
}

// Names by the set of patterns they match: each set has its own value schema.
Status SchemaEmitter::plan_extras(const Alternative& alt, ObjectPlan* plan) {
  struct Pattern {
    const Json* layer;
    const std::string* text;
    const Json* schema;
  };
  std::vector<Pattern> patterns;
  for (const Json* layer : alt.object_layers) {
    const Json* p = layer->find("patternProperties");
    if (!p) continue;
    for (const auto& [text, schema] : p->members()) patterns.push_back({layer, &text, &schema});
  }
  if (patterns.size() > kMaxPatterns) {
    return model_->fail(patterns[0].layer, "patternProperties", "more than 3 patterns are not supported");
  }
  Alternatives names(1);
  if (!alt.names.empty()) {
    BORA_ASSIGN(names, model_->expand(alt.names));
  }
  for (size_t set = 0; set < size_t{1} << patterns.size(); ++set) {
    Alternative shape;
    shape.types = kText;
    Extra extra;
    std::vector<const Json*> covered;
    for (size_t i = 0; i < patterns.size(); ++i) {
      bool in = (set >> i & 1) != 0;
      shape.patterns.push_back({*patterns[i].text, !in});
      if (!in) continue;
      covered.push_back(patterns[i].layer);
      extra.refs.push_back({patterns[i].schema, false});
    }
    for (const Json* layer : alt.object_layers) {
      const Json* rest = layer->find("additionalProperties");
      bool by_pattern = std::find(covered.begin(), covered.end(), layer) != covered.end();
      if (rest && !by_pattern) extra.refs.push_back({rest, false});
    }
    std::sort(extra.refs.begin(), extra.refs.end());
    if (never(extra.refs)) continue;
    for (const Alternative& n : names) {
      auto merged = merge(shape, n);
      if (!merged.ok()) return std::move(merged).take_status();
      if (*merged) plan->extras.push_back({std::move(**merged), extra.refs});
    }
  }
  return ok_status();
}

Result<NodeId> SchemaEmitter::member(const std::string& name, const RefSet& refs, NodeId next) {
  NodeId value = out_->ws(out_->call(value_rule(refs), out_->ws(next)));
  return quote(out_->literal(name, true, quote(out_->ws(out_->chr(':', false, value)))));
}

Result<NodeId> SchemaEmitter::extra_member(const ObjectPlan& plan, NodeId next) {
  std::vector<NodeId> options;
  for (const Extra& e : plan.extras) {
    NodeId value = out_->ws(out_->call(value_rule(e.refs), out_->ws(next)));
    BORA_ASSIGN(NodeId body, text_body(e.name, plan.taken, quote(out_->ws(out_->chr(':', false, value)))));
    if (body != out_->dead()) options.push_back(quote(body));
  }
  return out_->split(std::move(options));
}

Result<NodeId> SchemaEmitter::extra_members(const ObjectPlan& plan, Counts counts, NodeId close) {
  if (plan.extras.empty() || counts.max == 0) return out_->dead();
  if (counts.min <= 1 && counts.max == kUnbounded) {
    NodeId loop = out_->reserve();
    BORA_ASSIGN(NodeId first, extra_member(plan, loop));
    out_->set_split(loop, {first == out_->dead() ? first : comma(first), close});
    return first;
  }
  RuleId more = out_->new_rule();
  BORA_ASSIGN(NodeId again, extra_member(plan, out_->ret()));
  if (again == out_->dead()) return again;
  out_->set_rule(more, comma(again));
  uint32_t min = counts.min > 0 ? counts.min - 1 : 0;
  uint32_t max = counts.max == kUnbounded ? counts.max : counts.max - 1;
  return extra_member(plan, out_->repeat(more, min, max, close));
}

Result<NodeId> SchemaEmitter::object(const Alternative& alt, NodeId next) {
  BORA_ASSIGN(ObjectPlan plan, plan_object(alt));
  if (!plan.possible || alt.min_members > alt.max_members) return out_->dead();
  NodeId close = out_->chr('}', false, next);
  auto needed = static_cast<uint32_t>(
      std::count_if(plan.members.begin(), plan.members.end(), [](const Member& m) { return m.required; }));
  bool counted = alt.min_members > needed || alt.max_members < plan.members.size() ||
                 (alt.max_members != kUnbounded && !plan.extras.empty());
  // A name written twice is one member to a validator, so names we cannot tell apart may fill only one missing place.
  if (!plan.extras.empty() && alt.min_members > needed + 1) {
    return unimplemented(
        "schema: minProperties above the required members by 2 or more, with open names, is not supported");
  }
  size_t declaring = 0;
  for (const Json* layer : alt.object_layers) {
    const Json* props = layer->find("properties");
    declaring += props && props->size() > 0 ? 1 : 0;
  }
  NodeId start = 0;
  if (!counted && declaring > 1 && plan.members.size() <= kFreeOrder) {
    BORA_ASSIGN(start, unordered_object(plan, close));
  } else {
    Counts counts = counted ? Counts{alt.min_members, alt.max_members} : Counts{0, kUnbounded};
    BORA_ASSIGN(start, ordered_object(plan, counts, close));
  }
  return out_->chr('{', false, out_->ws(start));
}

// ahead[c] starts at the first member that may come at place i when c members came before, behind[c] after a member.
Result<NodeId> SchemaEmitter::ordered_object(const ObjectPlan& plan, Counts counts, NodeId close) {
  size_t n = plan.members.size();
  bool counted = counts.min > 0 || counts.max != kUnbounded;
  size_t width = counted ? std::min<size_t>(n, counts.max) + 1 : 1;
  if (n * width > kMaxCountedNodes) return unimplemented("schema: too many members to count with min/maxProperties");
  std::vector<NodeId> ahead(width);
  std::vector<NodeId> behind(width);
  bool closable = true;
  auto may_close = [&](size_t c) { return closable && (!counted || c >= counts.min); };
  auto set_behind = [&](size_t c) {
    std::vector<NodeId> options;
    if (ahead[c] != out_->dead()) options.push_back(comma(ahead[c]));
    if (may_close(c)) options.push_back(close);
    behind[c] = out_->split(std::move(options));
  };
  for (size_t c = 0; c < width; ++c) {
    auto used = static_cast<uint32_t>(c);
    Counts rest{counts.min > used ? counts.min - used : 0, counts.max == kUnbounded ? kUnbounded : counts.max - used};
    BORA_ASSIGN(ahead[c], extra_members(plan, rest, close));
    set_behind(c);
  }
  NodeId start = 0;
  for (size_t i = n; i-- > 0;) {
    const Member& m = plan.members[i];
    std::vector<NodeId> skip = ahead;
    std::vector<NodeId> after = behind;
    closable = closable && !m.required;
    for (size_t c = 0; c < width; ++c) {
      std::vector<NodeId> options;
      size_t more = counted ? c + 1 : 0;
      if (more < width && after[more] != out_->dead()) {
        BORA_ASSIGN(NodeId taken, member(m.name, m.refs, after[more]));
        options.push_back(taken);
      }
      if (!m.required && skip[c] != out_->dead()) options.push_back(skip[c]);
      ahead[c] = out_->split(std::move(options));
      set_behind(c);
    }
  }
  start = out_->split({ahead[0], may_close(0) ? close : out_->dead()});
  return start;
}

Result<NodeId> SchemaEmitter::unordered_object(const ObjectPlan& plan, NodeId close) {
  size_t n = plan.members.size();
  uint32_t needed = 0;
  for (size_t i = 0; i < n; ++i) needed |= plan.members[i].required ? 1u << i : 0;
  BORA_ASSIGN(NodeId extras, extra_members(plan, {0, kUnbounded}, close));
  std::vector<NodeId> behind(size_t{1} << n);
  NodeId ahead = out_->dead();
  for (size_t set = behind.size(); set-- > 0;) {
    bool complete = (set & needed) == needed;
    std::vector<NodeId> options;
    for (size_t i = 0; i < n; ++i) {
      if ((set >> i & 1) != 0) continue;
      BORA_ASSIGN(NodeId start, member(plan.members[i].name, plan.members[i].refs, behind[set | size_t{1} << i]));
      options.push_back(start);
    }
    if (complete) options.push_back(extras);
    ahead = out_->split(std::move(options));
    behind[set] = out_->split({ahead == out_->dead() ? ahead : comma(ahead), complete ? close : out_->dead()});
  }
  return out_->split({ahead, needed == 0 ? close : out_->dead()});
}

}  // namespace bora::text
