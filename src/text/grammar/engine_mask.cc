// Token masks. A mask is the union over the items of a configuration, so string bodies and white space use the
// vocabulary's precomputed sets and only what leaves them, and everything else, walks a trie.
#include <algorithm>
#include <cstring>

#include "text/grammar/engine.h"

namespace bora::text {

// The items of one kind: white space alone, or everything that is neither white space nor a string body.
ConfigId Engine::only(ConfigId id, bool ws) {
  begin();
  Range range = configs_[id].items;
  for (uint32_t i = 0; i < range.count; ++i) {
    const Item& item = items_pool_[range.first + i];
    NodeKind kind = program_.nodes[item.node].kind;
    bool wanted = ws ? kind == NodeKind::kWs : (kind != NodeKind::kWs && kind != NodeKind::kString);
    if (wanted) out_.push_back(item);
  }
  ws_ = ws;
  return intern_config();
}

// Whether every byte of the subtree leads from the configuration back to itself: then all its tokens fit.
bool Engine::loops(ConfigId id, std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [this, id](uint8_t b) { return step(id, b) == id; });
}

// Most states that let nearly every token through are loops over wide classes, so whole subtrees go in at once.
void Engine::walk(const TokenTrie& trie, ConfigId from, CharLimits chars, std::vector<int32_t>* out) {
  if (from != kDeadConfig) walk_nodes(trie, {0, trie.count(), true}, from, chars, out);
}

void Engine::walk_nodes(const TokenTrie& trie, Stretch part, ConfigId from, CharLimits chars,
                        std::vector<int32_t>* out) {
  const std::vector<TrieNode>& nodes = trie.nodes();
  std::vector<ConfigId> path(GrammarVocab::kMaxTokenBytes + 1);
  const bool any = chars.min == 0 && chars.max == UINT32_MAX;
  auto add = [&chars, any, out](const TrieToken* tokens, size_t count) {
    if (any) {
      const size_t before = out->size();
      out->resize(before + count);
      for (size_t t = 0; t < count; ++t) (*out)[before + t] = tokens[t].id;
      return;
    }
    for (size_t t = 0; t < count; ++t) {
      if (tokens[t].chars >= chars.min && tokens[t].chars <= chars.max) out->push_back(tokens[t].id);
    }
  };
  path[0] = from;
  for (size_t i = part.begin; i < part.end;) {
    const TrieNode& node = nodes[i];
    ConfigId before = path[node.depth - 1u];
    ConfigId to = step(before, node.byte);
    if (to == kDeadConfig) {
      i = node.end;
      continue;
    }
    path[node.depth] = to;
    add(trie.tokens(i), trie.token_count(i));
    const bool in_string = node.in_string && configs_[to].open_string;
    const bool whole = in_string || (node.below != TokenTrie::kNoBytes && loops(to, trie.bytes_below(node)));
    if (whole) {
      if (node.end > i + 1 && (part.add_in_string || !in_string)) add(trie.tokens(i + 1), trie.tokens_below(i));
      i = node.end;
      continue;
    }
    ++i;
  }
}

// A state that almost any character turns into a free string (the name of an undeclared member): the tokens that stay
// inside a string are known, so only first bytes that do something else, and what leaves the string, are walked.
bool Engine::walk_as_string(ConfigId from, const GrammarVocab& vocab, Mask* mask) {
  if (from == kDeadConfig) return false;
  const TokenTrie& trie = vocab.trie;
  const std::vector<TrieNode>& nodes = trie.nodes();
  auto stretch = [&](size_t i) { return trie.token_count(i) + trie.tokens_below(i); };
  auto free = [&](size_t i) {
    return kStringTable[kStringHome][nodes[i].byte] == kStringHome && configs_[step(from, nodes[i].byte)].open_string;
  };
  size_t covered = 0;
  for (size_t i = 0; i < trie.count(); i = nodes[i].end) covered += free(i) ? stretch(i) : 0;
  if (covered * 2 < nodes.back().first_token) return false;
  mask->dense = vocab.string[kStringHome].inside;
  for (size_t i = 0; i < trie.count(); i = nodes[i].end) {
    const bool known = free(i);
    for (size_t t = 0; t < stretch(i) && !known; ++t) {
      const auto id = static_cast<size_t>(trie.tokens(i)[t].id);
      mask->dense[id / 32] &= ~(1u << (id % 32));
    }
    walk_nodes(trie, {i, nodes[i].end, !known}, from, {0, UINT32_MAX}, &found_);
  }
  return true;
}

