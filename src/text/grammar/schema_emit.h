// Alternatives to nodes. One rule for each distinct conjunction of schemas, made from a work list.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/program.h"
#include "text/grammar/schema_model.h"

namespace bora::text {

class SchemaEmitter {
 public:
  SchemaEmitter(SchemaModel* model, ProgramBuilder* out);
  // The rule of a whole document (white space around it included).
  Result<RuleId> document(const RefSet& refs);

 private:
  struct Member {
    std::string name;
    RefSet refs;
    bool required = false;
  };
  // Names that the declared members do not cover, and what their values must satisfy.
  struct Extra {
    Alternative name;
    RefSet refs;
  };
  struct ObjectPlan {
    std::vector<Member> members;
    std::vector<std::string> taken;  // declared and forbidden names: never an extra name
    std::vector<Extra> extras;
    bool possible = true;
  };
  // min and max count members in all.
  struct Counts {
    uint32_t min;
    uint32_t max;
  };

  RuleId value_rule(const RefSet& refs);  // queues the rule on first use
  RuleId any_value();
  Result<NodeId> alternatives(const Alternatives& alts);
  Result<NodeId> alternative(const Alternative& alt, NodeId next);
  Result<NodeId> literal_values(const Alternative& alt, NodeId next);
  Result<NodeId> literal(const Json& value, NodeId next);
  Result<NodeId> numbers(const Alternative& alt, NodeId next);
  NodeId plain_number(bool integer, NodeId next);
  Result<NodeId> text_body(const Alternative& alt, std::vector<std::string> taken, NodeId quote);
  Result<NodeId> text_dfa(const Alternative& alt, const std::vector<std::string>& taken, NodeId quote);
  Result<NodeId> list(const Alternative& alt, NodeId next);
  Result<ObjectPlan> plan_object(const Alternative& alt);
  Status plan_extras(const Alternative& alt, ObjectPlan* plan);
  Result<NodeId> object(const Alternative& alt, NodeId next);
  Result<NodeId> ordered_object(const ObjectPlan& plan, Counts counts, NodeId close);
  Result<NodeId> unordered_object(const ObjectPlan& plan, NodeId close);
  Result<NodeId> member(const std::string& name, const RefSet& refs, NodeId next);
  Result<NodeId> extra_member(const ObjectPlan& plan, NodeId next);
  // At least one extra member, then close; `min` to `max` of them.
  Result<NodeId> extra_members(const ObjectPlan& plan, Counts counts, NodeId close);
  NodeId quote(NodeId next) { return out_->chr('"', false, next); }
  NodeId comma(NodeId next) { return out_->chr(',', false, out_->ws(next)); }
  bool never(const RefSet& refs) const;
  Status check_time() const;

  SchemaModel* model_;
  ProgramBuilder* out_;
  std::map<RefSet, RuleId> rules_;
  std::vector<std::pair<RefSet, RuleId>> queue_;
  RuleId any_ = UINT32_MAX;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace bora::text
