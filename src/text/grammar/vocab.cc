// Builds the tries and the loop contexts of a vocabulary.
#include "text/grammar/vocab.h"

#include <algorithm>

namespace bora::text {
namespace {

void set_bit(std::vector<uint32_t>* mask, int32_t id) { (*mask)[static_cast<size_t>(id) / 32] |= 1u << (id % 32); }

void build_string_loop(const GrammarVocab& vocab, int start, LoopTokens* out) {
  out->inside.assign(vocab.words, 0);
  std::vector<TokenTrie::Entry> leaving;
  std::vector<std::pair<uint32_t, int32_t>> counted;
  for (size_t id = 0; id < vocab.bytes.size(); ++id) {
    std::string_view bytes = vocab.bytes[id];
    if (bytes.empty()) continue;
    int state = start;
    uint32_t chars = 0;
    size_t pos = 0;
    for (; pos < bytes.size(); ++pos) {
      int next = kStringTable[static_cast<size_t>(state)][static_cast<uint8_t>(bytes[pos])];
      if (next < 0) {
        if (next == kStringExit) leaving.push_back({bytes.substr(pos), {static_cast<int32_t>(id), chars}});
        state = -1;
        break;
      }
      state = next;
      chars += state == kStringHome ? 1 : 0;
    }
    if (state < 0) continue;
    set_bit(&out->inside, static_cast<int32_t>(id));
    counted.emplace_back(chars + (state == kStringHome ? 0 : 1), static_cast<int32_t>(id));
  }
  std::sort(counted.begin(), counted.end());
  for (auto [chars, id] : counted) {
    while (out->chars_start.size() <= chars) out->chars_start.push_back(static_cast<uint32_t>(out->by_chars.size()));
    out->by_chars.push_back(id);
  }
  out->chars_start.push_back(static_cast<uint32_t>(out->by_chars.size()));
  out->max_chars = counted.empty() ? 0 : counted.back().first;
  for (const TokenTrie::Entry& e : leaving) out->max_chars = std::max(out->max_chars, e.token.chars);
  while (out->chars_start.size() < out->max_chars + 2u) out->chars_start.push_back(out->chars_start.back());
  out->leaving.build(std::move(leaving));
}

void build_ws_loop(GrammarVocab* vocab) {
  LoopTokens& out = vocab->ws;
  out.inside.assign(vocab->words, 0);
  vocab->ws_start.assign(vocab->words, 0);
  std::vector<TokenTrie::Entry> leaving;
  for (size_t id = 0; id < vocab->bytes.size(); ++id) {
    std::string_view bytes = vocab->bytes[id];
    size_t pos = 0;
    while (pos < bytes.size() && is_json_ws(static_cast<uint8_t>(bytes[pos]))) ++pos;
    if (pos == 0) continue;
    set_bit(&vocab->ws_start, static_cast<int32_t>(id));
    if (pos == bytes.size()) {
      set_bit(&out.inside, static_cast<int32_t>(id));
    } else {
      leaving.push_back({bytes.substr(pos), {static_cast<int32_t>(id), 0}});
    }
  }
  out.leaving.build(std::move(leaving));
}

}  // namespace

void TokenTrie::build(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.bytes < b.bytes; });
  nodes_.clear();
  tokens_.clear();
  std::vector<uint32_t> path;  // nodes from the root to the last entry
  std::string_view last;
  for (const Entry& e : entries) {
    size_t common = 0;
    while (common < last.size() && common < e.bytes.size() && last[common] == e.bytes[common]) ++common;
    while (path.size() > common) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t i = common; i < e.bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), kNoBytes, static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(e.bytes[i]), false});
    }
    tokens_.push_back(e.token);
    last = e.bytes;
  }
  for (uint32_t open : path) nodes_[open].end = static_cast<uint32_t>(nodes_.size());
  const auto last_end = static_cast<uint32_t>(nodes_.size() + 1);
  nodes_.push_back({last_end, static_cast<uint32_t>(tokens_.size()), kNoBytes, 0, 0, false});
  list_bytes();
  mark_in_string();
}

void TokenTrie::list_bytes() {
  using Bytes = std::array<uint64_t, 4>;
  std::vector<Bytes> sets(nodes_.size(), Bytes{});
  byte_lists_.clear();
  list_starts_.assign(1, 0);
  for (size_t i = count(); i-- > 0;) {
    Bytes& mine = sets[i];
    for (size_t child = i + 1; child < nodes_[i].end; child = nodes_[child].end) {
      for (size_t w = 0; w < 4; ++w) mine[w] |= sets[child][w];
      mine[nodes_[child].byte / 64] |= uint64_t{1} << (nodes_[child].byte % 64);
    }
    if (nodes_[i].end - i - 1 < kWideNodes) continue;
    nodes_[i].below = static_cast<uint32_t>(list_starts_.size() - 1);
    for (auto [from, to] :
         {std::pair{128, 256}, std::pair{0, 48}, std::pair{91, 97}, std::pair{48, 91}, std::pair{97, 128}}) {
      for (int b = from; b < to; ++b) {
        if ((mine[static_cast<size_t>(b) / 64] >> (b % 64) & 1) != 0) byte_lists_.push_back(static_cast<uint8_t>(b));
      }
    }
    list_starts_.push_back(static_cast<uint32_t>(byte_lists_.size()));
  }
}

// Backwards: bit s of a node says that no text below leaves a string whose state at the node is s.
void TokenTrie::mark_in_string() {
  std::vector<uint32_t> stays(nodes_.size(), (1u << kStringStates) - 1);
  for (size_t i = count(); i-- > 0;) {
    for (size_t child = i + 1; child < nodes_[i].end; child = nodes_[child].end) {
      for (size_t s = 0; s < kStringStates; ++s) {
        const int next = kStringTable[s][nodes_[child].byte];
        if (next < 0 || (stays[child] >> next & 1) == 0) stays[i] &= ~(1u << s);
      }
    }
    nodes_[i].in_string = (stays[i] >> kStringHome & 1) != 0;
  }
}

bool GrammarVocab::is_end(int32_t id) const { return std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end(); }

Result<std::shared_ptr<const GrammarVocab>> make_grammar_vocab(const VocabView& view) {
  if (view.token_bytes.size() > (1u << 26)) return invalid_argument("vocabulary has too many tokens");
  auto vocab = std::make_shared<GrammarVocab>();
  vocab->bytes.assign(view.token_bytes.begin(), view.token_bytes.end());
  vocab->words = (vocab->bytes.size() + 31) / 32;
  for (int32_t id : view.end_ids) {
    if (id < 0 || static_cast<size_t>(id) >= vocab->bytes.size())
      return invalid_argument("end id outside the vocabulary");
    vocab->end_ids.push_back(id);
    vocab->bytes[static_cast<size_t>(id)] = {};
  }
  std::vector<TokenTrie::Entry> entries;
  for (size_t id = 0; id < vocab->bytes.size(); ++id) {
    if (vocab->bytes[id].size() > GrammarVocab::kMaxTokenBytes) vocab->bytes[id] = {};
    if (!vocab->bytes[id].empty()) entries.push_back({vocab->bytes[id], {static_cast<int32_t>(id), 0}});
  }
  vocab->trie.build(std::move(entries));
  for (int s = 0; s < kStringStates; ++s) build_string_loop(*vocab, s, &vocab->string[static_cast<size_t>(s)]);
  build_ws_loop(vocab.get());
  return std::shared_ptr<const GrammarVocab>(std::move(vocab));
}

}  // namespace bora::text