std::unique_ptr<Engine::Mask> Engine::compute_mask(ConfigId id, const GrammarVocab& vocab) {
  auto mask = std::make_unique<Mask>();
  mask->vocab = &vocab;
  found_.clear();
  constexpr CharLimits kAny{0, UINT32_MAX};
  std::vector<Item> strings;
  bool ws = false;
  Range range = configs_[id].items;
  for (uint32_t i = 0; i < range.count; ++i) {
    const Item& item = items_pool_[range.first + i];
    NodeKind kind = program_.nodes[item.node].kind;
    if (kind == NodeKind::kString) strings.push_back(item);
    if (kind == NodeKind::kWs) ws = true;
  }
  for (const Item& item : strings) {
    const Node& n = program_.nodes[item.node];
    const LoopTokens& loop = vocab.string[item.aux & 31];
    uint32_t count = item.aux >> 5;
    uint32_t most = n.b == kUnbounded ? UINT32_MAX : n.b - count;
    mask->parts.push_back({&loop, most});
    CharLimits limits{n.a > count ? n.a - count : 0, most};
    if (limits.min <= loop.max_chars) walk(loop.leaving, close_one(n.next, item.stack), limits, &found_);
  }
  if (ws) {
    mask->parts.push_back({&vocab.ws, UINT32_MAX});
    walk(vocab.ws.leaving, step(only(id, true), ' '), kAny, &found_);
  }
  const ConfigId rest = ws || !strings.empty() ? only(id, false) : id;
  if (!walk_as_string(rest, vocab, mask.get())) walk(vocab.trie, rest, kAny, &found_);
  if (found_.size() > 2048 || !mask->dense.empty()) {
    mask->dense.resize(vocab.words);
    uint32_t* dense = mask->dense.data();
    for (int32_t t : found_) dense[static_cast<size_t>(t) / 32] |= 1u << (t % 32);
  } else {
    mask->extra.assign(found_.begin(), found_.end());
  }
  bytes_ += sizeof(Mask) + mask->extra.size() * 4 + mask->dense.size() * 4;
  return mask;
}

void Engine::fill_mask(ConfigId id, const GrammarVocab& vocab, std::span<uint32_t> out) {
  if (!configs_[id].mask || configs_[id].mask->vocab != &vocab) {
    std::unique_ptr<Mask> mask = compute_mask(id, vocab);
    configs_[id].mask = std::move(mask);
  }
  const Mask& mask = *configs_[id].mask;
  bool empty = true;  // nothing in `out` counts yet
  auto add_words = [&](const uint32_t* words) {
    if (empty) {
      std::memcpy(out.data(), words, vocab.words * sizeof(uint32_t));
      empty = false;
      return;
    }
    for (size_t i = 0; i < vocab.words; ++i) out[i] |= words[i];
  };
  if (!mask.dense.empty()) add_words(mask.dense.data());
  for (const Mask::Part& part : mask.parts) {
    const LoopTokens& loop = *part.loop;
    if (part.max_chars >= loop.max_chars) {
      add_words(loop.inside.data());
      continue;
    }
    size_t fit = loop.chars_start[part.max_chars + 1];
    if (empty && fit > loop.by_chars.size() / 2) {
      add_words(loop.inside.data());
      for (size_t i = fit; i < loop.by_chars.size(); ++i) {
        auto t = static_cast<size_t>(loop.by_chars[i]);
        out[t / 32] &= ~(1u << (t % 32));
      }
      continue;
    }
    if (empty) std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(vocab.words), 0u);
    empty = false;
    for (size_t i = 0; i < fit; ++i) {
      auto t = static_cast<size_t>(loop.by_chars[i]);
      out[t / 32] |= 1u << (t % 32);
    }
  }
  if (empty) std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(vocab.words), 0u);
  for (int32_t t : mask.extra) out[static_cast<size_t>(t) / 32] |= 1u << (t % 32);
}

}  // namespace bora::text
