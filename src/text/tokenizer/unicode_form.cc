// NFC, NFD, NFKC, NFKD.
//
// Most text is already in form NFC, so the work is done only around characters that could change: a table marks every
// code point that is not its own composed form, that may combine with what stands before it, or that has a combining
// class. Text between two unmarked characters is copied. Marked stretches go through utf8proc together with the
// starter before them. Code points that the reference's older tables do not know are starters that neither decompose
// nor compose.
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/unicode.h"

namespace bora::text {
namespace {

constexpr uint32_t kMarked = 0x110000;

struct Marks {
  std::vector<bool> compose;    // may change under NFC
  std::vector<bool> decompose;  // may change under NFD
  std::vector<bool> compat;     // may change under NFKD or NFKC
};

void mark(uint32_t cp, const utf8proc_property_t* property, Marks* m) {
  if (property->combining_class != 0) m->compose[cp] = m->decompose[cp] = m->compat[cp] = true;
  utf8proc_int32_t buffer[32];
  int boundary = 0;
  auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), buffer, 32, UTF8PROC_DECOMPOSE, &boundary);
  if (n > 1 || (n == 1 && buffer[0] != static_cast<utf8proc_int32_t>(cp))) {
    m->decompose[cp] = m->compat[cp] = true;
    m->compose[buffer[n - 1]] = true;  // may combine with what stands before it
    m->compat[buffer[n - 1]] = true;
    auto length =
        utf8proc_normalize_utf32(buffer, n, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (length != 1 || buffer[0] != static_cast<utf8proc_int32_t>(cp)) m->compose[cp] = true;
  }
  n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(cp), buffer, 32,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundary);
  if (n > 1 || (n == 1 && buffer[0] != static_cast<utf8proc_int32_t>(cp))) m->compat[cp] = true;
}

Marks build_marks() {
  Marks m;
  m.compose.assign(kMarked, false);
  m.decompose.assign(kMarked, false);
  m.compat.assign(kMarked, false);
  for (uint32_t cp = 0x80; cp < kMarked; ++cp) {
    if (cp == 0x30000) cp = 0xE0000;  // nothing is assigned between that could change
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(cp));
    bool hangul = cp >= 0xAC00 && cp <= 0xD7A3;
    if (property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX && !hangul) continue;
    mark(cp, property, &m);
    if (cp == 0xE1000) break;
  }
  for (uint32_t cp = 0x1161; cp <= 0x11C2; ++cp) m.compose[cp] = m.compat[cp] = true;  // Hangul vowels and finals
  for (uint32_t cp = 0xAC00; cp <= 0xD7A3; ++cp) m.compose[cp] = false;
  return m;
}

const Marks& marks() {
  static const Marks m = build_marks();
  return m;
}

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormForm form) {
    bool compat = form == NormForm::kNfkc || form == NormForm::kNfkd;
    compose_ = form == NormForm::kNfc || form == NormForm::kNfkc;
    options_ = UTF8PROC_STABLE | (compose_ ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compat ? UTF8PROC_COMPAT : 0);
    marked_ = compat ? &marks().compat : compose_ ? &marks().compose : &marks().decompose;
  }

  bool apply(std::string_view text, std::string* out) const override {
    size_t pos = next_marked(text, 0);
    if (pos == text.size()) return false;
    out->clear();
    size_t copied = 0;
    while (pos < text.size()) {
      size_t begin = pos > copied ? utf8_prev(text, pos) : pos;  // the starter before may take part
      out->append(text.substr(copied, begin - copied));
      size_t end = pos;
      while (end < text.size()) {
        size_t next = end;
        if (!(*marked_)[utf8_next(text.data(), &next)]) break;
        end = next;
      }
      convert(text.substr(begin, end - begin), out);
      copied = end;
      pos = next_marked(text, end);
    }
    out->append(text.substr(copied));
    return *out != text;
  }

 private:
  size_t next_marked(std::string_view text, size_t pos) const {
    while (pos < text.size()) {
      if (static_cast<uint8_t>(text[pos]) < 0x80) {
        ++pos;
        continue;
      }
      size_t next = pos;
      if ((*marked_)[utf8_next(text.data(), &next)]) return pos;
      pos = next;
    }
    return pos;
  }

  // Converts a stretch, keeping inert code points as barriers.
  void convert(std::string_view part, std::string* out) const {
    size_t begin = 0;
    size_t pos = 0;
    while (pos < part.size()) {
      size_t at = pos;
      uint32_t cp = utf8_next(part.data(), &pos);
      if (!is_norm_inert(cp)) continue;
      convert_plain(part.substr(begin, at - begin), out);
      out->append(part.substr(at, pos - at));
      begin = pos;
    }
    convert_plain(part.substr(begin), out);
  }

  void convert_plain(std::string_view part, std::string* out) const {
    if (part.empty()) return;
    std::vector<utf8proc_int32_t> buffer(part.size() * 4 + 16);
    auto decompose = static_cast<utf8proc_option_t>((options_ & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(part.data());
    auto n = utf8proc_decompose(bytes, static_cast<utf8proc_ssize_t>(part.size()), buffer.data(),
                                static_cast<utf8proc_ssize_t>(buffer.size()), decompose);
    if (n > static_cast<utf8proc_ssize_t>(buffer.size())) {
      buffer.resize(n);
      n = utf8proc_decompose(bytes, static_cast<utf8proc_ssize_t>(part.size()), buffer.data(), n, decompose);
    }
    if (n < 0) {  // cannot happen for valid text; keep it rather than lose it
      out->append(part);
      return;
    }
    if (compose_) {
      n = utf8proc_normalize_utf32(buffer.data(), n,
                                   static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    }
    for (utf8proc_ssize_t i = 0; i < n; ++i) utf8_append(static_cast<uint32_t>(buffer[i]), out);
  }

  bool compose_;
  int options_;
  const std::vector<bool>* marked_;
};

}  // namespace

std::unique_ptr<Normalizer> make_unicode_form(NormForm form) { return std::make_unique<UnicodeForm>(form); }

}  // namespace bora::text
