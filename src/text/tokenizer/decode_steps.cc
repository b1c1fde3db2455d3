#include "text/tokenizer/decode_steps.h"

#include <memory>
#include <optional>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

// Copyable steps get their clone() here.
template <typename Self>
class CloneStep : public DecodeStep {
 public:
  StepPtr clone() const override { return std::make_unique<Self>(static_cast<const Self&>(*this)); }
};

// A step that needs whole tokens. Behind a fusing step the one token is complete only at the end.
template <typename Self>
class WholeStep : public CloneStep<Self> {
 public:
  explicit WholeStep(bool fused) : fused_(fused) {}
  void token(std::string_view text, bool, DecodeStep* next) override {
    if (fused_) {
      held_.append(text);
      any_ = true;
    } else {
      whole(text, next);
    }
  }
  void finish(DecodeStep* next) override {
    if (any_) whole(held_, next);
    any_ = false;
    held_.clear();
    end(next);
  }

 protected:
  virtual void whole(std::string_view text, DecodeStep* next) = 0;
  virtual void end(DecodeStep* next) { (void)next; }

 private:
  bool fused_;
  bool any_ = false;
  std::string held_;
};

class Join final : public CloneStep<Join> {
 public:
  void token(std::string_view text, bool, DecodeStep* next) override {
    if (!first_) next->token(" ", false, nullptr);
    first_ = false;
    next->token(text, false, nullptr);
  }

 private:
  bool first_ = true;
};

class Fuse final : public CloneStep<Fuse> {
 public:
  void token(std::string_view text, bool, DecodeStep* next) override {
    next->token(text, started_, nullptr);
    started_ = true;
  }

 private:
  bool started_ = false;
};

class ByteLevel final : public CloneStep<ByteLevel> {
 public:
  void token(std::string_view text, bool, DecodeStep* next) override {
    std::string bytes;
    if (!append_from_alphabet(text, &bytes)) bytes.assign(text);
    std::string out;
    utf8_feed(bytes, false, &held_, &out);
    give(out, next);
  }
  void finish(DecodeStep* next) override {
    std::string out;
    utf8_flush(false, &held_, &out);
    give(out, next);
  }

 private:
  void give(std::string_view text, DecodeStep* next) {
    if (text.empty()) return;
    next->token(text, started_, nullptr);
    started_ = true;
  }
  bool started_ = false;
  std::string held_;
};

// "<0xE4>" and its like become bytes. A run of them is one token when it is valid UTF-8, else one U+FFFD a byte.
class ByteFallback final : public WholeStep<ByteFallback> {
 public:
  ByteFallback(bool streaming, bool fused) : WholeStep(fused), streaming_(streaming) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    if (auto byte = byte_of(text)) {
      const char c = static_cast<char>(*byte);
      if (!streaming_) {
        run_.push_back(c);
        return;
      }
      std::string out;
      utf8_feed({&c, 1}, true, &run_, &out);
      if (!out.empty()) next->token(out, false, nullptr);
      return;
    }
    end(next);
    next->token(text, false, nullptr);
  }
  void end(DecodeStep* next) override {
    if (run_.empty()) return;
    std::string out;
    if (!streaming_ && utf8_valid(run_)) {
      out.swap(run_);
    } else {
      utf8_flush(true, &run_, &out);
    }
    run_.clear();
    next->token(out, false, nullptr);
  }

 private:
  static std::optional<uint8_t> byte_of(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
    int value = 0;
    for (char c : text.substr(3, 2)) {
      int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + digit;
    }
    return static_cast<uint8_t>(value);
  }
  bool streaming_;
  std::string run_;
};

