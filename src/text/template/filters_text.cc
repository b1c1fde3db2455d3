// Filters on text.
#include <algorithm>
#include <cmath>

#include "text/template/filters.h"
#include "text/template/unicode.h"

namespace bora::text::jinja::filters {

namespace {

const Str* soft(Interp& in, const Args& args) {
  if (args.pos.empty()) fail("TypeError", "a filter is missing its input");
  return in.soft_str(args.pos[0]);
}

const Str* with_markup(Interp& in, const Str* s) {
  Str* copy = in.heap().make<Str>(*s);
  copy->markup = true;
  return copy;
}

// The input as text; anything else is Python's AttributeError or TypeError.
const Str* only_str(Interp& in, const Value& v) {
  in.need_defined(v);
  if (!v.is_str()) fail("AttributeError", "'" + std::string(type_name(v)) + "' object is not text");
  return v.s;
}

}  // namespace

Value capitalize(Interp& in, const Args& args) {
  return Value::str(change_case(in, *soft(in, args), CaseOp::kCapitalize));
}
Value lower(Interp& in, const Args& args) { return Value::str(change_case(in, *soft(in, args), CaseOp::kLower)); }
Value upper(Interp& in, const Args& args) { return Value::str(change_case(in, *soft(in, args), CaseOp::kUpper)); }
Value escape(Interp& in, const Args& args) { return Value::str(escape_html(in, Value::str(soft(in, args)))); }
Value safe(Interp& in, const Args& args) { return Value::str(with_markup(in, soft(in, args))); }
Value string(Interp& in, const Args& args) { return Value::str(soft(in, args)); }

Value forceescape(Interp& in, const Args& args) {
  return Value::str(escape_html(in, Value::str(in.to_str(Value::str(soft(in, args))))));
}

// Words begin after white space or one of -({[<.
Value title(Interp& in, const Args& args) {
  const Str& s = *soft(in, args);
  in.tick(s.size / 8);
  StrBuilder out(in.text_limit());
  const auto separates = [&](size_t at, size_t* n) {
    const uint32_t c = decode(s.view(), at, n);
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t i = 0; i < s.size;) {
    size_t n, end = i;
    while (end < s.size && separates(end, &n)) end += n;
    out.append_slice(s, i, end);
    i = end;
    while (end < s.size && !separates(end, &n)) end += n;
    if (i == end) break;
    const size_t first = i + char_size(s.view(), i);
    out.append(*change_case(in, *slice(in.heap(), s, i, first), CaseOp::kUpper));
    out.append(*change_case(in, *slice(in.heap(), s, first, end), CaseOp::kLower));
    i = end;
  }
  return Value::str(out.finish(in.heap()));
}

Value center(Interp& in, const Args& args) {
  const auto a = in.bound(args, "center", Names2{"value", "width"}, 1);
  const Value width = a[1].missing() ? Value::integer(80) : a[1];
  return in.call(in.attribute(Value::str(in.soft_str(a[0])), in.str("center"), nullptr), {{&width, 1}, {}});
}

Value filesizeformat(Interp& in, const Args& args) {
  const auto a = in.bound(args, "filesizeformat", Names2{"value", "binary"}, 1);
  const bool binary = !a[1].missing() && in.truth(a[1]);
  if (!a[0].is_number() && !a[0].is_str()) {
    in.need_defined(a[0]);
    fail("TypeError",
         "float() argument must be a string or a real number, not '" + std::string(type_name(a[0])) + "'");
  }
  const Value as_float = to_float(in, {{a.data(), 1}, {}});
  double bytes = as_float.tag == Tag::kFloat ? as_float.f : 0;
  if (a[0].is_str() && !parse_float(a[0].s->view(), &bytes)) fail("ValueError", "could not convert string to float");
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.text("1 Byte");
  if (bytes < base) return in.text(int_text(float_to_int(in.heap(), bytes)) + " Bytes");
  static constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  for (int i = 0;; ++i) {
    unit *= base;
    if (bytes < unit || i == 7) {
      return in.text(format_real(base * bytes / unit, 'f', 1, false) + " " +
                     std::string(binary ? kBinary[i] : kDecimal[i]));
    }
  }
}

Value format(Interp& in, const Args& args) {
  const Str* s = soft(in, args);
  if (args.pos.size() > 1 && !args.named.empty()) {
    fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  }
  if (!args.named.empty()) {
    Dict* d = in.heap().make<Dict>();
    for (const KeyValue& kv : args.named) d->set(in.heap(), Value::str(kv.key), kv.value);
    return Value::str(percent_format(in, *s, Value::dictionary(d)));
  }
  List* l = in.heap().make<List>();
  for (size_t i = 1; i < args.pos.size(); ++i) l->push(in.heap(), args.pos[i]);
  return Value::str(percent_format(in, *s, Value::seq(Tag::kTuple, l)));
}

Value indent(Interp& in, const Args& args) {
  const auto a = in.bound(args, "indent", Names4{"s", "width", "first", "blank"}, 1);
  const Str* s = only_str(in, a[0]);
  const Str* by;
  if (a[1].is_str()) {
    by = a[1].s;
  } else {
    const int64_t width = a[1].missing() ? 4 : std::max<int64_t>(0, in.need_int(a[1]));
    if (static_cast<uint64_t>(width) > in.text_limit()) fail_limit("an indentation is too wide");
    by = in.str(std::string(static_cast<size_t>(width), ' '));
  }
  const bool blank = !a[3].missing() && in.truth(a[3]);
  const List* lines = split_lines(in, *concat(in.heap(), *s, *in.str("\n")), false);
  StrBuilder out(in.text_limit());
  if (!a[2].missing() && in.truth(a[2])) out.append(*by);
  for (uint32_t i = 0; i < lines->size; ++i) {
    in.tick(1 + by->size / 64);
    const Str& line = *lines->items[i].s;
    if (i > 0) out.push('\n', true);
    if (i > 0 && (blank || line.size > 0)) out.append(*by);
    out.append(line);
  }
  return Value::str(out.finish(in.heap()));
}

Value pprint(Interp& in, const Args& args) {
  if (args.pos.empty()) fail("TypeError", "pprint needs a value");
  StrBuilder out(in.text_limit());
  append_repr(in, args.pos[0], &out, 0, true);
  return Value::str(out.finish(in.heap()));
}

Value replace_text(Interp& in, const Args& args) {
  const auto a = in.bound(args, "replace", Names4{"s", "old", "new", "count"}, 3);
  const int64_t count = a[3].missing() || a[3].is_none() ? -1 : in.need_int(a[3]);
  return Value::str(replace(in, *in.to_str(a[0]), *in.to_str(a[1]), *in.to_str(a[2]), count));
}

Value striptags(Interp& in, const Args& args) {
  const Str* s = in.to_str(Value::str(soft(in, args)));
  StrBuilder out(in.text_limit());
  size_t i = 0;
  while (i < s->size) {
    if (s->view().substr(i, 4) == "<!--") {
      const size_t end = s->view().find("-->", i);
      if (end == std::string_view::npos) break;
      i = end + 3;
    } else if (s->data[i] == '<') {
      const size_t end = s->view().find('>', i);
      if (end == std::string_view::npos) break;
      i = end + 1;
    } else {
      const size_t next = std::min(s->view().find('<', i), size_t{s->size});
      out.append_slice(*s, i, next);
      i = next;
      continue;
    }
  }
  out.append_slice(*s, i, s->size);
  // White space folds to single blanks, then entities become characters again.
  const Value parts = in.call(in.attribute(Value::str(out.finish(in.heap())), in.str("split"), nullptr), {});
  const Str* text = join(in, *in.str(" "), parts, true);
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""},       {"&#34;", "\""},
      {"&#39;", "'"}, {"&#x27;", "'"}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}};
  for (const auto& [from, to] : kEntities) text = replace(in, *text, *in.str(from), *in.str(to), -1);
  return Value::str(text);
}

