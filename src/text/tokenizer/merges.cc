// Merges are most of a file: hundreds of thousands of short strings. They are read by a scanner that knows nothing but
// lists of strings, straight into bytes, and looked up in batches, so that the tables' cache misses overlap.
#include "text/tokenizer/merges.h"

#include <string>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

class Batch {
 public:
  Batch(BpeModel* model, size_t prefix) : model_(model), prefix_(prefix) {}

  // Where the next merge's text goes: left and right end to end.
  std::string* text() {
    std::string* text = &entries_[count_].text;
    text->clear();
    return text;
  }
  Status add(size_t left_bytes) {
    Entry& e = entries_[count_];
    e.left = left_bytes;
    std::string_view text = e.text;
    e.hashes[0] = hash_bytes(text.substr(0, e.left));
    e.hashes[1] = hash_bytes(text.substr(e.left));
    if (prefix_ == 0) e.hashes[2] = hash_bytes(text);
    for (int i = 0; i < hashes(); ++i) model_->vocab().prefetch(e.hashes[i]);
    return ++count_ == kBatch ? flush() : ok_status();
  }

  Status flush() {
    const Vocab& vocab = model_->vocab();
    for (size_t i = 0; i < count_; ++i) {
      for (int k = 0; k < hashes(); ++k) vocab.prefetch_text(entries_[i].hashes[k]);
    }
    for (size_t i = 0; i < count_; ++i) {
      const Entry& e = entries_[i];
      std::string_view text = e.text;
      TokenId left = vocab.find_hashed(text.substr(0, e.left), e.hashes[0]);
      TokenId right = vocab.find_hashed(text.substr(e.left), e.hashes[1]);
      TokenId merged = left < 0 || right < 0 ? -1
                       : prefix_ == 0        ? vocab.find_hashed(text, e.hashes[2])
                                             : model_->merged_id(left, right, &buffer_);
      if (merged < 0) {
        return invalid_argument("merges: \"" + e.text.substr(0, e.left) + "\" + \"" + e.text.substr(e.left) +
                                "\" uses or gives a token that is not in the vocabulary");
      }
      model_->prefetch_merge(left, right);
      found_[i] = {left, right, merged};
    }
    for (size_t i = 0; i < count_; ++i) {
      BORA_TRY(model_->add_merge(found_[i].left, found_[i].right, found_[i].merged));
    }
    count_ = 0;
    return ok_status();
  }

 private:
  static constexpr size_t kBatch = 32;
  struct Entry {
    std::string text;
    size_t left = 0;
    uint64_t hashes[3] = {};
  };
  struct Found {
    TokenId left;
    TokenId right;
    TokenId merged;
  };
  int hashes() const { return prefix_ == 0 ? 3 : 2; }
  BpeModel* model_;
  size_t prefix_;
  Entry entries_[kBatch];
  Found found_[kBatch];
  size_t count_ = 0;
  std::string buffer_;
};

class Reader {
 public:
  Reader(std::string_view json, bool raw) : json_(json), raw_(raw) {}

  bool at_end() const { return pos_ >= json_.size(); }
  size_t pos() const { return pos_; }
  // Skips white space, then takes `c` if it stands there.
  bool take(char c) {
    while (!at_end() && (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t')) ++pos_;
    if (at_end() || peek() != c) return false;
    ++pos_;
    return true;
  }
  // Reads on to the string's end, or with `until_space` past a space that is not the first character. True when that
  // was what ended it. False is a broken string.
  bool string(bool until_space, std::string* out) {
    bool first = true;
    for (; !at_end(); first = false) {
      char c = peek();
      if (c == '"') {
        ++pos_;
        return !until_space;
      }
      if (c == ' ' && until_space && !first) {
        ++pos_;
        return true;
      }
      uint32_t cp = static_cast<uint8_t>(c);
      if (c == '\\') {
        if (!escape(&cp)) return false;
      } else if (cp < 0x20) {
        return false;
      } else {
        cp = utf8_next(json_.data(), &pos_);
      }
      if (!raw_) {
        utf8_append(cp, out);
        continue;
      }
      int byte = alphabet_to_byte(cp);
      if (byte < 0) return false;
      out->push_back(static_cast<char>(byte));
    }
    return false;
  }
  // What stands around `from`, for messages.
  std::string show(size_t from) const { return std::string(json_.substr(from, 60)); }

 private:
  char peek() const { return json_[pos_]; }
  bool hex(uint32_t* unit) {
    if (json_.size() - pos_ < 4) return false;
    *unit = 0;
    for (int i = 0; i < 4; ++i) {
      char c = json_[pos_++];
      int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) return false;
      *unit = *unit * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }
  bool escape(uint32_t* cp) {
    if (json_.size() - pos_ < 2) return false;
    char c = json_[pos_ + 1];
    pos_ += 2;
    if (c == 'u') {
      if (!hex(cp)) return false;
      if (*cp < 0xD800 || *cp > 0xDFFF) return true;
      uint32_t low = 0;
      if (*cp > 0xDBFF || json_.substr(pos_, 2) != "\\u") return false;
      pos_ += 2;
      if (!hex(&low) || low < 0xDC00 || low > 0xDFFF) return false;
      *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
      return true;
    }
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    size_t at = kNames.find(c);
    if (at == std::string_view::npos) return false;
    *cp = static_cast<uint8_t>(kValues[at]);
    return true;
  }
  std::string_view json_;
  bool raw_;
  size_t pos_ = 0;
};

// One element, its text to *out; false when it is none. *left = bytes of the left side.
bool element(Reader* reader, std::string* out, size_t* left) {
  if (reader->take('[')) {
    if (!reader->take('"') || !reader->string(false, out)) return false;
    *left = out->size();
    return reader->take(',') && reader->take('"') && reader->string(false, out) && reader->take(']');
  }
  if (!reader->take('"') || !reader->string(true, out)) return false;
  *left = out->size();
  return reader->string(false, out);
}

}  // namespace

Status add_merges(std::string_view json, bool raw, size_t prefix, BpeModel* model) {
  model->reserve_merges(static_cast<size_t>(model->vocab().size()) * 2);
  Batch batch(model, prefix);
  Reader reader(json, raw);
  if (!reader.take('[')) return invalid_argument("merges: not a list");
  if (!reader.take(']')) {
    do {
      size_t from = reader.pos();
      size_t left = 0;
      if (!element(&reader, batch.text(), &left)) {
        return invalid_argument("merges: not a pair of tokens: " + reader.show(from));
      }
      BORA_TRY(batch.add(left));
    } while (reader.take(','));
    if (!reader.take(']')) return invalid_argument("merges: not a list: " + reader.show(reader.pos()));
  }
  return batch.flush();
}

}  // namespace bora::text
