// Text operations shared by methods and filters; all keep the origin of every character.
#include <algorithm>

#include "text/template/interp.h"
#include "text/template/unicode.h"

namespace bora::text::jinja {

namespace {

const Str* marked(Interp& in, const Str* s, bool markup) {
  if (s->markup == markup) return s;
  Str* copy = in.heap().make<Str>(*s);
  copy->markup = markup;
  return copy;
}

// Greek capital sigma is written differently at the end of a word.
void lower_sigma(std::string_view text, size_t at, std::string* out) {
  const auto skips = [](uint32_t c) { return c == '\'' || c == 0xAD || c == 0x2019 || (c >= 0x300 && c <= 0x36F); };
  bool before = false, after = false;
  for (size_t i = at; i > 0;) {
    do --i;
    while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80);
    size_t n;
    const uint32_t c = decode(text, i, &n);
    if (skips(c)) continue;
    before = is_cased(c);
    break;
  }
  for (size_t i = at + 2; i < text.size();) {
    size_t n;
    const uint32_t c = decode(text, i, &n);
    i += n;
    if (skips(c)) continue;
    after = is_cased(c);
    break;
  }
  encode(before && !after ? 0x3C2 : 0x3C3, out);
}

void convert(CaseOp op, uint32_t c, bool word_start, bool first, std::string* out) {
  switch (op) {
    case CaseOp::kUpper: return to_upper(c, out);
    case CaseOp::kLower: return to_lower(c, out);
    case CaseOp::kCapitalize: return first ? to_title(c, out) : to_lower(c, out);
    case CaseOp::kTitle: return word_start ? to_title(c, out) : to_lower(c, out);
    case CaseOp::kSwap: return is_upper(c) ? to_lower(c, out) : is_lower(c) ? to_upper(c, out) : encode(c, out);
  }
}

}  // namespace

const Str* change_case(Interp& in, const Str& s, CaseOp op) {
  in.tick(s.size / 8);
  StrBuilder out(in.text_limit());
  std::string piece;
  bool word = false;  // the character before is cased
  size_t run = 0, run_end = s.run_end(0);
  for (size_t i = 0; i < s.size;) {
    size_t n;
    const uint32_t c = decode(s.view(), i, &n);
    while (i >= run_end) run_end = s.run_end(++run);
    piece.clear();
    const bool lowers =
        op == CaseOp::kLower || (op == CaseOp::kTitle && word) || (op == CaseOp::kCapitalize && i > 0);
    if (n == 1 && c >= 0x80) {
      piece.push_back(s.data[i]);  // malformed: as it is
    } else if (c == 0x3A3 && lowers) {
      lower_sigma(s.view(), i, &piece);
    } else {
      convert(op, c, !word, i == 0, &piece);
    }
    out.append(piece, s.run(run).from_template);
    word = is_cased(c);
    i += n;
  }
  return marked(in, out.finish(in.heap()), s.markup);
}

const Str* strip(Interp& in, const Str& s, const Value& chars, bool left, bool right) {
  if (!chars.missing() && !chars.is_none() && !chars.is_str()) {
    in.need_defined(chars);
    fail("TypeError", "strip arg must be None or str");
  }
  const bool given = chars.is_str();
  const auto goes = [&](size_t at, size_t n) {
    if (given) return chars.s->view().find(s.view().substr(at, n)) != std::string_view::npos;
    size_t ignored;
    return is_space(decode(s.view(), at, &ignored));
  };
  in.tick(s.size / 64);
  size_t from = 0, to = s.size;
  while (left && from < to) {
    const size_t n = char_size(s.view(), from);
    if (!goes(from, n)) break;
    from += n;
  }
  while (right && to > from) {
    size_t at = to - 1;
    while (at > from && (static_cast<unsigned char>(s.data[at]) & 0xC0) == 0x80) --at;
    if (!goes(at, to - at)) break;
    to = at;
  }
  return slice(in.heap(), s, from, to);
}

const Str* replace(Interp& in, const Str& s, const Str& from, const Str& to, int64_t count) {
  in.tick(s.size / 32);
  if (count == 0) return &s;
  StrBuilder out(in.text_limit());
  size_t plain = 0;
  if (from.size == 0) {  // between all characters, as Python does
    for (size_t i = 0; count != 0; --count) {
      out.append(to);
      if (i >= s.size) break;
      const size_t n = char_size(s.view(), i);
      out.append_slice(s, i, i + n);
      i += n;
      plain = i;
    }
  } else {
    size_t at = s.view().find(from.view());
    if (at == std::string_view::npos) return &s;
    for (; at != std::string_view::npos && count != 0; --count) {
      out.append_slice(s, plain, at);
      out.append(to);
      plain = at + from.size;
      at = s.view().find(from.view(), plain);
    }
  }
  out.append_slice(s, plain, s.size);
  in.tick(static_cast<int64_t>(out.size() / 32));
  return marked(in, out.finish(in.heap()), s.markup);
}

const Str* join(Interp& in, const Str& separator, const Value& items, bool convert) {
  StrBuilder out(in.text_limit());
  Iter* iter = in.iterate(items);
  Value v;
  for (int64_t i = 0; iter->next(in, &v); ++i) {
    in.tick();
    if (i > 0) out.append(separator);
    if (!v.is_str() && !convert) {
      fail("TypeError",
           "sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(v)) + " found");
    }
    append_str(in, v, &out);
  }
  return out.finish(in.heap());
}

const Str* reversed(Interp& in, const Str& s) {
  return in.slice_of(Value::str(&s), Value::none(), Value::none(), Value::integer(-1)).s;
}

List* split_lines(Interp& in, const Str& s, bool keep) {
  in.tick(s.size / 32);
  List* lines = in.heap().make<List>();
  size_t begin = 0;
  for (size_t i = 0; i < s.size;) {
    size_t n;
    const uint32_t c = decode(s.view(), i, &n);
    const bool ends = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    const size_t at = i;
    i += n;
    if (!ends) continue;
    if (c == '\r' && i < s.size && s.data[i] == '\n') ++i;
    lines->push(in.heap(), Value::str(slice(in.heap(), s, begin, keep ? i : at)));
    begin = i;
  }
  if (begin < s.size) lines->push(in.heap(), Value::str(slice(in.heap(), s, begin, s.size)));
  return lines;
}

}  // namespace bora::text::jinja
