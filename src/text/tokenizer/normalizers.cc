// The simple normalizers and their JSON forms.
#include <array>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

// Maps every code point on its own. `Map` = void(uint32_t cp, std::string* out).
template <typename Map>
class PerCharacter final : public Normalizer {
 public:
  explicit PerCharacter(Map map) : map_(map) {}
  bool apply(std::string_view text, std::string* out) const override {
    out->clear();
    size_t pos = 0;
    while (pos < text.size()) map_(utf8_next(text.data(), &pos), out);
    return *out != text;
  }

 private:
  Map map_;
};
template <typename Map>
std::unique_ptr<Normalizer> per_character(Map map) {
  return std::make_unique<PerCharacter<Map>>(map);
}

void strip_mark(uint32_t cp, std::string* out) {
  if (!is_combining_mark(cp)) utf8_append(cp, out);
}

void nmt_map(uint32_t cp, std::string* out) {
  bool dropped =
      (cp >= 0x1 && cp <= 0x8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F || cp == 0x8F || cp == 0x9F;
  bool space = cp == 0x9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 || (cp >= 0x200B && cp <= 0x200F) ||
               cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
  if (space) {
    out->push_back(' ');
  } else if (!dropped) {
    utf8_append(cp, out);
  }
}

void alphabet_map(uint32_t cp, std::string* out) {
  std::string bytes;
  utf8_append(cp, &bytes);
  append_alphabet(bytes, out);
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string_view text, std::string* out) const override {
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!is_white_space(utf8_next(text.data(), &next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      size_t start = utf8_prev(text, end);
      size_t at = start;
      if (!is_white_space(utf8_next(text.data(), &at))) break;
      end = start;
    }
    if (begin == 0 && end == text.size()) return false;
    out->assign(text.substr(begin, end - begin));
    return true;
  }

 private:
  bool left_;
  bool right_;
};

class ReplaceString final : public Normalizer {
 public:
  ReplaceString(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool apply(std::string_view text, std::string* out) const override {
    if (pattern_.empty()) return false;
    size_t at = text.find(pattern_);
    if (at == std::string_view::npos) return false;
    out->clear();
    size_t copied = 0;
    for (; at != std::string_view::npos; at = text.find(pattern_, copied)) {
      out->append(text.substr(copied, at - copied));
      out->append(content_);
      copied = at + pattern_.size();
    }
    out->append(text.substr(copied));
    return true;
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceRegex final : public Normalizer {
 public:
  ReplaceRegex(std::unique_ptr<Regex> regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  bool apply(std::string_view text, std::string* out) const override {
    if (text.empty()) return false;
    out->clear();
    size_t copied = 0;
    regex_->for_each(text, [&](size_t begin, size_t end) {
      out->append(text.substr(copied, begin - copied));
      out->append(content_);
      copied = end;
    });
    out->append(text.substr(copied));
    return *out != text;
  }

 private:
  std::unique_ptr<Regex> regex_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  bool apply(std::string_view text, std::string* out) const override {
    if (text.empty() || text_.empty()) return false;
    out->assign(text_);
    out->append(text);
    return true;
  }

 private:
  std::string text_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> items) : items_(std::move(items)) {}
  bool apply(std::string_view text, std::string* out) const override {
    std::string current;
    bool changed = false;
    for (const auto& item : items_) {
      if (!item->apply(changed ? std::string_view(current) : text, out)) continue;
      current.swap(*out);
      changed = true;
    }
    if (changed) out->swap(current);
    return changed;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> items_;
};

class Bert final : public Normalizer {
 public:
  explicit Bert(const BertOptions& options) : options_(options), nfd_(make_unicode_form(NormForm::kNfd)) {}
  bool apply(std::string_view text, std::string* out) const override {
    out->clear();
    first_pass(text, out);
    std::string other;
    if (options_.strip_accents) {
      if (nfd_->apply(*out, &other)) out->swap(other);
      if (!only_ascii(*out)) {
        other.clear();
        size_t pos = 0;
        while (pos < out->size()) {
          uint32_t cp = utf8_next(out->data(), &pos);
          if (!is_bert_mark(cp)) utf8_append(cp, &other);
        }
        out->swap(other);
      }
    }
    if (options_.lowercase) {
      other.clear();
      size_t pos = 0;
      while (pos < out->size()) append_lower(utf8_next(out->data(), &pos), &other);
      out->swap(other);
    }
    return *out != text;
  }

 private:
  static bool only_ascii(std::string_view text) {
    for (char c : text) {
      if (static_cast<uint8_t>(c) >= 0x80) return false;
    }
    return true;
  }
  void first_pass(std::string_view text, std::string* out) const {
    size_t pos = 0;
    while (pos < text.size()) {
      uint32_t cp = utf8_next(text.data(), &pos);
      if (cp > ' ' && cp < 0x7F) {
        out->push_back(static_cast<char>(cp));
        continue;
      }
      if (options_.clean_text) {
        if (is_bert_control(cp) || cp == 0) continue;
        if (is_white_space(cp)) cp = ' ';
      }
      bool apart = options_.handle_chinese_chars && is_cjk_ideograph(cp);
      if (apart) out->push_back(' ');
      utf8_append(cp, out);
      if (apart) out->push_back(' ');
    }
  }
  BertOptions options_;
  std::unique_ptr<Normalizer> nfd_;
};

class SqueezeSpaces final : public Normalizer {
 public:
  bool apply(std::string_view text, std::string* out) const override {
    out->clear();
    for (char c : text) {
      if (c == ' ' && (out->empty() || out->back() == ' ')) continue;
      out->push_back(c);
    }
    while (!out->empty() && out->back() == ' ') out->pop_back();
    return *out != text;
  }
};

using NormalizerResult = Result<std::unique_ptr<Normalizer>>;

NormalizerResult sequence_from(const Json& spec, int depth);

NormalizerResult replace_from(const Json& spec) {
  BORA_ASSIGN(PatternSpec pattern, pattern_field(spec, "pattern"));
  BORA_ASSIGN(std::string content, string_field(spec, "content"));
  if (!pattern.is_regex) return make_replace_string(std::move(pattern.text), std::move(content));
  BORA_ASSIGN(auto regex, Regex::compile(pattern.text));
  return std::unique_ptr<Normalizer>(std::make_unique<ReplaceRegex>(std::move(regex), std::move(content)));
}

NormalizerResult bert_from(const Json& spec) {
  BertOptions o;
  BORA_ASSIGN(o.clean_text, bool_field(spec, "clean_text", true));
  BORA_ASSIGN(o.handle_chinese_chars, bool_field(spec, "handle_chinese_chars", true));
  BORA_ASSIGN(o.lowercase, bool_field(spec, "lowercase", true));
  BORA_ASSIGN(o.strip_accents, bool_field(spec, "strip_accents", o.lowercase));
  return make_bert(o);
}

NormalizerResult strip_from(const Json& spec) {
  BORA_ASSIGN(bool left, bool_field(spec, "strip_left", std::nullopt));
  BORA_ASSIGN(bool right, bool_field(spec, "strip_right", std::nullopt));
  return std::unique_ptr<Normalizer>(std::make_unique<Strip>(left, right));
}

NormalizerResult precompiled_from(const Json& spec) {
  BORA_ASSIGN(std::string text, string_field(spec, "precompiled_charsmap"));
  std::string blob;
  if (!decode_base64(text, &blob)) return data_loss("precompiled_charsmap: not base64");
  return make_charsmap(std::move(blob), false);
}

NormalizerResult from(const Json& spec, int depth) {
  if (spec.is_null()) return std::unique_ptr<Normalizer>();
  if (depth > 16) return invalid_argument("normalizers nested too deeply");
  BORA_ASSIGN(std::string type, string_field(spec, "type"));
  if (type == "NFC") return make_unicode_form(NormForm::kNfc);
  if (type == "NFD") return make_unicode_form(NormForm::kNfd);
  if (type == "NFKC") return make_unicode_form(NormForm::kNfkc);
  if (type == "NFKD") return make_unicode_form(NormForm::kNfkd);
  if (type == "Lowercase") return per_character(append_lower);
  if (type == "StripAccents") return per_character(strip_mark);
  if (type == "Nmt") return per_character(nmt_map);
  if (type == "ByteLevel") return per_character(alphabet_map);
  if (type == "Strip") return strip_from(spec);
  if (type == "Replace") return replace_from(spec);
  if (type == "BertNormalizer") return bert_from(spec);
  if (type == "Precompiled") return precompiled_from(spec);
  if (type == "Sequence") return sequence_from(spec, depth);
  if (type == "Prepend") {
    BORA_ASSIGN(std::string text, string_field(spec, "prepend"));
    return make_prepend(std::move(text));
  }
  return unimplemented("normalizer \"" + type + "\" is not known");
}

NormalizerResult sequence_from(const Json& spec, int depth) {
  BORA_ASSIGN(const Json* list, array_field(spec, "normalizers"));
  std::vector<std::unique_ptr<Normalizer>> items;
  for (const Json& item : list->items()) {
    BORA_ASSIGN(auto normalizer, from(item, depth + 1));
    if (normalizer) items.push_back(std::move(normalizer));
  }
  if (items.empty()) return std::unique_ptr<Normalizer>();
  return make_sequence(std::move(items));
}

}  // namespace

NormalizerResult normalizer_from_json(const Json& spec) { return from(spec, 0); }

std::unique_ptr<Normalizer> make_replace_string(std::string pattern, std::string content) {
  return std::make_unique<ReplaceString>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> make_prepend(std::string text) { return std::make_unique<Prepend>(std::move(text)); }
std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>> items) {
  return std::make_unique<Sequence>(std::move(items));
}
std::unique_ptr<Normalizer> make_bert(const BertOptions& options) { return std::make_unique<Bert>(options); }
std::unique_ptr<Normalizer> make_squeeze_spaces() { return std::make_unique<SqueezeSpaces>(); }

}  // namespace bora::text
