// Pre-tokenizers that rewrite text (Metaspace, ByteLevel), sequences, and the JSON entry point.
#include "text/tokenizer/split_patterns.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/pretokenizer_parts.h"
#include "text/tokenizer/split_behavior.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

// Rebuilds a PreText piece by piece, keeping the origin of every byte.
class Rewriter {
 public:
  explicit Rewriter(PreText* t) : t_(t), tracked_(!t->origin.empty()) { text_.reserve(t->text.size() + 16); }

  void begin_piece() { begin_ = static_cast<uint32_t>(text_.size()); }
  void end_piece() { pieces_.push_back({begin_, static_cast<uint32_t>(text_.size())}); }
  // Appends `bytes`, which come from [from, to) of the old text.
  void append(std::string_view bytes, size_t from, size_t to) {
    text_.append(bytes);
    if (tracked_) origin_.resize(text_.size(), {t_->origin[from].first, t_->origin[to - 1].second});
  }
  void finish() {
    t_->text.swap(text_);
    t_->pieces.swap(pieces_);
    t_->origin.swap(origin_);
  }

 private:
  PreText* t_;
  bool tracked_;
  uint32_t begin_ = 0;
  std::string text_;
  std::vector<PreText::Piece> pieces_;
  std::vector<std::pair<uint32_t, uint32_t>> origin_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void apply(PreText* t) const override {
    Rewriter out(t);
    bool first = true;
    for (PreText::Piece piece : t->pieces) {
      bool start = first && t->at_start && piece.begin == 0;
      first = false;
      one(*t, piece, start, &out);
    }
    out.finish();
  }

