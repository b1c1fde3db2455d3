#include "text/tokenizer/pipeline.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/token_texts.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr size_t kMaxPart = size_t{1} << 31;  // offsets are 32 bits; longer texts are cut

class NoSpecial final : public SpecialFilter {
 public:
  bool allows(size_t, size_t) const override { return false; }
};

// Special tokens may stand inside one run that the template wrote.
class SpanFilter final : public SpecialFilter {
 public:
  explicit SpanFilter(const std::vector<SpanText::Run>& runs) : runs_(runs) {}
  bool allows(size_t begin, size_t end) const override {
    auto it = std::upper_bound(runs_.begin(), runs_.end(), begin,
                               [](size_t pos, const SpanText::Run& run) { return pos < run.end; });
    return it != runs_.end() && it->from_template && end <= it->end;
  }

 private:
  const std::vector<SpanText::Run>& runs_;
};

class ByteStream final : public StreamDecoder {
 public:
  ByteStream(const TokenTexts* texts, bool skip_special) : texts_(texts), skip_special_(skip_special) {}
  void push(TokenId id, std::string* out) override {
    if (skip_special_ && texts_->is_special(id)) return;
    std::string_view bytes = texts_->decode_bytes(id);
    if (held_.empty() && utf8_valid(bytes)) {
      out->append(bytes);
    } else {
      utf8_feed(bytes, false, &held_, out);
    }
  }
  void finish(std::string* out) override { utf8_flush(false, &held_, out); }
  std::unique_ptr<StreamDecoder> clone() const override { return std::make_unique<ByteStream>(*this); }

 private:
  const TokenTexts* texts_;
  bool skip_special_;
  std::string held_;
};

class ChainStream final : public StreamDecoder {
 public:
  ChainStream(const TokenTexts* texts, DecodeChain chain, bool skip_special)
      : texts_(texts), chain_(std::move(chain)), skip_special_(skip_special) {}
  void push(TokenId id, std::string* out) override {
    if (!texts_->has(id) || (skip_special_ && texts_->is_special(id))) return;
    chain_.push(texts_->text(id), out);
  }
  void finish(std::string* out) override { chain_.finish(out); }
  std::unique_ptr<StreamDecoder> clone() const override {
    return std::make_unique<ChainStream>(texts_, DecodeChain(chain_), skip_special_);
  }

 private:
  const TokenTexts* texts_;
  DecodeChain chain_;
  bool skip_special_;
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(TokenizerParts parts) : p_(std::move(parts)), texts_(p_) {
    bpe_ = dynamic_cast<const BpeModel*>(p_.model.get());
    build_matchers();
    if (p_.post_processor) p_.post_processor->single(&before_, &after_);
    std::vector<ScanStage> stages;
    if (bpe_ && p_.pre_tokenizer && p_.pre_tokenizer->scan_stages(&stages)) scanner_ = find_scanner(stages);
  }

