// The compiled form of every grammar: a pushdown automaton over bytes.
//
// A node either consumes (kChar, kByte, kString, kNumber, kWs) or moves without consuming (kSplit, kCall, kRepeat,
// kReturn). A rule is an entry node whose paths end in kReturn. kRepeat calls its body rule between `min` and `max`
// times; the number of finished rounds lives on the stack edge, so a limit of a million costs one node. A kChar may
// be read in its JSON spelling (raw UTF-8, or any escape that means the code point), so patterns and literals work on
// the decoded text. finish() drops every path that cannot end, so that a state that exists can always be completed.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/char_class.h"
#include "text/grammar/number.h"

namespace bora::text {

using NodeId = uint32_t;
using RuleId = uint32_t;
inline constexpr uint32_t kNoNode = UINT32_MAX;
inline constexpr uint32_t kUnbounded = UINT32_MAX;
inline constexpr uint32_t kMaxCount = (1u << 27) - 2;  // counters that fit an item

enum class NodeKind : uint8_t {
  kDead,
  kChar,
  kByte,
  kString,
  kNumber,
  kWs,
  kSplit,
  kCall,
  kRepeat,
  kReturn,
  kAccept
};

struct Node {
  NodeKind kind = NodeKind::kDead;
  bool json = false;      // kChar: JSON spelling
  bool is_class = false;  // kChar: a is a class, else the span [a, b]
  uint32_t a = 0;  // kChar lo or class; kString min; kNumber constraint; kSplit first edge; kCall rule; kRepeat body
  uint32_t b = 0;  // kChar hi; kString max; kSplit edge count; kRepeat index into repeats
  NodeId next = kNoNode;
};

struct RepeatBounds {
  uint32_t min;
  uint32_t max;
};

struct Rule {
  NodeId entry = kNoNode;
  bool nullable = false;
  bool productive = false;
  uint32_t rank = 0;  // callers that reach a rule without consuming have a smaller rank
};

struct Program {
  std::vector<Node> nodes;
  std::vector<NodeId> edges;
  std::vector<CharClass> classes;
  std::vector<NumberRange> numbers;
  std::vector<RepeatBounds> repeats;
  std::vector<Rule> rules;
  RuleId root = 0;

  size_t bytes() const;
};

// Builds backwards: every function takes the node that follows and returns the node that starts the part.
class ProgramBuilder {
 public:
  ProgramBuilder();

  NodeId ret() const { return 0; }  // the shared kReturn
  NodeId dead() const { return 1; }
  NodeId chr(uint32_t c, bool json, NodeId next);
  NodeId span(uint32_t lo, uint32_t hi, bool json, NodeId next);
  NodeId cls(const CharClass& set, bool json, NodeId next);
  NodeId byte(uint8_t lo, uint8_t hi, NodeId next);
  NodeId literal(std::string_view utf8, bool json, NodeId next);
  NodeId string_body(uint32_t min, uint32_t max, NodeId next);
  NodeId number(const NumberRange& range, NodeId next);
  NodeId ws(NodeId next);
  NodeId split(std::vector<NodeId> options);
  NodeId call(RuleId rule, NodeId next);
  NodeId repeat(RuleId body, uint32_t min, uint32_t max, NodeId next);
  RuleId new_rule();
  void set_rule(RuleId rule, NodeId entry) { program_.rules[rule].entry = entry; }
  // A split whose options come later (loops).
  NodeId reserve();
  void set_split(NodeId node, std::vector<NodeId> options);
  bool is_quote(NodeId node) const;
  size_t size() const { return program_.nodes.size(); }
  // Copies a finished program in; returns its root as a rule of this one.
  RuleId embed(const Program& other);

  // Drops paths that cannot end, orders the rules. Errors: the root cannot end; a rule reaches itself without
  // consuming anything (left recursion).
  Result<Program> finish(RuleId root);

 private:
  NodeId add(Node node);
  void mark_productive();
  void prune();
  void mark_nullable();
  Status rank_rules();
  std::vector<RuleId> left_calls(RuleId rule) const;

  Program program_;
  std::map<std::vector<std::pair<uint32_t, uint32_t>>, uint32_t> class_ids_;
  std::vector<char> node_ok_;
};

}  // namespace bora::text
