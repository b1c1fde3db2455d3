#include "text/tokenizer/decoder.h"

#include <optional>

#include "text/tokenizer/decode_steps.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {

// Receives what a step gives and hands it to the step after, or to the output.
class ChainLink final : public DecodeStep {
 public:
  ChainLink(DecodeChain* chain, size_t step, std::string* out) : chain_(chain), step_(step), out_(out) {}
  void token(std::string_view text, bool continues, DecodeStep*) override {
    chain_->deliver(step_, text, continues, out_);
  }
  std::unique_ptr<DecodeStep> clone() const override { return nullptr; }

 private:
  DecodeChain* chain_;
  size_t step_;
  std::string* out_;
};

DecodeChain::DecodeChain(const DecodeChain& other) {
  for (const auto& step : other.steps_) steps_.push_back(step->clone());
}

void DecodeChain::deliver(size_t step, std::string_view token, bool continues, std::string* out) {
  if (step == steps_.size()) {
    out->append(token);
    return;
  }
  ChainLink link(this, step + 1, out);
  steps_[step]->token(token, continues, &link);
}

void DecodeChain::push(std::string_view token, std::string* out) { deliver(0, token, false, out); }

void DecodeChain::finish(std::string* out) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    ChainLink link(this, i + 1, out);
    steps_[i]->finish(&link);
  }
}

DecodeChain Decoder::chain(bool streaming) const {
  std::vector<std::unique_ptr<DecodeStep>> steps;
  for (const auto& step : streaming ? streaming_ : exact_) steps.push_back(step->clone());
  return DecodeChain(std::move(steps));
}

std::string Decoder::decode(const std::vector<std::string>& tokens) const {
  DecodeChain c = chain(false);
  std::string out;
  for (const std::string& token : tokens) c.push(token, &out);
  c.finish(&out);
  return out;
}

void utf8_feed(std::string_view bytes, bool per_byte, std::string* held, std::string* out) {
  held->append(bytes);
  size_t pos = 0;
  while (pos < held->size()) {
    Utf8Step step = utf8_step(*held, pos);
    // A U+FFFD spelled in byte tokens waits for what follows: the run may yet turn out broken.
    bool spelled = per_byte && step.valid && held->compare(pos, std::string::npos, "\uFFFD") == 0;
    if (spelled) break;
    if (step.valid) {
      out->append(*held, pos, step.length);
    } else if (step.incomplete) {
      break;
    } else {
      for (int i = 0; i < (per_byte ? step.length : 1); ++i) utf8_append(kReplacementChar, out);
    }
    pos += step.length;
  }
  held->erase(0, pos);
}

void utf8_flush(bool per_byte, std::string* held, std::string* out) {
  if (held->empty()) return;
  bool one = !per_byte || *held == "\uFFFD";
  for (size_t i = 0; i < (one ? 1 : held->size()); ++i) utf8_append(kReplacementChar, out);
  held->clear();
}

void replace_all(std::string_view from, std::string_view to, std::string* text) {
  if (from.empty()) return;
  size_t at = text->find(from);
  if (at == std::string::npos) return;
  std::string result;
  size_t copied = 0;
  for (; at != std::string::npos; at = text->find(from, copied)) {
    result.append(*text, copied, at - copied);
    result.append(to);
    copied = at + from.size();
  }
  result.append(*text, copied);
  text->swap(result);
}

void clean_up(std::string* text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(from, to, text);
}

