// Values as text: str(), repr() and json.dumps of Python. What the engine adds (quotes, brackets, digits) counts as
// the template's; the characters of a string keep their origin, also when they are escaped.
#include <algorithm>
#include <cmath>

#include "text/template/interp.h"
#include "text/template/unicode.h"

namespace bora::text::jinja {

namespace {

constexpr int kMaxNesting = 400;

void hex(uint32_t code, int digits, std::string* out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out->push_back("0123456789abcdef"[code >> shift & 15]);
}

// repr() of one character into `out`; false when it stands for itself.
bool escape_repr(uint32_t c, char quote, std::string* out) {
  if (c == static_cast<unsigned char>(quote) || c == '\\') {
    *out = {'\\', static_cast<char>(c)};
  } else if (c == '\n') {
    *out = "\\n";
  } else if (c == '\r') {
    *out = "\\r";
  } else if (c == '\t') {
    *out = "\\t";
  } else if (c < 0x20 || c == 0x7F || (c >= 0x80 && c < 0x100 && !printable(c))) {
    *out = "\\x";
    hex(c, 2, out);
  } else if (c < 0x80 || printable(c)) {
    return false;
  } else {
    *out = c < 0x10000 ? "\\u" : "\\U";
    hex(c, c < 0x10000 ? 4 : 8, out);
  }
  return true;
}

void append_str_repr(const Str& s, StrBuilder* out) {
  const std::string_view text = s.view();
  const bool both = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = both ? '"' : '\'';
  if (s.markup) out->append("Markup(", true);
  out->push(quote, true);
  std::string escaped;
  size_t plain = 0;
  for (size_t i = 0; i < text.size();) {
    size_t n;
    const uint32_t c = decode(text, i, &n);
    if (escape_repr(c, quote, &escaped)) {
      out->append_slice(s, plain, i);
      out->append(escaped, origin_at(s, i));
      plain = i + n;
    }
    i += n;
  }
  out->append_slice(s, plain, text.size());
  out->push(quote, true);
  if (s.markup) out->push(')', true);
}

void append_items(Interp& in, const Value* items, uint32_t n, StrBuilder* out, int depth, bool sorted) {
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0) out->append(", ", true);
    append_repr(in, items[i], out, depth, sorted);
  }
}

std::vector<const Dict::Entry*> ordered(Interp& in, const Dict& d, bool sorted, bool strict) {
  std::vector<const Dict::Entry*> entries;
  for (const Dict::Entry& e : d) entries.push_back(&e);
  if (!sorted) return entries;
  in.tick(d.size);
  const bool texts =
      std::all_of(entries.begin(), entries.end(), [](const Dict::Entry* e) { return e->key.is_str(); });
  if (!texts && !strict) return entries;
  std::vector<std::pair<Value, Value>> keyed;
  for (uint32_t i = 0; i < d.size; ++i) keyed.emplace_back(d.entries[i].key, Value::integer(i));
  sort_values(in, &keyed, false);
  for (uint32_t i = 0; i < d.size; ++i) entries[i] = d.entries + keyed[i].second.i;
  return entries;
}

void append_dict_repr(Interp& in, const Dict& d, StrBuilder* out, int depth, bool sorted) {
  out->push('{', true);
  bool first = true;
  for (const Dict::Entry* e : ordered(in, d, sorted, false)) {
    if (!first) out->append(", ", true);
    first = false;
    append_repr(in, e->key, out, depth, sorted);
    out->append(": ", true);
    append_repr(in, e->value, out, depth, sorted);
  }
  out->push('}', true);
}