// Takes up to `start` of a character from the front of each token and up to `stop` from its end.
class Strip final : public CloneStep<Strip> {
 public:
  explicit Strip(StripSpec spec) : spec_(std::move(spec)), left_(spec_.start) {}
  void token(std::string_view text, bool continues, DecodeStep* next) override {
    if (!spec_.fused || !continues) {
      left_ = spec_.start;
      held_ = 0;
    }
    const std::string& c = spec_.content;
    while (left_ > 0 && text.substr(0, c.size()) == c) {
      text.remove_prefix(c.size());
      --left_;
    }
    if (!text.empty()) left_ = 0;
    size_t tail = 0;  // characters at the end that may have to go
    while (tail < spec_.stop && text.size() >= (tail + 1) * c.size() &&
           text.substr(text.size() - (tail + 1) * c.size(), c.size()) == c) {
      ++tail;
    }
    std::string_view body = text.substr(0, text.size() - tail * c.size());
    if (!spec_.fused) {
      next->token(body, false, nullptr);
      return;
    }
    if (body.empty()) {
      size_t total = held_ + tail;
      give(std::min(total, spec_.stop), total, {}, next);
    } else {
      give(tail, held_ + tail, body, next);
    }
  }

 private:
  // Of `total` held characters keeps `keep`, gives the others (before `body`, which was not held).
  void give(size_t keep, size_t total, std::string_view body, DecodeStep* next) {
    std::string out;
    size_t before = body.empty() ? total - keep : held_;
    for (size_t i = 0; i < before; ++i) out += spec_.content;
    out.append(body);
    held_ = keep;
    if (!out.empty()) {
      next->token(out, started_, nullptr);
      started_ = true;
    }
  }
  StripSpec spec_;
  size_t left_;
  size_t held_ = 0;
  bool started_ = false;
};

class Replace final : public CloneStep<Replace> {
 public:
  Replace(std::string pattern, std::string content, bool fused)
      : pattern_(std::move(pattern)), content_(std::move(content)), fused_(fused) {}
  void token(std::string_view text, bool continues, DecodeStep* next) override {
    if (!fused_ && text.find(pattern_) == std::string_view::npos) {
      next->token(text, false, nullptr);
      return;
    }
    std::string work = held_;
    held_.clear();
    work.append(text);
    size_t done = 0;
    std::string out;
    if (!pattern_.empty()) {
      for (size_t at; (at = work.find(pattern_, done)) != std::string::npos; done = at + pattern_.size()) {
        out.append(work, done, at - done);
        out.append(content_);
      }
    }
    size_t keep = fused_ ? partial(work, done) : 0;
    out.append(work, done, work.size() - keep - done);
    held_ = work.substr(work.size() - keep);
    next->token(out, continues, nullptr);
  }
  void finish(DecodeStep* next) override {
    if (!held_.empty()) next->token(held_, true, nullptr);
    held_.clear();
  }

 private:
  // Length of the longest end of text[from...] that begins the pattern.
  size_t partial(std::string_view text, size_t from) const {
    size_t longest = std::min(text.size() - from, pattern_.empty() ? 0 : pattern_.size() - 1);
    for (size_t n = longest; n > 0; --n) {
      if (text.substr(text.size() - n) == std::string_view(pattern_).substr(0, n)) return n;
    }
    return 0;
  }
  std::string pattern_;
  std::string content_;
  bool fused_;
  std::string held_;
};

class ReplaceRegex final : public WholeStep<ReplaceRegex> {
 public:
  ReplaceRegex(std::shared_ptr<const Regex> regex, std::string content, bool fused)
      : WholeStep(fused), regex_(std::move(regex)), content_(std::move(content)) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    std::string out;
    size_t copied = 0;
    if (!text.empty()) {
      regex_->for_each(text, [&](size_t begin, size_t end) {
        out.append(text.substr(copied, begin - copied));
        out.append(content_);
        copied = end;
      });
    }
    out.append(text.substr(copied));
    next->token(out, false, nullptr);
  }

 private:
  std::shared_ptr<const Regex> regex_;
  std::string content_;
};

