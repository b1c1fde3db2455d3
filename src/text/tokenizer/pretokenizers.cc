// The pre-tokenizers that only split.
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/pretokenizer_parts.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/split_behavior.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {

void PreText::reset(bool start) {
  pieces.clear();
  origin.clear();
  at_start = start;
  if (!text.empty()) pieces.push_back({0, static_cast<uint32_t>(text.size())});
}

namespace {

// Splits by single characters: each one that fits is a match of its own.
class CharSplit final : public SplitPreTokenizer {
 public:
  CharSplit(bool (*fits)(uint32_t), SplitBehavior behavior) : SplitPreTokenizer(behavior, false), fits_(fits) {}
  bool scan_stages(std::vector<ScanStage>* stages) const override {
    if (fits_ != is_numeric || behavior_ != SplitBehavior::kIsolated) return false;
    stages->push_back({true, {}});
    return true;
  }

 protected:
  void find(const PreText& t, PreText::Piece piece, std::vector<Span>* spans) const override {
    size_t pos = piece.begin;
    uint32_t plain = piece.begin;
    while (pos < piece.end) {
      auto at = static_cast<uint32_t>(pos);
      uint32_t cp = utf8_next(t.text.data(), &pos);
      if (!fits_(cp)) continue;
      if (at > plain) spans->push_back({plain, at, false});
      spans->push_back({at, static_cast<uint32_t>(pos), true});
      plain = static_cast<uint32_t>(pos);
    }
    if (plain < piece.end) spans->push_back({plain, piece.end, false});
  }

 private:
  bool (*fits_)(uint32_t);
};

class StringSplit final : public SplitPreTokenizer {
 public:
  StringSplit(std::string pattern, SplitBehavior behavior, bool invert)
      : SplitPreTokenizer(behavior, invert), pattern_(std::move(pattern)) {}

 protected:
  void find(const PreText& t, PreText::Piece piece, std::vector<Span>* spans) const override {
    std::string_view text(t.text.data() + piece.begin, piece.end - piece.begin);
    size_t plain = 0;
    auto push = [&](size_t begin, size_t end, bool match) {
      spans->push_back({static_cast<uint32_t>(piece.begin + begin), static_cast<uint32_t>(piece.begin + end), match});
    };
    if (!pattern_.empty()) {
      for (size_t at; (at = text.find(pattern_, plain)) != std::string_view::npos; plain = at + pattern_.size()) {
        if (at > plain) push(plain, at, false);
        push(at, at + pattern_.size(), true);
      }
    }
    if (plain < text.size()) push(plain, text.size(), false);
  }

 private:
  std::string pattern_;
};

class RegexSplit final : public SplitPreTokenizer {
 public:
  RegexSplit(std::unique_ptr<Regex> regex, std::string pattern, SplitBehavior behavior, bool invert)
      : SplitPreTokenizer(behavior, invert), regex_(std::move(regex)), pattern_(std::move(pattern)) {}
  bool scan_stages(std::vector<ScanStage>* stages) const override {
    if (behavior_ != SplitBehavior::kIsolated || invert_) return false;
    stages->push_back({false, pattern_});
    return true;
  }

 protected:
  void find(const PreText& t, PreText::Piece piece, std::vector<Span>* spans) const override {
    std::string_view text(t.text.data() + piece.begin, piece.end - piece.begin);
    size_t plain = 0;
    auto push = [&](size_t begin, size_t end, bool match) {
      spans->push_back({static_cast<uint32_t>(piece.begin + begin), static_cast<uint32_t>(piece.begin + end), match});
    };
    regex_->for_each(text, [&](size_t begin, size_t end) {
      if (begin != plain) push(plain, begin, false);
      push(begin, end, true);
      plain = end;
    });
    if (plain < text.size()) push(plain, text.size(), false);
  }

 private:
  std::unique_ptr<Regex> regex_;
  std::string pattern_;
};

// A known pattern: the pieces come from a scanner.
class ScannerSplit final : public PreTokenizer {
 public:
  ScannerSplit(std::unique_ptr<Scanner> scanner, std::string pattern)
      : scanner_(std::move(scanner)), pattern_(std::move(pattern)) {}
  void apply(PreText* t) const override {
    std::vector<PreText::Piece> result;
    uint32_t ends[256];
    for (PreText::Piece piece : t->pieces) {
      uint32_t begin = piece.begin;
      while (begin < piece.end) {
        size_t n = scanner_->scan(t->text.data(), begin, piece.end, ends, 256);
        for (size_t i = 0; i < n; ++i) {
          result.push_back({begin, ends[i]});
          begin = ends[i];
        }
      }
    }
    t->pieces = std::move(result);
  }
  bool scan_stages(std::vector<ScanStage>* stages) const override {
    stages->push_back({false, pattern_});
    return true;
  }

 private:
  std::unique_ptr<Scanner> scanner_;
  std::string pattern_;
};

// \w+ | [^\w\s]+
class WordSplit final : public SplitPreTokenizer {
 public:
  WordSplit() : SplitPreTokenizer(SplitBehavior::kRemoved, false) {}

 protected:
  void find(const PreText& t, PreText::Piece piece, std::vector<Span>* spans) const override {
    int previous = -1;
    size_t pos = piece.begin;
    while (pos < piece.end) {
      auto at = static_cast<uint32_t>(pos);
      uint32_t cp = utf8_next(t.text.data(), &pos);
      int kind = is_word_char(cp) ? 0 : is_white_space(cp) ? 1 : 2;
      if (kind == previous) {
        spans->back().end = static_cast<uint32_t>(pos);
      } else {
        spans->push_back({at, static_cast<uint32_t>(pos), kind == 1});
      }
      previous = kind;
    }
  }
};

class ScriptSplit final : public PreTokenizer {
 public:
  void apply(PreText* t) const override {
    std::vector<PreText::Piece> result;
    for (PreText::Piece piece : t->pieces) {
      int last = -1;
      uint32_t begin = piece.begin;
      size_t pos = piece.begin;
      while (pos < piece.end) {
        auto at = static_cast<uint32_t>(pos);
        int script = script_of(utf8_next(t->text.data(), &pos));
        if (script == 0) continue;
        if (last >= 0 && script != last) result.push_back({begin, at});
        if (script != last) begin = at;  // what stands before the first script is dropped, as in the reference
        last = script;
      }
      if (last >= 0) result.push_back({begin, piece.end});
    }
    t->pieces = std::move(result);
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void apply(PreText* t) const override {
    std::vector<PreText::Piece> result;
    for (PreText::Piece piece : t->pieces) {
      uint32_t begin = piece.begin;
      int64_t count = 0;
      for (size_t pos = piece.begin; pos < piece.end;) {
        utf8_next(t->text.data(), &pos);
        if (++count < length_ && pos < piece.end) continue;
        result.push_back({begin, static_cast<uint32_t>(pos)});
        begin = static_cast<uint32_t>(pos);
        count = 0;
      }
    }
    t->pieces = std::move(result);
  }

 private:
  int64_t length_;
};

Result<SplitBehavior> behavior_field(const Json& spec) {
  BORA_ASSIGN(std::string name, string_field(spec, "behavior"));
  static constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  return unimplemented("split behavior \"" + name + "\" is not known");
}

}  // namespace

PreTokenizerResult split_from(const Json& spec) {
  BORA_ASSIGN(PatternSpec pattern, pattern_field(spec, "pattern"));
  BORA_ASSIGN(SplitBehavior behavior, behavior_field(spec));
  BORA_ASSIGN(bool invert, bool_field(spec, "invert", std::nullopt));
  if (!pattern.is_regex) {
    return std::unique_ptr<PreTokenizer>(std::make_unique<StringSplit>(std::move(pattern.text), behavior, invert));
  }
  if (behavior == SplitBehavior::kIsolated && !invert) return make_regex_split(pattern.text);
  BORA_ASSIGN(auto regex, Regex::compile(pattern.text));
  return std::unique_ptr<PreTokenizer>(
      std::make_unique<RegexSplit>(std::move(regex), std::move(pattern.text), behavior, invert));
}

PreTokenizerResult digits_from(const Json& spec) {
  BORA_ASSIGN(bool individual, bool_field(spec, "individual_digits", false));
  if (individual) return make_digit_split();
  return std::unique_ptr<PreTokenizer>(std::make_unique<CharSplit>(is_numeric, SplitBehavior::kContiguous));
}

PreTokenizerResult punctuation_from(const Json& spec) {
  if (!spec.contains("behavior")) return make_punctuation_split(SplitBehavior::kIsolated);
  BORA_ASSIGN(SplitBehavior behavior, behavior_field(spec));
  return make_punctuation_split(behavior);
}

PreTokenizerResult char_delimiter_from(const Json& spec) {
  BORA_ASSIGN(std::string delimiter, string_field(spec, "delimiter"));
  if (utf8_count(delimiter) != 1) return wrong_field("delimiter", "one character");
  return std::unique_ptr<PreTokenizer>(
      std::make_unique<StringSplit>(std::move(delimiter), SplitBehavior::kRemoved, false));
}

PreTokenizerResult fixed_length_from(const Json& spec) {
  BORA_ASSIGN(int64_t length, int_field(spec, "length"));
  if (length < 1) return wrong_field("length", "at least 1");
  return std::unique_ptr<PreTokenizer>(std::make_unique<FixedLength>(length));
}

std::unique_ptr<PreTokenizer> make_word_split() { return std::make_unique<WordSplit>(); }
std::unique_ptr<PreTokenizer> make_script_split() { return std::make_unique<ScriptSplit>(); }

PreTokenizerResult make_regex_split(std::string_view pattern) {
  if (auto scanner = find_scanner({{false, pattern}})) {
    return std::unique_ptr<PreTokenizer>(std::make_unique<ScannerSplit>(std::move(scanner), std::string(pattern)));
  }
  BORA_ASSIGN(auto regex, Regex::compile(pattern));
  return std::unique_ptr<PreTokenizer>(
      std::make_unique<RegexSplit>(std::move(regex), std::string(pattern), SplitBehavior::kIsolated, false));
}
std::unique_ptr<PreTokenizer> make_digit_split() {
  return std::make_unique<CharSplit>(is_numeric, SplitBehavior::kIsolated);
}
std::unique_ptr<PreTokenizer> make_white_space_split() {
  return std::make_unique<CharSplit>(is_white_space, SplitBehavior::kRemoved);
}
std::unique_ptr<PreTokenizer> make_punctuation_split(SplitBehavior behavior) {
  return std::make_unique<CharSplit>(is_punctuation, behavior);
}
std::unique_ptr<PreTokenizer> make_bert_split() {
  std::vector<std::unique_ptr<PreTokenizer>> items;
  items.push_back(make_white_space_split());
  items.push_back(make_punctuation_split(SplitBehavior::kIsolated));
  return make_pre_sequence(std::move(items));
}

}  // namespace bora::text