namespace {

struct Builder {
  std::vector<std::unique_ptr<DecodeStep>> steps;
  bool streaming = false;
  bool fused = false;  // the steps so far give one token in parts
};

Status add_step(const Json& spec, int depth, Builder* b);

Status add_sequence(const Json& spec, int depth, Builder* b) {
  BORA_ASSIGN(const Json* list, array_field(spec, "decoders"));
  for (const Json& item : list->items()) BORA_TRY(add_step(item, depth + 1, b));
  return ok_status();
}

Status add_strip(const Json& spec, Builder* b) {
  BORA_ASSIGN(std::string content, string_field(spec, "content"));
  BORA_ASSIGN(int64_t start, int_field(spec, "start"));
  BORA_ASSIGN(int64_t stop, int_field(spec, "stop"));
  if (start < 0 || stop < 0 || utf8_count(content) != 1)
    return invalid_argument("decoder Strip: bad content, start or stop");
  b->steps.push_back(make_strip_step({content, static_cast<size_t>(start), static_cast<size_t>(stop), b->fused}));
  return ok_status();
}

Status add_replace(const Json& spec, Builder* b) {
  BORA_ASSIGN(PatternSpec pattern, pattern_field(spec, "pattern"));
  BORA_ASSIGN(std::string content, string_field(spec, "content"));
  if (!pattern.is_regex) {
    b->steps.push_back(make_replace_step(std::move(pattern.text), std::move(content), b->fused));
    return ok_status();
  }
  BORA_ASSIGN(auto step, make_replace_regex_step(pattern.text, std::move(content), b->fused));
  b->steps.push_back(std::move(step));
  return ok_status();
}

Status add_metaspace(const Json& spec, Builder* b) {
  BORA_ASSIGN(std::string replacement, string_field(spec, "replacement"));
  BORA_ASSIGN(auto scheme, optional_string_field(spec, "prepend_scheme"));
  BORA_ASSIGN(bool old_prefix, bool_field(spec, "add_prefix_space", true));
  if (scheme && scheme != "always" && scheme != "first" && scheme != "never") {
    return unimplemented("prepend_scheme \"" + *scheme + "\" is not known");
  }
  bool strip_first = scheme ? scheme != "never" : old_prefix;
  b->steps.push_back(make_metaspace_step(std::move(replacement), strip_first, b->fused));
  return ok_status();
}

Status add_ctc(const Json& spec, Builder* b) {
  BORA_ASSIGN(std::string pad, string_field(spec, "pad_token"));
  BORA_ASSIGN(std::string delimiter, string_field(spec, "word_delimiter_token"));
  BORA_ASSIGN(bool cleanup, bool_field(spec, "cleanup", true));
  b->steps.push_back(make_ctc_step({std::move(pad), std::move(delimiter), cleanup, b->fused}));
  return ok_status();
}

Status add_word_piece(const Json& spec, Builder* b) {
  BORA_ASSIGN(std::string prefix, string_field(spec, "prefix"));
  BORA_ASSIGN(bool cleanup, bool_field(spec, "cleanup", true));
  b->steps.push_back(make_word_piece_step(std::move(prefix), cleanup, b->fused));
  return ok_status();
}

Status add_step(const Json& spec, int depth, Builder* b) {
  if (depth > 16) return invalid_argument("decoders nested too deeply");
  BORA_ASSIGN(std::string type, string_field(spec, "type"));
  if (type == "Sequence") return add_sequence(spec, depth, b);
  if (type == "Strip") return add_strip(spec, b);
  if (type == "Replace") return add_replace(spec, b);
  if (type == "Metaspace") return add_metaspace(spec, b);
  if (type == "WordPiece") return add_word_piece(spec, b);
  if (type == "CTC") return add_ctc(spec, b);
  if (type == "BPEDecoder") {
    BORA_ASSIGN(std::string suffix, string_field(spec, "suffix"));
    b->steps.push_back(make_suffix_step(std::move(suffix), b->fused));
  } else if (type == "ByteLevel") {
    b->steps.push_back(make_byte_level_step());
    b->fused = true;
  } else if (type == "ByteFallback") {
    b->steps.push_back(make_byte_fallback_step(b->streaming, b->fused));
  } else if (type == "Fuse") {
    b->steps.push_back(make_fuse_step());
    b->fused = true;
  } else {
    return unimplemented("decoder \"" + type + "\" is not known");
  }
  return ok_status();
}

}  // namespace

Result<Decoder> Decoder::from_json(const Json& spec) {
  Decoder d;
  for (bool streaming : {false, true}) {
    Builder b;
    b.streaming = streaming;
    if (spec.is_null()) {
      b.steps.push_back(make_join_step());
    } else {
      BORA_TRY(add_step(spec, 0, &b));
    }
    (streaming ? d.streaming_ : d.exact_) = std::move(b.steps);
  }
  const Json* type = spec.find("type");
  d.byte_level_ = type && type->is_string() && type->as_string() == "ByteLevel";
  return d;
}

}  // namespace bora::text
