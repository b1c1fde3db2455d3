// Runs a Program: configurations (sets of positions with stacks), transitions and token masks, all built on demand.
//
// A stack is a graph node: a set of edges {call site, finished rounds, parent}. All calls of one rule at one place of
// the text share one node, so ambiguity multiplies edges, not stacks. Stacks, configurations and transitions are
// interned, which makes repeated contexts a table look-up. An Engine only grows; its owner replaces it above a size
// (see import). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/program.h"
#include "text/grammar/vocab.h"

namespace bora::text {

using ConfigId = uint32_t;
inline constexpr ConfigId kUnknownConfig = 0;
inline constexpr ConfigId kDeadConfig = 1;

struct Item {
  uint32_t node;
  uint32_t stack;
  uint32_t aux;  // kChar: part of a character; kString: count and state; kNumber: index of the reader
  bool operator==(const Item&) const = default;
  auto operator<=>(const Item&) const = default;
};

class Engine {
 public:
  // `program` outlives the engine.
  explicit Engine(const Program& program);

  ConfigId start();
  ConfigId step(ConfigId from, uint8_t byte);
  bool can_end(ConfigId id) const { return configs_[id].accept; }
  bool in_ws(ConfigId id) const { return configs_[id].ws; }
  // The only byte that can follow, or -1. Other spellings of the same character (escapes) do not count as a choice.
  int forced_byte(ConfigId id);
  // REQUIRES: mask.size() >= vocab.words
  void fill_mask(ConfigId id, const GrammarVocab& vocab, std::span<uint32_t> mask);
  // The configuration of another engine of the same program, rebuilt here.
  ConfigId import(const Engine& from, ConfigId id);
  size_t bytes() const { return bytes_; }

 private:
  struct Edge {
    uint32_t site;
    uint32_t rounds;
    uint32_t parent;
    bool operator==(const Edge&) const = default;
    auto operator<=>(const Edge&) const = default;
  };
  struct Range {
    uint32_t first;
    uint32_t count;
  };
  struct CharLimits {
    uint32_t min;
    uint32_t max;
  };
  struct Mask {
    struct Part {
      const LoopTokens* loop;
      uint32_t max_chars;
    };
    const GrammarVocab* vocab;
    std::vector<Part> parts;     // loop contexts, OR-ed
    std::vector<int32_t> extra;  // single tokens, unless dense
    std::vector<uint32_t> dense;
  };
  struct Config {
    Range items;
    bool accept = false;
    bool ws = false;
    bool open_string = false;  // an item is in the home state of a string without a longest length
    std::unique_ptr<uint32_t[]> row;
    std::unique_ptr<Mask> mask;
  };
  struct Pending {
    RuleId rule;
    Edge edge;
  };

  // One step: the items go through step_item, then close() follows everything that does not consume.
  void step_item(const Item& item, uint8_t byte);
  void step_char(const Item& item, uint8_t byte);
  void step_number(const Item& item, uint8_t byte);
  void push(uint32_t node, uint32_t stack, uint32_t aux);
  void visit(const Item& item);
  void visit_return(uint32_t stack);
  void pend(RuleId rule, Edge edge);
  void expand_pending();
  ConfigId close();
  bool seen(const Item& item);
  uint32_t intern_stack(std::vector<Edge>* edges);
  ConfigId intern_config();
  uint32_t intern_number(const NumberReader& reader);
  void begin();
  void make_row(Config* config);
  ConfigId uncached_step(ConfigId from, uint8_t byte);
  ConfigId close_one(uint32_t node, uint32_t stack);
  std::unique_ptr<Mask> compute_mask(ConfigId id, const GrammarVocab& vocab);
  bool loops(ConfigId id, std::span<const uint8_t> bytes);
  void walk(const TokenTrie& trie, ConfigId from, CharLimits chars, std::vector<int32_t>* out);
  // Nodes [begin, end) of a trie; `add_in_string`: also the tokens that are known to stay inside a string.
  struct Stretch {
    size_t begin;
    size_t end;
    bool add_in_string;
  };
  void walk_nodes(const TokenTrie& trie, Stretch part, ConfigId from, CharLimits chars, std::vector<int32_t>* out);
  bool walk_as_string(ConfigId from, const GrammarVocab& vocab, Mask* mask);
  ConfigId only(ConfigId id, bool ws);
  const Item* items(const Config& c) const { return items_pool_.data() + c.items.first; }

  const Program& program_;
  std::vector<Edge> edge_pool_;
  std::vector<Range> stacks_;
  std::unordered_multimap<uint64_t, uint32_t> stack_ids_;
  std::vector<Item> items_pool_;
  std::vector<Config> configs_;
  std::unordered_multimap<uint64_t, ConfigId> config_ids_;
  std::vector<NumberReader> readers_;
  std::unordered_multimap<uint64_t, uint32_t> reader_ids_;
  size_t bytes_ = 0;

  // Scratch of one step.
  std::vector<Item> work_;
  std::vector<Item> out_;
  std::vector<Pending> pending_;
  std::vector<uint32_t> fresh_;
  std::vector<std::pair<Item, uint32_t>> visited_;  // open addressing, entries of this stamp count
  uint32_t visited_count_ = 0;
  uint32_t stamp_ = 0;
  std::vector<int32_t> found_;  // tokens of the mask being made; kept, because fresh pages cost more than the walk
  bool accept_ = false;
  bool ws_ = false;
};

}  // namespace bora::text
