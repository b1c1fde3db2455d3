// Tries are built over sorted words with a path of open nodes; nothing recurses on word length.
#include "text/grammar/trie_nodes.h"

#include <algorithm>

namespace bora::text {
namespace {

struct Branch {
  uint32_t c;
  uint32_t child;
};
struct TrieState {
  std::vector<Branch> branches;
  bool end = false;
};

// Children have larger indices than their parents.
Result<std::vector<TrieState>> build(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  std::vector<TrieState> states(1);
  for (const std::string& word : words) {
    uint32_t at = 0;
    for (size_t pos = 0; pos < word.size();) {
      auto c = decode_utf8(word, &pos);
      if (!c) return invalid_argument("a literal is not valid UTF-8");
      // UTF-8 sorts like code points, so only the newest branch can be shared.
      if (states[at].branches.empty() || states[at].branches.back().c != *c) {
        states[at].branches.push_back({*c, static_cast<uint32_t>(states.size())});
        states.emplace_back();
      }
      at = states[at].branches.back().child;
    }
    states[at].end = true;
  }
  return states;
}

}  // namespace

Result<NodeId> word_trie(std::vector<std::string> words, bool json, NodeId next, ProgramBuilder* out) {
  BORA_ASSIGN(std::vector<TrieState> states, build(std::move(words)));
  std::vector<NodeId> starts(states.size());
  for (size_t s = states.size(); s-- > 0;) {
    std::vector<NodeId> options;
    for (Branch b : states[s].branches) options.push_back(out->chr(b.c, json, starts[b.child]));
    if (states[s].end) options.push_back(next);
    starts[s] = out->split(std::move(options));
  }
  return starts[0];
}

Result<NodeId> other_words(std::vector<std::string> words, NodeId next, ProgramBuilder* out) {
  BORA_ASSIGN(std::vector<TrieState> states, build(std::move(words)));
  NodeId rest = out->string_body(0, kUnbounded, next);
  std::vector<NodeId> starts(states.size());
  for (size_t s = states.size(); s-- > 0;) {
    std::vector<NodeId> options;
    std::vector<CodeSpan> taken;
    for (Branch b : states[s].branches) {
      options.push_back(out->chr(b.c, true, starts[b.child]));
      taken.push_back({b.c, b.c});
    }
    options.push_back(out->cls(CharClass(std::move(taken)).complement(), true, rest));
    if (!states[s].end) options.push_back(next);
    starts[s] = out->split(std::move(options));
  }
  return starts[0];
}

}  // namespace bora::text