namespace {

const Str* indent_unit(Interp& in, const Value& v) {
  if (v.is_str()) return v.s;
  const int64_t n = std::max<int64_t>(0, in.need_int(v));
  if (n > 4096) fail_limit("a JSON indentation is too wide");
  return in.str(std::string(static_cast<size_t>(n), ' '));
}

}  // namespace

// json.dumps with the options that apply_chat_template offers.
Value tojson(Interp& in, const Args& args) {
  const auto a = in.bound(args, "tojson", Names5{"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = !a[1].missing() && in.truth(a[1]);
  style.sort_keys = !a[4].missing() && in.truth(a[4]);
  style.indented = !a[2].missing() && !a[2].is_none();
  if (style.indented) style.indent = indent_unit(in, a[2]);
  style.item = in.str(style.indented ? "," : ", ");
  style.key = in.str(": ");
  if (!a[3].missing() && !a[3].is_none()) {
    const List* pair = in.listed(a[3]);
    if (pair->size != 2) fail("ValueError", "separators must be a pair");
    style.item = in.need_str(pair->items[0], "item separator");
    style.key = in.need_str(pair->items[1], "key separator");
  }
  StrBuilder out(in.text_limit());
  append_json(in, a[0], style, &out, 0);
  return Value::str(out.finish(in.heap()));
}

Value trim(Interp& in, const Args& args) {
  const auto a = in.bound(args, "trim", Names2{"value", "chars"}, 1);
  return Value::str(strip(in, *in.soft_str(a[0]), a[1], true, true));
}

Value truncate(Interp& in, const Args& args) {
  const auto a = in.bound(args, "truncate", Names5{"s", "length", "killwords", "end", "leeway"}, 1);
  const int64_t length = a[1].missing() ? 255 : in.need_int(a[1]);
  const Str* end = a[3].missing() ? in.str("...") : in.need_str(a[3], "end");
  const int64_t leeway = a[4].missing() || a[4].is_none() ? 5 : in.need_int(a[4]);
  const auto end_size = static_cast<int64_t>(char_count(*end));
  if (length < end_size)
    fail("AssertionError", "expected length >= " + std::to_string(end_size) + ", got " + std::to_string(length));
  if (leeway < 0) fail("AssertionError", "expected leeway >= 0, got " + std::to_string(leeway));
  if (in.length(a[0]) <= length + leeway) return a[0];  // of whatever kind
  const Str* s = only_str(in, a[0]);
  const Str* kept = slice(in.heap(), *s, 0, byte_of_char(*s, static_cast<size_t>(length - end_size)));
  if (a[2].missing() || !in.truth(a[2])) {
    const size_t blank = kept->view().rfind(' ');
    if (blank != std::string_view::npos) kept = slice(in.heap(), *kept, 0, blank);
  }
  return Value::str(concat(in.heap(), *kept, *end));
}

namespace {

void quote_url(const Str& s, bool query, StrBuilder* out) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t i = 0; i < s.size; ++i) {
    const auto c = static_cast<unsigned char>(s.data[i]);
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' ||
                       c == '-' || c == '~' || (c == '/' && !query);
    const bool origin = origin_at(s, i);
    if (plain) {
      out->push(static_cast<char>(c), origin);
    } else if (c == ' ' && query) {
      out->push('+', origin);
    } else {
      const char coded[3] = {'%', kHex[c >> 4], kHex[c & 15]};
      out->append({coded, 3}, origin);
    }
  }
}

}  // namespace