void append_object_repr(Interp& in, const Value& v, StrBuilder* out, int depth) {
  switch (v.tag) {
    case Tag::kRange: {
      const Range& r = *v.range;
      std::string text = "range(" + std::to_string(r.start) + ", " + std::to_string(r.stop);
      if (r.step != 1) text += ", " + std::to_string(r.step);
      out->append(text + ")", true);
      return;
    }
    case Tag::kView: {
      out->append(type_name(v), true);
      out->push('(', true);
      Value l = Value::seq(Tag::kList, in.listed(v));
      append_repr(in, l, out, depth + 1);
      out->push(')', true);
      return;
    }
    case Tag::kNamespace:
      out->append("<Namespace ", true);
      append_dict_repr(in, *v.ns->attrs, out, depth, false);
      out->push('>', true);
      return;
    case Tag::kMacro:
      out->append("<Macro ", true);
      if (v.macro->name == nullptr)
        out->append("anonymous", true);
      else
        append_str_repr(*v.macro->name, out);
      out->push('>', true);
      return;
    case Tag::kLoop:
      out->append("<LoopContext " + std::to_string(v.loop->index0 + 1) + "/" + std::to_string(in.length(v)) + ">",
                  true);
      return;
    case Tag::kSelf: out->append("<TemplateReference None>", true); return;
    default: break;
  }
  out->append("<" + std::string(type_name(v)) + " object>", true);
}

}  // namespace

void append_repr(Interp& in, const Value& v, StrBuilder* out, int depth, bool sorted) {
  if (depth > kMaxNesting)
    fail("RecursionError", "maximum recursion depth exceeded while getting the repr of an object");
  in.tick();
  switch (v.tag) {
    case Tag::kUndefined: out->append("Undefined", true); return;
    case Tag::kNone: out->append("None", true); return;
    case Tag::kBool: out->append(v.b ? "True" : "False", true); return;
    case Tag::kInt:
    case Tag::kBig: out->append(int_text(v), true); return;
    case Tag::kFloat: out->append(float_repr(v.f), true); return;
    case Tag::kStr: append_str_repr(*v.s, out); return;
    case Tag::kList:
      out->push('[', true);
      append_items(in, v.list->items, v.list->size, out, depth + 1, sorted);
      out->push(']', true);
      return;
    case Tag::kTuple:
      out->push('(', true);
      append_items(in, v.list->items, v.list->size, out, depth + 1, sorted);
      out->append(v.list->size == 1 ? ",)" : ")", true);
      return;
    case Tag::kDict: append_dict_repr(in, *v.dict, out, depth + 1, sorted); return;
    default: append_object_repr(in, v, out, depth + 1); return;
  }
}

void append_str(Interp& in, const Value& v, StrBuilder* out) {
  if (v.is_str()) {
    in.tick(v.s->size / 64);
    out->append(*v.s);
  } else if (!v.is_undefined()) {
    append_repr(in, v, out, 0);
  }
}

const Str* Interp::to_str(const Value& v) {
  if (v.is_str()) {
    if (!v.s->markup) return v.s;
    Str* plain = heap_.make<Str>(*v.s);
    plain->markup = false;
    return plain;
  }
  if (v.is_undefined()) return str("");
  StrBuilder out(text_limit());
  append_repr(*this, v, &out, 0);
  return out.finish(heap_);
}

// ---- JSON