 private:
  void one(const PreText& t, PreText::Piece piece, bool start, Rewriter* out) const {
    std::string_view text(t.text.data() + piece.begin, piece.end - piece.begin);
    out->begin_piece();
    bool led = text[0] == ' ' || text.substr(0, replacement_.size()) == replacement_;
    bool prepend = !led && (scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && start));
    if (prepend) {
      out->append(replacement_, piece.begin, piece.begin + utf8_length(static_cast<uint8_t>(text[0])));
    }
    // A piece is cut before every replacement but one at its own beginning.
    bool empty = !prepend;
    for (size_t i = 0; i < text.size();) {
      size_t n = text[i] == ' ' ? 1 : text.substr(i, replacement_.size()) == replacement_ ? replacement_.size() : 0;
      if (n > 0) {
        if (split_ && !empty) {
          out->end_piece();
          out->begin_piece();
        }
        out->append(replacement_, piece.begin + i, piece.begin + i + n);
        i += n;
      } else {
        size_t length = utf8_length(static_cast<uint8_t>(text[i]));
        out->append(text.substr(i, length), piece.begin + i, piece.begin + i + length);
        i += length;
      }
      empty = false;
    }
    out->end_piece();
  }
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::unique_ptr<PreTokenizer> splitter)
      : add_prefix_space_(add_prefix_space), splitter_(std::move(splitter)) {}

  void apply(PreText* t) const override {
    if (add_prefix_space_) add_spaces(t);
    if (splitter_) splitter_->apply(t);
    Rewriter out(t);
    std::string alphabet;
    for (PreText::Piece piece : t->pieces) {
      out.begin_piece();
      for (uint32_t i = piece.begin; i < piece.end; ++i) {
        alphabet.clear();
        append_alphabet({t->text.data() + i, 1}, &alphabet);
        out.append(alphabet, i, i + 1);
      }
      out.end_piece();
    }
    out.finish();
  }

 private:
  static void add_spaces(PreText* t) {
    Rewriter out(t);
    for (PreText::Piece piece : t->pieces) {
      out.begin_piece();
      size_t first = utf8_length(static_cast<uint8_t>(t->text[piece.begin]));
      if (t->text[piece.begin] != ' ') out.append(" ", piece.begin, piece.begin + first);
      for (size_t i = piece.begin; i < piece.end;) {
        size_t length = utf8_length(static_cast<uint8_t>(t->text[i]));
        out.append({t->text.data() + i, length}, i, i + length);
        i += length;
      }
      out.end_piece();
    }
    out.finish();
  }
  bool add_prefix_space_;
  std::unique_ptr<PreTokenizer> splitter_;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> items) : items_(std::move(items)) {}
  void apply(PreText* t) const override {
    for (const auto& item : items_) item->apply(t);
  }
  bool scan_stages(std::vector<ScanStage>* stages) const override {
    for (const auto& item : items_) {
      if (!item->scan_stages(stages)) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> items_;
};

PreTokenizerResult metaspace_from(const Json& spec) {
  BORA_ASSIGN(std::string replacement, string_field(spec, "replacement"));
  if (utf8_count(replacement) != 1) return wrong_field("replacement", "one character");
  BORA_ASSIGN(bool split, bool_field(spec, "split", true));
  BORA_ASSIGN(auto scheme, optional_string_field(spec, "prepend_scheme"));
  BORA_ASSIGN(bool old_prefix, bool_field(spec, "add_prefix_space", true));
  PrependScheme value = old_prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  if (scheme == "first") {
    value = PrependScheme::kFirst;
  } else if (scheme == "never") {
    value = PrependScheme::kNever;
  } else if (scheme && scheme != "always") {
    return unimplemented("prepend_scheme \"" + *scheme + "\" is not known");
  } else if (scheme) {
    value = PrependScheme::kAlways;
  }
  return make_metaspace(std::move(replacement), value, split);
}

PreTokenizerResult byte_level_from(const Json& spec, ByteLevelTail* tail) {
  BORA_ASSIGN(bool prefix, bool_field(spec, "add_prefix_space", true));
  BORA_ASSIGN(bool use_regex, bool_field(spec, "use_regex", true));
  std::unique_ptr<PreTokenizer> splitter;
  if (use_regex) {
    BORA_ASSIGN(splitter, make_regex_split(kGpt2Pattern));
  }
  if (tail) {
    *tail = {true, prefix};
    return splitter;
  }
  return std::unique_ptr<PreTokenizer>(std::make_unique<ByteLevel>(prefix, std::move(splitter)));
}

PreTokenizerResult from(const Json& spec, ByteLevelTail* tail, int depth);

PreTokenizerResult sequence_from(const Json& spec, ByteLevelTail* tail, int depth) {
  BORA_ASSIGN(const Json* list, array_field(spec, "pretokenizers"));
  std::vector<std::unique_ptr<PreTokenizer>> items;
  for (size_t i = 0; i < list->size(); ++i) {
    // A prefix space is added to every piece of the stages before, so it can be left to the tail only when there are
    // none.
    const Json& spec_i = list->items()[i];
    const Json* prefix = spec_i.find("add_prefix_space");
    bool plain = prefix && prefix->is_bool() && !prefix->as_bool();
    bool to_tail = i + 1 == list->size() && (i == 0 || plain);
    BORA_ASSIGN(auto item, from(spec_i, to_tail ? tail : nullptr, depth + 1));
    if (item) items.push_back(std::move(item));
  }
  if (items.empty()) return std::unique_ptr<PreTokenizer>();
  return make_pre_sequence(std::move(items));
}

PreTokenizerResult from(const Json& spec, ByteLevelTail* tail, int depth) {
  if (spec.is_null()) return std::unique_ptr<PreTokenizer>();
  if (depth > 16) return invalid_argument("pre-tokenizers nested too deeply");
  BORA_ASSIGN(std::string type, string_field(spec, "type"));
  if (type == "Sequence") return sequence_from(spec, tail, depth);
  if (type == "ByteLevel") return byte_level_from(spec, tail);
  if (type == "Split") return split_from(spec);
  if (type == "Digits") return digits_from(spec);
  if (type == "Metaspace") return metaspace_from(spec);
  if (type == "Whitespace") return make_word_split();
  if (type == "WhitespaceSplit") return make_white_space_split();
  if (type == "Punctuation") return punctuation_from(spec);
  if (type == "BertPreTokenizer") return make_bert_split();
  if (type == "UnicodeScripts") return make_script_split();
  if (type == "CharDelimiterSplit") return char_delimiter_from(spec);
  if (type == "FixedLength") return fixed_length_from(spec);
  return unimplemented("pre-tokenizer \"" + type + "\" is not known");
}

}  // namespace

PreTokenizerResult pretokenizer_from_json(const Json& spec, ByteLevelTail* tail) { return from(spec, tail, 0); }

std::unique_ptr<PreTokenizer> make_pre_sequence(std::vector<std::unique_ptr<PreTokenizer>> items) {
  return std::make_unique<Sequence>(std::move(items));
}
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

}  // namespace bora::text