Value urlencode(Interp& in, const Args& args) {
  if (args.pos.empty()) fail("TypeError", "urlencode needs a value");
  const Value v = args.pos[0];
  StrBuilder out(in.text_limit());
  if (v.is_str() || !in.iterable(v)) {
    quote_url(*in.to_str(v), false, &out);
    return Value::str(out.finish(in.heap()));
  }
  const List* pairs = v.is_dict() ? in.listed(in.call(in.attribute(v, in.str("items"), nullptr), {})) : in.listed(v);
  for (uint32_t i = 0; i < pairs->size; ++i) {
    in.tick();
    const List* pair = in.listed(pairs->items[i]);
    if (pair->size != 2) fail("ValueError", "urlencode needs pairs");
    if (i > 0) out.push('&', true);
    quote_url(*in.to_str(pair->items[0]), true, &out);
    out.push('=', true);
    quote_url(*in.to_str(pair->items[1]), true, &out);
  }
  return Value::str(out.finish(in.heap()));
}

// Links make no sense in a prompt; refusing by name is better than a guess.
Value urlize(Interp&, const Args&) { fail("FilterArgumentError", "the filter 'urlize' is not supported"); }

Value wordcount(Interp& in, const Args& args) {
  const Str* s = soft(in, args);
  int64_t n = 0;
  bool inside = false;
  for (size_t i = 0; i < s->size;) {
    size_t size;
    const uint32_t c = decode(s->view(), i, &size);
    const bool word = c == '_' || is_alnum(c);
    n += word && !inside ? 1 : 0;
    inside = word;
    i += size;
  }
  return Value::integer(n);
}

