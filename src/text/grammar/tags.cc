// Structural tags: free bytes, watched by an automaton over the triggers (Aho-Corasick), that switch into enforced
// parts.
#include <algorithm>
#include <deque>
#include <map>

#include "text/grammar/compiled.h"

namespace bora::text {
namespace {

struct Watch {
  std::vector<std::map<uint8_t, uint32_t>> next;  // trie edges, then completed with failure links
  std::vector<int32_t> trigger;                   // the trigger whose text ends here, or -1
};

Watch make_watch(const std::vector<std::string>& triggers) {
  Watch w;
  auto state = [&w] {
    w.next.emplace_back();
    w.trigger.push_back(-1);
    return static_cast<uint32_t>(w.next.size() - 1);
  };
  state();
  for (size_t t = 0; t < triggers.size(); ++t) {
    uint32_t at = 0;
    for (char c : triggers[t]) {
      auto byte = static_cast<uint8_t>(c);
      auto it = w.next[at].find(byte);
      uint32_t to = it == w.next[at].end() ? state() : it->second;
      w.next[at][byte] = to;
      at = to;
    }
    if (w.trigger[at] < 0) w.trigger[at] = static_cast<int32_t>(t);
  }
  std::vector<uint32_t> fail(w.next.size(), 0);
  std::deque<uint32_t> queue;
  for (auto [byte, to] : w.next[0]) queue.push_back(to);
  while (!queue.empty()) {
    uint32_t at = queue.front();
    queue.pop_front();
    for (auto [byte, to] : w.next[at]) {
      auto it = w.next[fail[at]].find(byte);
      fail[to] = it == w.next[fail[at]].end() ? 0 : it->second;
      queue.push_back(to);
    }
    // Breadth first: the shorter state is complete already.
    for (auto [byte, to] : w.next[fail[at]]) w.next[at].emplace(byte, to);
    if (w.trigger[at] < 0) w.trigger[at] = w.trigger[fail[at]];
  }
  return w;
}

class TagBuilder {
 public:
  TagBuilder(const StructuralTags& tags, ProgramBuilder* out) : tags_(tags), out_(out) {}

  Result<RuleId> build() {
    Watch watch = make_watch(tags_.triggers);
    RuleId root = out_->new_rule();
    for (const TagPart& part : tags_.parts) {
      auto compiled = std::dynamic_pointer_cast<const CompiledGrammar>(part.content);
      if (!compiled) return invalid_argument("structural tags: a part has no content");
      contents_.push_back(out_->embed(compiled->program()));
    }
    NodeId after = out_->reserve();
    std::vector<NodeId> free = free_text(watch, true, after);
    NodeId start = tags_.at_least_one ? free_text(watch, false, after)[0] : free[0];
    out_->set_split(after, {tags_.stop_after_first ? out_->ret() : free[0]});
    out_->set_rule(root, start);
    return root;
  }

 private:
  NodeId bytes(std::string_view text, NodeId next) {
    for (size_t i = text.size(); i-- > 0;)
      next = out_->byte(static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]), next);
    return next;
  }

  // The states of free text; those that complete a trigger go on with what its parts still need.
  std::vector<NodeId> free_text(const Watch& watch, bool may_end, NodeId after) {
    std::vector<NodeId> starts;
    for (size_t s = 0; s < watch.next.size(); ++s) starts.push_back(out_->reserve());
    for (size_t s = 0; s < watch.next.size(); ++s) {
      std::vector<NodeId> options;
      if (watch.trigger[s] >= 0) {
        const std::string& trigger = tags_.triggers[static_cast<size_t>(watch.trigger[s])];
        for (size_t p = 0; p < tags_.parts.size(); ++p) {
          const TagPart& part = tags_.parts[p];
          if (!part.begin.starts_with(trigger)) continue;
          NodeId content = out_->call(contents_[p], bytes(part.end, after));
          options.push_back(bytes(std::string_view(part.begin).substr(trigger.size()), content));
        }
        out_->set_split(starts[s], std::move(options));
        continue;
      }
      uint32_t lo = 0;
      auto target = [&](uint32_t byte) {
        auto it = watch.next[s].find(static_cast<uint8_t>(byte));
        return it == watch.next[s].end() ? 0 : it->second;
      };
      for (uint32_t byte = 1; byte <= 256; ++byte) {
        if (byte < 256 && target(byte) == target(lo)) continue;
        options.push_back(out_->byte(static_cast<uint8_t>(lo), static_cast<uint8_t>(byte - 1), starts[target(lo)]));
        lo = byte;
      }
      if (may_end) options.push_back(out_->ret());
      out_->set_split(starts[s], std::move(options));
    }
    return starts;
  }

  const StructuralTags& tags_;
  ProgramBuilder* out_;
  std::vector<RuleId> contents_;
};

}  // namespace

Result<GrammarPtr> compile_structural_tags(const StructuralTags& tags, const GrammarLimits& limits) {
  if (tags.parts.empty() || tags.triggers.empty())
    return invalid_argument("structural tags: no parts or no triggers");
  size_t total = 0;
  for (const std::string& t : tags.triggers) {
    if (t.empty()) return invalid_argument("structural tags: a trigger is empty");
    total += t.size();
  }
  if (total > 65536) return invalid_argument("structural tags: the triggers are longer than 64 KiB in all");
  for (const TagPart& part : tags.parts) {
    bool known = std::any_of(tags.triggers.begin(), tags.triggers.end(),
                             [&part](const std::string& t) { return part.begin.starts_with(t); });
    if (!known) return invalid_argument("structural tags: no trigger starts \"" + part.begin + "\"");
  }
  ProgramBuilder builder;
  BORA_ASSIGN(RuleId root, TagBuilder(tags, &builder).build());
  Result<Program> program = builder.finish(root);
  if (!program.ok()) return std::move(program).take_status().with_context("structural tags");
  return wrap_program(std::move(program), limits);
}

}  // namespace bora::text
