#include "text/tokenizer/unigram.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr double kUnkPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(Vocab vocab, std::vector<double> scores, const std::vector<bool>& matched,
                           UnigramConfig config)
    : vocab_(std::move(vocab)), scores_(std::move(scores)), config_(config) {
  double lowest = 0;
  bool any = false;
  std::vector<std::pair<std::string_view, TokenId>> keys;
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view text = vocab_.text(id);
    if (!vocab_.has(id)) continue;
    lowest = any ? std::min(lowest, scores_[id]) : scores_[id];
    any = true;
    if (!text.empty() && matched[id] && vocab_.find(text) == id) keys.emplace_back(text, id);
  }
  unk_score_ = lowest - kUnkPenalty;
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    const char name[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
    byte_ids_[b] = vocab_.find({name, 6});
  }
  std::sort(keys.begin(), keys.end());
  // Level by level: a node is a range of sorted keys that share a prefix of `depth` bytes.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> ranges = {{0, keys.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && keys[begin].first.size() == depth) nodes_[node].id = keys[begin++].second;
    nodes_[node].first_edge = static_cast<uint32_t>(labels_.size());
    while (begin < end) {
      char label = keys[begin].first[depth];
      size_t stop = begin;
      while (stop < end && keys[stop].first[depth] == label) ++stop;
      labels_.push_back(static_cast<uint8_t>(label));
      targets_.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.emplace_back();
      ranges.push_back({begin, stop, depth + 1});
      begin = stop;
    }
    nodes_[node].edge_count = static_cast<uint32_t>(labels_.size()) - nodes_[node].first_edge;
  }
}

uint32_t UnigramModel::child(uint32_t node, uint8_t label) const {
  const Node& n = nodes_[node];
  const uint8_t* first = labels_.data() + n.first_edge;
  const uint8_t* last = first + n.edge_count;
  const uint8_t* it = std::lower_bound(first, last, label);
  return it != last && *it == label ? targets_[it - labels_.data()] : 0;
}

void UnigramModel::encode(std::string_view piece, const char*, ModelScratch* scratch,
                          std::vector<TokenId>* ids) const {
  // scores[i], starts[i] and symbols[i]: the best segmentation that ends at byte i.
  constexpr uint32_t kNone = UINT32_MAX;
  size_t size = piece.size();
  scratch->scores.assign(size + 1, 0);
  scratch->starts.assign(size + 1, kNone);
  scratch->symbols.assign(size + 1, 0);
  auto offer = [&](size_t start, size_t end, TokenId id, double score) {
    double total = score + scratch->scores[start];
    if (scratch->starts[end] != kNone && !(total > scratch->scores[end])) return;
    scratch->scores[end] = total;
    scratch->starts[end] = static_cast<uint32_t>(start);
    scratch->symbols[end] = id;
  };
  for (size_t start = 0; start < size;) {
    size_t length = utf8_length(static_cast<uint8_t>(piece[start]));
    bool has_single = false;
    uint32_t node = 0;
    for (size_t end = start; end < size;) {
      node = child(node, static_cast<uint8_t>(piece[end++]));
      if (node == 0) break;
      TokenId id = nodes_[node].id;
      if (id < 0) continue;
      offer(start, end, id, scores_[id]);
      has_single = has_single || end - start == length;
    }
    if (!has_single) offer(start, start + length, config_.unk_id, unk_score_);
    start += length;
  }
  // Walk back; neighbouring unknown pieces are one.
  std::vector<uint32_t>& cuts = scratch->offsets;
  cuts.clear();
  bool in_unk = false;
  for (size_t end = size; end > 0; end = scratch->starts[end]) {
    bool unk = config_.fuse_unk && config_.unk_id >= 0 && scratch->symbols[end] == config_.unk_id;
    if (!(unk && in_unk)) cuts.push_back(static_cast<uint32_t>(end));
    in_unk = unk;
  }
  size_t begin = 0;
  for (size_t i = cuts.size(); i-- > 0;) {
    emit(piece.substr(begin, cuts[i] - begin), ids);
    begin = cuts[i];
  }
}

void UnigramModel::emit(std::string_view text, std::vector<TokenId>* ids) const {
  TokenId id = vocab_.find(text);
  if (id >= 0) {
    ids->push_back(id);
    return;
  }
  if (config_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; })) {
    for (char c : text) ids->push_back(byte_ids_[static_cast<uint8_t>(c)]);
    return;
  }
  if (config_.unk_id >= 0) ids->push_back(config_.unk_id);
}

}  // namespace bora::text