class Metaspace final : public WholeStep<Metaspace> {
 public:
  Metaspace(std::string replacement, bool strip_first, bool fused)
      : WholeStep(fused), replacement_(std::move(replacement)), strip_first_(strip_first) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    std::string out(text);
    replace_all(replacement_, first_ && strip_first_ ? "" : " ", &out);
    first_ = false;
    next->token(out, false, nullptr);
  }

 private:
  std::string replacement_;
  bool strip_first_;
  bool first_ = true;
};

class WordPiece final : public WholeStep<WordPiece> {
 public:
  WordPiece(std::string prefix, bool cleanup, bool fused)
      : WholeStep(fused), prefix_(std::move(prefix)), cleanup_(cleanup) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    std::string out;
    if (!first_) {
      if (text.substr(0, prefix_.size()) == prefix_) {
        text.remove_prefix(prefix_.size());
      } else {
        out.push_back(' ');
      }
    }
    out.append(text);
    first_ = false;
    if (cleanup_) clean_up(&out);
    next->token(out, false, nullptr);
  }

 private:
  std::string prefix_;
  bool cleanup_;
  bool first_ = true;
};

// A suffix becomes a space, in the last token nothing.
class Suffix final : public WholeStep<Suffix> {
 public:
  Suffix(std::string suffix, bool fused) : WholeStep(fused), suffix_(std::move(suffix)) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    release(" ", next);
    size_t at = suffix_.empty() ? std::string_view::npos : text.find(suffix_);
    next->token(text.substr(0, at), false, nullptr);
    if (at != std::string_view::npos) held_.assign(text.substr(at));
  }
  void end(DecodeStep* next) override { release("", next); }

 private:
  void release(std::string_view with, DecodeStep* next) {
    if (held_.empty()) return;
    replace_all(suffix_, with, &held_);
    next->token(held_, false, nullptr);
    held_.clear();
  }
  std::string suffix_;
  std::string held_;
};

class Ctc final : public WholeStep<Ctc> {
 public:
  explicit Ctc(CtcSpec spec) : WholeStep(spec.fused), spec_(std::move(spec)) {}

 protected:
  void whole(std::string_view text, DecodeStep* next) override {
    if (last_ && *last_ == text) return;
    last_ = std::string(text);
    std::string out(text);
    replace_all(spec_.pad, "", &out);
    if (spec_.cleanup) {
      clean_up(&out);
      replace_all(spec_.delimiter, " ", &out);
    }
    if (!out.empty()) next->token(out, false, nullptr);
  }

 private:
  CtcSpec spec_;
  std::optional<std::string> last_;
};

}  // namespace

StepPtr make_join_step() { return std::make_unique<Join>(); }
StepPtr make_fuse_step() { return std::make_unique<Fuse>(); }
StepPtr make_byte_level_step() { return std::make_unique<ByteLevel>(); }
StepPtr make_byte_fallback_step(bool streaming, bool fused) {
  return std::make_unique<ByteFallback>(streaming, fused);
}
StepPtr make_strip_step(StripSpec spec) { return std::make_unique<Strip>(std::move(spec)); }
StepPtr make_replace_step(std::string pattern, std::string content, bool fused) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content), fused);
}
Result<StepPtr> make_replace_regex_step(std::string_view pattern, std::string content, bool fused) {
  BORA_ASSIGN(auto regex, Regex::compile(pattern));
  return StepPtr(
      std::make_unique<ReplaceRegex>(std::shared_ptr<const Regex>(std::move(regex)), std::move(content), fused));
}
StepPtr make_metaspace_step(std::string replacement, bool strip_first, bool fused) {
  return std::make_unique<Metaspace>(std::move(replacement), strip_first, fused);
}
StepPtr make_word_piece_step(std::string prefix, bool cleanup, bool fused) {
  return std::make_unique<WordPiece>(std::move(prefix), cleanup, fused);
}
StepPtr make_suffix_step(std::string suffix, bool fused) {
  return std::make_unique<Suffix>(std::move(suffix), fused);
}
StepPtr make_ctc_step(CtcSpec spec) { return std::make_unique<Ctc>(std::move(spec)); }

}  // namespace bora::text