  void encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>* ids) const override {
    static const NoSpecial kNone;
    std::string clean;
    if (!utf8_valid(text)) {
      utf8_append_lossy(text, &clean);
      text = clean;
    }
    if (options.add_special) ids->insert(ids->end(), before_.begin(), before_.end());
    run(text, options.parse_special ? nullptr : &kNone, ids);
    if (options.add_special) ids->insert(ids->end(), after_.begin(), after_.end());
  }

  void encode_spans(const SpanText& prompt, bool add_special, std::vector<TokenId>* ids) const override {
    SpanText clean;
    const SpanText* source = &prompt;
    if (!utf8_valid(prompt.text)) {
      size_t begin = 0;
      for (const SpanText::Run& r : prompt.runs) {
        std::string piece;
        utf8_append_lossy(std::string_view(prompt.text).substr(begin, r.end - begin), &piece);
        clean.append(piece, r.from_template);
        begin = r.end;
      }
      source = &clean;
    }
    std::vector<TokenId> body;
    SpanFilter filter(source->runs);
    run(source->text, &filter, &body);
    bool has_first = add_special && !before_.empty() && !body.empty() && body.front() == before_.front();
    if (add_special && !has_first) ids->insert(ids->end(), before_.begin(), before_.end());
    ids->insert(ids->end(), body.begin(), body.end());
    if (add_special) ids->insert(ids->end(), after_.begin(), after_.end());
  }

  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options) const override {
    std::string out;
    if (p_.decoder.byte_level()) {
      decode_bytes(ids, options.skip_special, &out);
      return out;
    }
    DecodeChain chain = p_.decoder.chain(false);
    for (TokenId id : ids) {
      if (!texts_.has(id) || (options.skip_special && texts_.is_special(id))) continue;
      chain.push(texts_.text(id), &out);
    }
    chain.finish(&out);
    return out;
  }

  std::unique_ptr<StreamDecoder> stream(const DecodeOptions& options,
                                        std::span<const TokenId> prompt) const override {
    std::unique_ptr<StreamDecoder> s;
    if (p_.decoder.byte_level()) {
      s = std::make_unique<ByteStream>(&texts_, options.skip_special);
      // No character is longer than four bytes, so the end of the prompt is enough.
      size_t from = prompt.size() > 64 ? prompt.size() - 64 : 0;
      prompt = prompt.subspan(from);
    } else {
      s = std::make_unique<ChainStream>(&texts_, p_.decoder.chain(true), options.skip_special);
    }
    std::string dropped;
    for (TokenId id : prompt) s->push(id, &dropped);
    return s;
  }

  // An id that is always added but that the vocabulary does not reach, or -1.
  TokenId stray_special() const {
    for (const auto* list : {&before_, &after_}) {
      for (TokenId id : *list) {
        if (id < 0 || id >= texts_.size()) return id;
      }
    }
    return -1;
  }

  int32_t vocab_size() const override { return texts_.size(); }
  std::string_view token_bytes(TokenId id) const override { return texts_.bytes(id); }
  std::string_view token_text(TokenId id) const override { return texts_.text(id); }
  bool is_special(TokenId id) const override { return texts_.is_special(id); }
  std::optional<TokenId> find(std::string_view text) const override { return texts_.find(text); }
  SpecialIds special_ids() const override { return p_.special; }

 private:
  void build_matchers() {
    std::vector<const AddedToken*> tokens[2];
    std::vector<std::string> contents[2];
    for (const AddedToken& a : p_.added) {
      std::string content = a.content;
      std::string normalized;
      if (a.normalized && p_.normalizer && p_.normalizer->apply(content, &normalized)) content = normalized;
      tokens[a.normalized].push_back(&a);
      contents[a.normalized].push_back(std::move(content));
    }
    raw_matcher_ = std::make_unique<AddedMatcher>(tokens[0], contents[0]);
    normalized_matcher_ = std::make_unique<AddedMatcher>(tokens[1], contents[1]);
  }

  struct Work {
    ModelScratch scratch;
    PreText pre;
    std::string normalized;
    std::string prefixed;
    std::vector<AddedSplit> parts;
  };
  // Takes working memory from the pool and gives it back.
  class Lease {
   public:
    explicit Lease(const Pipeline& owner) : owner_(owner) {
      std::lock_guard lock(owner_.pool_mutex_);
      if (!owner_.pool_.empty()) {
        work_ = std::move(owner_.pool_.back());
        owner_.pool_.pop_back();
      }
      if (!work_) work_ = std::make_unique<Work>();
    }
    ~Lease() {
      std::lock_guard lock(owner_.pool_mutex_);
      if (owner_.pool_.size() < kPooled) owner_.pool_.push_back(std::move(work_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Work* get() { return work_.get(); }

   private:
    static constexpr size_t kPooled = 8;
    const Pipeline& owner_;
    std::unique_ptr<Work> work_;
  };

  void run(std::string_view text, const SpecialFilter* filter, std::vector<TokenId>* ids) const {
    if (text.empty()) return;
    Lease lease(*this);
    Work* work = lease.get();
    if (raw_matcher_->empty()) {
      encode_part(text, true, !filter || filter->allows(0, text.size()), work, ids);
      return;
    }
    std::vector<AddedSplit> parts;
    raw_matcher_->split(text, filter, &parts);
    for (const AddedSplit& part : parts) {
      if (part.id >= 0) {
        ids->push_back(part.id);
      } else {
        bool specials = !filter || filter->allows(part.begin, part.end);
        encode_part(text.substr(part.begin, part.end - part.begin), part.begin == 0, specials, work, ids);
      }
    }
  }

  void encode_part(std::string_view part, bool start, bool specials, Work* work, std::vector<TokenId>* ids) const {
    static const NoSpecial kNone;
    std::string_view view = part;
    if (p_.normalizer && p_.normalizer->apply(part, &work->normalized)) view = work->normalized;
    if (view.empty()) return;
    if (normalized_matcher_->empty()) {
      encode_stretch(view, start, work, ids);
      return;
    }
    work->parts.clear();
    normalized_matcher_->split(view, specials ? nullptr : &kNone, &work->parts);
    for (const AddedSplit& s : work->parts) {
      if (s.id >= 0) {
        ids->push_back(s.id);
      } else {
        encode_stretch(view.substr(s.begin, s.end - s.begin), start && s.begin == 0, work, ids);
      }
    }
  }

  void encode_stretch(std::string_view text, bool start, Work* work, std::vector<TokenId>* ids) const {
    while (text.size() > kMaxPart) {
      size_t cut = utf8_prev(text, kMaxPart);
      encode_stretch(text.substr(0, cut), start, work, ids);
      text.remove_prefix(cut);
      start = false;
    }
    if (p_.tail.present && p_.tail.add_prefix_space && text[0] != ' ') {
      work->prefixed.assign(" ");
      work->prefixed.append(text);
      text = work->prefixed;
    }
    const char* end = text.data() + text.size();
    if (scanner_) {
      scan(text, work, ids);
    } else if (!p_.pre_tokenizer) {
      p_.model->encode(text, end, &work->scratch, ids);
    } else {
      work->pre.text.assign(text);
      work->pre.reset(start);
      p_.pre_tokenizer->apply(&work->pre);
      const std::string& all = work->pre.text;
      for (PreText::Piece piece : work->pre.pieces) {
        p_.model->encode({all.data() + piece.begin, piece.end - piece.begin}, all.data() + all.size(), &work->scratch,
                         ids);
      }
    }
  }

  void scan(std::string_view text, Work* work, std::vector<TokenId>* ids) const {
    uint32_t ends[512];
    const char* limit = text.data() + text.size();
    uint32_t begin = 0;
    while (begin < text.size()) {
      size_t n = scanner_->scan(text.data(), begin, text.size(), ends, 512);
      for (size_t i = 0; i < n; ++i) {
        bpe_->encode({text.data() + begin, ends[i] - begin}, limit, &work->scratch, ids);
        begin = ends[i];
      }
    }
  }

  void decode_bytes(std::span<const TokenId> ids, bool skip_special, std::string* out) const {
    texts_.append_decoded(ids, skip_special, out);
    if (utf8_valid(*out)) return;
    std::string clean;
    utf8_append_lossy(*out, &clean);
    out->swap(clean);
  }

  TokenizerParts p_;
  TokenTexts texts_;
  const BpeModel* bpe_ = nullptr;
  std::unique_ptr<Scanner> scanner_;
  std::unique_ptr<AddedMatcher> raw_matcher_;
  std::unique_ptr<AddedMatcher> normalized_matcher_;
  std::vector<TokenId> before_;
  std::vector<TokenId> after_;
  mutable std::mutex pool_mutex_;
  mutable std::vector<std::unique_ptr<Work>> pool_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(TokenizerParts parts) {
  if (!parts.model) return invalid_argument("tokenizer: no model");
  for (const AddedToken& a : parts.added) {
    if (a.id < 0 || a.id > Vocab::kMaxId)
      return invalid_argument("added token \"" + a.content + "\": id out of range");
  }
  auto pipeline = std::make_unique<Pipeline>(std::move(parts));
  if (TokenId id = pipeline->stray_special(); id >= 0) {
    return invalid_argument("post_processor: its id " + std::to_string(id) + " is not in the vocabulary");
  }
  return std::unique_ptr<Tokenizer>(std::move(pipeline));
}

}  // namespace bora::text
