#include "text/tokenizer/word_models.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"

namespace bora::text {

WordPieceModel::WordPieceModel(Vocab vocab, const std::string& unk_token, std::string prefix, size_t max_chars)
    : vocab_(std::move(vocab)), unk_id_(vocab_.find(unk_token)), prefix_(std::move(prefix)), max_chars_(max_chars) {
  for (TokenId id = 0; id < vocab_.size(); ++id) longest_ = std::max(longest_, vocab_.text(id).size());
}

void WordPieceModel::encode(std::string_view piece, const char*, ModelScratch* scratch,
                            std::vector<TokenId>* ids) const {
  size_t first = ids->size();
  auto unknown = [&] {
    ids->resize(first);
    if (unk_id_ >= 0) ids->push_back(unk_id_);
  };
  if (piece.size() > max_chars_ && utf8_count(piece) > max_chars_) return unknown();
  std::string& buffer = scratch->text;
  for (size_t begin = 0; begin < piece.size();) {
    size_t end = std::min(piece.size(), begin + longest_);
    while (end < piece.size() && (static_cast<uint8_t>(piece[end]) & 0xC0) == 0x80) --end;
    TokenId id = -1;
    buffer.assign(begin > 0 ? prefix_ : std::string_view());
    size_t head = buffer.size();
    buffer.append(piece.substr(begin, end - begin));
    while (end > begin) {
      id = vocab_.find(std::string_view(buffer).substr(0, head + end - begin));
      if (id >= 0) break;
      end = utf8_prev(piece, end);
    }
    if (id < 0) return unknown();
    ids->push_back(id);
    begin = end;
  }
}

void WordLevelModel::encode(std::string_view piece, const char*, ModelScratch*, std::vector<TokenId>* ids) const {
  TokenId id = vocab_.find(piece);
  if (id < 0) id = unk_id_;
  if (id >= 0) ids->push_back(id);
}

}  // namespace bora::text
