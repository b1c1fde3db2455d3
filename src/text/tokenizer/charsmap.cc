// The precompiled character map of SentencePiece: a double-array trie from byte strings to offsets into a block of
// NUL-terminated replacements. Blob: u32 size of the trie in bytes, trie units (u32), replacements.
#include <utf8proc.h>

#include <cstring>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

class Charsmap final : public Normalizer {
 public:
  Charsmap(std::vector<uint32_t> trie, std::string replacements, bool longest)
      : trie_(std::move(trie)), replacements_(std::move(replacements)), longest_(longest) {}

  bool apply(std::string_view text, std::string* out) const override {
    out->clear();
    if (longest_) {
      apply_longest(text, out);
    } else {
      apply_graphemes(text, out);
    }
    return *out != text;
  }

 private:
  // Value and length of a prefix of `text` that the trie holds; length 0 when none. Out-of-range offsets end the
  // walk.
  struct Match {
    size_t length = 0;
    uint32_t value = 0;
  };
  Match match(std::string_view text, bool longest) const {
    Match best;
    if (trie_.empty()) return best;
    size_t node = offset(trie_[0]);
    for (size_t i = 0; i < text.size(); ++i) {
      auto label = static_cast<uint8_t>(text[i]);
      node ^= label;
      if (label == 0 || node >= trie_.size()) return best;
      uint32_t unit = trie_[node];
      if ((unit & 0x800000FFu) != label) return best;
      node ^= offset(unit);
      if (unit >> 8 & 1) {
        if (node >= trie_.size()) return best;
        best = {i + 1, trie_[node] & 0x7FFFFFFFu};
        if (!longest) return best;
      }
    }
    return best;
  }
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 0x200u) >> 6); }

  std::string_view replacement(uint32_t value) const {
    if (value >= replacements_.size()) return {};
    return {replacements_.data() + value, strnlen(replacements_.data() + value, replacements_.size() - value)};
  }

  void apply_longest(std::string_view text, std::string* out) const {
    size_t pos = 0;
    while (pos < text.size()) {
      Match m = match(text.substr(pos), true);
      if (m.length > 0) {
        out->append(replacement(m.value));
        pos += m.length;
      } else {
        size_t next = pos + utf8_length(static_cast<uint8_t>(text[pos]));
        out->append(text.substr(pos, next - pos));
        pos = next;
      }
    }
  }

  void apply_graphemes(std::string_view text, std::string* out) const {
    size_t begin = 0;
    while (begin < text.size()) {
      size_t end = begin;
      uint32_t last = utf8_next(text.data(), &end);
      utf8proc_int32_t state = 0;
      while (end < text.size()) {
        size_t next = end;
        uint32_t cp = utf8_next(text.data(), &next);
        if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(cp),
                                             &state)) {
          break;
        }
        last = cp;
        end = next;
      }
      one_grapheme(text.substr(begin, end - begin), out);
      begin = end;
    }
  }

  void one_grapheme(std::string_view grapheme, std::string* out) const {
    if (grapheme.size() < 6) {
      Match m = match(grapheme, false);
      if (m.length > 0) {
        out->append(replacement(m.value));
        return;
      }
    }
    size_t pos = 0;
    while (pos < grapheme.size()) {
      std::string_view one = grapheme.substr(pos, utf8_length(static_cast<uint8_t>(grapheme[pos])));
      Match m = match(one, false);
      out->append(m.length > 0 ? replacement(m.value) : one);
      pos += one.size();
    }
  }

  std::vector<uint32_t> trie_;
  std::string replacements_;
  bool longest_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> make_charsmap(std::string blob, bool longest) {
  uint32_t size = 0;
  if (blob.size() < 4) return data_loss("precompiled_charsmap: shorter than its header");
  std::memcpy(&size, blob.data(), 4);
  if (size % 4 != 0 || size > blob.size() - 4)
    return data_loss("precompiled_charsmap: size of the trie does not fit the blob");
  std::vector<uint32_t> trie(size / 4);
  if (size > 0) std::memcpy(trie.data(), blob.data() + 4, size);
  return std::unique_ptr<Normalizer>(std::make_unique<Charsmap>(std::move(trie), blob.substr(4 + size), longest));
}

bool decode_base64(std::string_view text, std::string* out) {
  out->clear();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    int v = c >= 'A' && c <= 'Z'   ? c - 'A'
            : c >= 'a' && c <= 'z' ? c - 'a' + 26
            : c >= '0' && c <= '9' ? c - '0' + 52
            : c == '+'             ? 62
            : c == '/'             ? 63
                                   : -1;
    if (v < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(v);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out->push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return true;
}

}  // namespace bora::text