namespace {

// textwrap.wrap of one line, without breaking at hyphens: words and the spaces between them, greedily.
void wrap_line(Interp& in, const Str& line, size_t width, bool break_long, List* out) {
  std::vector<const Str*> chunks;
  for (size_t i = 0; i < line.size;) {
    const size_t begin = i;
    const bool space = is_space(static_cast<unsigned char>(line.data[i]));
    while (i < line.size && is_space(static_cast<unsigned char>(line.data[i])) == space) ++i;
    chunks.push_back(slice(in.heap(), line, begin, i));
  }
  const auto blank = [](const Str* s) { return is_space(static_cast<unsigned char>(s->data[0])); };
  size_t at = 0;
  while (at < chunks.size()) {
    in.tick();
    if (blank(chunks[at]) && out->size > 0) ++at;
    StrBuilder text(in.text_limit());
    size_t used = 0, kept = 0;
    while (at < chunks.size() && used + char_count(*chunks[at]) <= width) {
      used += char_count(*chunks[at]);
      text.append(*chunks[at]);
      if (!blank(chunks[at])) kept = text.size();
      ++at;
    }
    if (at < chunks.size() && kept == 0 && char_count(*chunks[at]) > width) {
      const size_t cut = break_long ? byte_of_char(*chunks[at], std::max<size_t>(1, width - used)) : chunks[at]->size;
      text.append_slice(*chunks[at], 0, cut);
      kept = text.size();
      chunks[at] = slice(in.heap(), *chunks[at], cut, chunks[at]->size);
      if (chunks[at]->size == 0) ++at;
    }
    text.truncate(kept);
    if (kept > 0) out->push(in.heap(), Value::str(text.finish(in.heap())));
  }
}

}  // namespace

Value wordwrap(Interp& in, const Args& args) {
  const auto a =
      in.bound(args, "wordwrap", Names5{"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  const Str* s = only_str(in, a[0]);
  const int64_t width = a[1].missing() ? 79 : in.need_int(a[1]);
  if (width <= 0) fail("ValueError", "invalid width " + std::to_string(width) + " (must be > 0)");
  const bool break_long = a[2].missing() || in.truth(a[2]);
  const Str* by = a[3].missing() || a[3].is_none() ? in.str("\n") : in.need_str(a[3], "wrapstring");
  List* wrapped = in.heap().make<List>();
  for (const Value& line : *split_lines(in, *s, false)) {
    List* rows = in.heap().make<List>();
    wrap_line(in, *line.s, static_cast<size_t>(width), break_long, rows);
    wrapped->push(in.heap(), Value::str(join(in, *by, in.list_value(rows), true)));
  }
  return Value::str(join(in, *by, in.list_value(wrapped), true));
}

Value xmlattr(Interp& in, const Args& args) {
  const auto a = in.bound(args, "xmlattr", Names2{"d", "autospace"}, 1);
  in.need_defined(a[0]);
  if (!a[0].is_dict())
    fail("AttributeError", "'" + std::string(type_name(a[0])) + "' object has no attribute 'items'");
  StrBuilder out(in.text_limit());
  bool spaced = a[1].missing() || in.truth(a[1]);
  for (const Dict::Entry& e : *a[0].dict) {
    if (e.value.is_none() || e.value.is_undefined()) continue;
    const Str* key = in.need_str(e.key, "attribute name");
    if (key->view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      fail("ValueError", "Invalid character in attribute name");
    if (spaced) out.push(' ', true);
    spaced = true;
    out.append(*escape_html(in, e.key));
    out.append("=\"", true);
    out.append(*escape_html(in, Value::str(in.soft_str(e.value))));
    out.push('"', true);
  }
  return Value::str(out.finish(in.heap()));
}

}  // namespace bora::text::jinja::filters