namespace {

bool escape_json(uint32_t c, bool ensure_ascii, std::string* out) {
  switch (c) {
    case '"': *out = "\\\""; return true;
    case '\\': *out = "\\\\"; return true;
    case '\n': *out = "\\n"; return true;
    case '\r': *out = "\\r"; return true;
    case '\t': *out = "\\t"; return true;
    case '\b': *out = "\\b"; return true;
    case '\f': *out = "\\f"; return true;
    default: break;
  }
  if (c >= 0x20 && (c < 0x7F || !ensure_ascii)) return false;
  out->clear();
  if (c >= 0x10000) {
    *out = "\\u";
    hex(0xD800 + ((c - 0x10000) >> 10), 4, out);
    c = 0xDC00 + ((c - 0x10000) & 0x3FF);
  }
  *out += "\\u";
  hex(c, 4, out);
  return true;
}

void append_json_str(const Str& s, bool ensure_ascii, StrBuilder* out) {
  const std::string_view text = s.view();
  out->push('"', true);
  std::string escaped;
  size_t plain = 0;
  for (size_t i = 0; i < text.size();) {
    const auto b = static_cast<unsigned char>(text[i]);
    if (b >= 0x20 && b < 0x7F && b != '"' && b != '\\') {
      ++i;
      continue;
    }
    if (b >= 0x7F && !ensure_ascii) {
      ++i;
      continue;
    }
    size_t n;
    const uint32_t c = decode(text, i, &n);
    if (escape_json(c, ensure_ascii, &escaped)) {
      out->append_slice(s, plain, i);
      out->append(escaped, origin_at(s, i));
      plain = i + n;
    }
    i += n;
  }
  out->append_slice(s, plain, text.size());
  out->push('"', true);
}

std::string json_number(const Value& v) {
  if (v.tag != Tag::kFloat) return int_text(v);
  if (std::isnan(v.f)) return "NaN";
  if (std::isinf(v.f)) return v.f < 0 ? "-Infinity" : "Infinity";
  return float_repr(v.f);
}

void json_break(const JsonStyle& style, int depth, StrBuilder* out) {
  if (!style.indented) return;
  out->push('\n', true);
  for (int i = 0; i < depth; ++i) out->append(*style.indent);
}

void append_json_key(const Value& key, const JsonStyle& style, StrBuilder* out) {
  if (key.is_str()) return append_json_str(*key.s, style.ensure_ascii, out);
  if (!key.is_number() && !key.is_none()) {
    fail("TypeError", "keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
  }
  out->push('"', true);
  if (key.is_none())
    out->append("null", true);
  else if (key.tag == Tag::kBool)
    out->append(key.b ? "true" : "false", true);
  else
    out->append(json_number(key), true);
  out->push('"', true);
}

void append_json_dict(Interp& in, const Dict& d, const JsonStyle& style, StrBuilder* out, int depth) {
  if (d.size == 0) return out->append("{}", true);
  out->push('{', true);
  bool first = true;
  for (const Dict::Entry* e : ordered(in, d, style.sort_keys, true)) {
    if (!first) out->append(*style.item);
    first = false;
    json_break(style, depth + 1, out);
    append_json_key(e->key, style, out);
    out->append(*style.key);
    append_json(in, e->value, style, out, depth + 1);
  }
  json_break(style, depth, out);
  out->push('}', true);
}

}  // namespace

void append_json(Interp& in, const Value& v, const JsonStyle& style, StrBuilder* out, int depth) {
  if (depth > kMaxNesting) fail("RecursionError", "maximum recursion depth exceeded while encoding a JSON object");
  in.tick();
  switch (v.tag) {
    case Tag::kNone: out->append("null", true); return;
    case Tag::kBool: out->append(v.b ? "true" : "false", true); return;
    case Tag::kInt:
    case Tag::kBig:
    case Tag::kFloat: out->append(json_number(v), true); return;
    case Tag::kStr: append_json_str(*v.s, style.ensure_ascii, out); return;
    case Tag::kDict: append_json_dict(in, *v.dict, style, out, depth); return;
    case Tag::kList:
    case Tag::kTuple:
      if (v.list->size == 0) return out->append("[]", true);
      out->push('[', true);
      for (uint32_t i = 0; i < v.list->size; ++i) {
        if (i > 0) out->append(*style.item);
        json_break(style, depth + 1, out);
        append_json(in, v.list->items[i], style, out, depth + 1);
      }
      json_break(style, depth, out);
      out->push(']', true);
      return;
    default: break;
  }
  fail("TypeError", "Object of type " + std::string(type_name(v)) + " is not JSON serializable");
}

// ---- HTML

const Str* escape_html(Interp& in, const Value& v) {
  const Str* s = in.soft_str(v);
  if (s->markup) return s;
  StrBuilder out(in.text_limit());
  size_t plain = 0;
  for (size_t i = 0; i < s->size; ++i) {
    std::string_view to;
    switch (s->data[i]) {
      case '&': to = "&amp;"; break;
      case '<': to = "&lt;"; break;
      case '>': to = "&gt;"; break;
      case '\'': to = "&#39;"; break;
      case '"': to = "&#34;"; break;
      default: continue;
    }
    out.append_slice(*s, plain, i);
    out.append(to, origin_at(*s, i));
    plain = i + 1;
  }
  out.append_slice(*s, plain, s->size);
  Str* escaped = in.heap().make<Str>(*out.finish(in.heap()));
  escaped->markup = true;
  return escaped;
}

}  // namespace bora::text::jinja
