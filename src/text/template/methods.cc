// Methods of str, list, tuple, dict and of the engine's own objects: lists of records, looked up by name while
// parsing.
#include <algorithm>

#include "text/template/interp.h"
#include "text/template/unicode.h"

namespace bora::text::jinja {

namespace {

using Names1 = std::array<std::string_view, 1>;
using Names2 = std::array<std::string_view, 2>;
using Names3 = std::array<std::string_view, 3>;

void no_arguments(const Args& args, std::string_view name) {
  if (!args.pos.empty() || !args.named.empty()) {
    fail("TypeError", std::string(name) + "() takes no arguments (" +
                          std::to_string(args.pos.size() + args.named.size()) + " given)");
  }
}

template <CaseOp op>
Value str_case(Interp& in, const Value& self, const Args& args) {
  no_arguments(args, "str method");
  return Value::str(change_case(in, *self.s, op));
}

template <bool left, bool right>
Value str_strip(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "strip", Names1{"chars"}, 0);
  return Value::str(strip(in, *self.s, a[0], left, right));
}

// Splits on white space.
List* split_space(Interp& in, const Str& s, int64_t limit, bool from_right) {
  List* parts = in.heap().make<List>();
  std::vector<std::pair<size_t, size_t>> words;
  size_t begin = std::string_view::npos;
  for (size_t i = 0; i < s.size;) {
    size_t n;
    const bool space = is_space(decode(s.view(), i, &n));
    if (!space && begin == std::string_view::npos) begin = i;
    if (space && begin != std::string_view::npos) {
      words.emplace_back(begin, i);
      begin = std::string_view::npos;
    }
    i += n;
  }
  if (begin != std::string_view::npos) words.emplace_back(begin, s.size);
  // What is left after `limit` splits stays whole, with the space on its outer side.
  if (limit >= 0 && words.size() > static_cast<size_t>(limit)) {
    const auto keep = static_cast<size_t>(limit);
    if (from_right) {
      const size_t merged = words.size() - keep;
      words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(merged - 1));
      words[0].first = 0;
    } else {
      words.resize(keep + 1);
      words.back().second = s.size;
    }
  }
  for (const auto& [from, to] : words) parts->push(in.heap(), Value::str(slice(in.heap(), s, from, to)));
  return parts;
}

List* split_on(Interp& in, const Str& s, std::string_view by, int64_t limit) {
  List* parts = in.heap().make<List>();
  size_t begin = 0;
  for (size_t at = s.view().find(by); at != std::string_view::npos && limit != 0;
       at = s.view().find(by, begin), --limit) {
    in.tick();
    parts->push(in.heap(), Value::str(slice(in.heap(), s, begin, at)));
    begin = at + by.size();
  }
  parts->push(in.heap(), Value::str(slice(in.heap(), s, begin, s.size)));
  return parts;
}

List* rsplit_on(Interp& in, const Str& s, std::string_view by, int64_t limit) {
  std::vector<const Str*> found;
  size_t end = s.size;
  while (limit != 0 && end >= by.size()) {
    const size_t at = s.view().substr(0, end).rfind(by);
    if (at == std::string_view::npos) break;
    in.tick();
    found.push_back(slice(in.heap(), s, at + by.size(), end));
    end = at;
    --limit;
  }
  found.push_back(slice(in.heap(), s, 0, end));
  List* parts = in.heap().make<List>();
  for (size_t i = found.size(); i-- > 0;) parts->push(in.heap(), Value::str(found[i]));
  return parts;
}

template <bool from_right>
Value str_split(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "split", Names2{"sep", "maxsplit"}, 0);
  const int64_t limit = a[1].missing() ? -1 : std::max<int64_t>(-1, in.need_int(a[1]));
  in.tick(self.s->size / 32);
  if (a[0].missing() || a[0].is_none()) return in.list_value(split_space(in, *self.s, limit, from_right));
  const Str* by = in.need_str(a[0], "split: separator");
  if (by->size == 0) fail("ValueError", "empty separator");
  return in.list_value(from_right ? rsplit_on(in, *self.s, by->view(), limit)
                                  : split_on(in, *self.s, by->view(), limit));
}

Value str_splitlines(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "splitlines", Names1{"keepends"}, 0);
  return in.list_value(split_lines(in, *self.s, !a[0].missing() && in.truth(a[0])));
}

// The part of self that (start, end) name, as byte offsets; false when start lies behind the end.
bool window(Interp& in, const Str& s, const Value& from, const Value& to, size_t* begin, size_t* end) {
  const auto n = in.length(Value::str(&s));
  const auto place = [&](const Value& v, int64_t absent) {
    if (v.missing() || v.is_none()) return absent;
    int64_t i = in.need_int(v);
    if (i < 0) i = std::max<int64_t>(0, i + n);
    return i;
  };
  const int64_t b = place(from, 0), e = std::min(n, place(to, n));
  if (b > n || b > e) return false;
  *begin = byte_of_char(s, static_cast<size_t>(b));
  *end = byte_of_char(s, static_cast<size_t>(e));
  return true;
}

template <bool at_start>
Value str_affix(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, at_start ? "startswith" : "endswith", Names3{"prefix", "start", "end"}, 1);
  size_t begin, end;
  if (!window(in, *self.s, a[1], a[2], &begin, &end)) return Value::boolean(false);
  const std::string_view text = self.s->view().substr(begin, end - begin);
  const auto fits = [&](const Value& v) {
    const std::string_view affix = in.need_str(v, at_start ? "startswith first arg" : "endswith first arg")->view();
    return at_start ? text.starts_with(affix) : text.ends_with(affix);
  };
  if (a[0].tag != Tag::kTuple) return Value::boolean(fits(a[0]));
  for (const Value& v : *a[0].list) {
    if (fits(v)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool from_right, bool must>
Value str_find(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "find", Names3{"sub", "start", "end"}, 1);
  const std::string_view sub = in.need_str(a[0], "find() argument 1")->view();
  in.tick(self.s->size / 32);
  size_t begin, end, at = std::string_view::npos;
  if (window(in, *self.s, a[1], a[2], &begin, &end)) {
    const std::string_view text = self.s->view().substr(begin, end - begin);
    at = from_right ? text.rfind(sub) : text.find(sub);
    if (at != std::string_view::npos) at += begin;
  }
  if (at != std::string_view::npos) {
    return Value::integer(static_cast<int64_t>(char_count(*slice(in.heap(), *self.s, 0, at))));
  }
  if (must) fail("ValueError", "substring not found");
  return Value::integer(-1);
}

Value str_count(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "count", Names3{"sub", "start", "end"}, 1);
  const std::string_view sub = in.need_str(a[0], "count() argument 1")->view();
  in.tick(self.s->size / 32);
  size_t begin, end;
  if (!window(in, *self.s, a[1], a[2], &begin, &end)) return Value::integer(0);
  const Str* part = slice(in.heap(), *self.s, begin, end);
  if (sub.empty()) return Value::integer(static_cast<int64_t>(char_count(*part)) + 1);
  int64_t n = 0;
  for (size_t at = part->view().find(sub); at != std::string_view::npos; at = part->view().find(sub, at + sub.size()))
    ++n;
  return Value::integer(n);
}

Value str_replace(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "replace", Names3{"old", "new", "count"}, 2);
  const int64_t count = a[2].missing() ? -1 : in.need_int(a[2]);
  return Value::str(replace(in, *self.s, *in.need_str(a[0], "replace() argument 1"),
                            *in.need_str(a[1], "replace() argument 2"), count));
}

Value str_join(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "join", Names1{"iterable"}, 1);
  if (!in.iterable(a[0])) fail("TypeError", "can only join an iterable");
  return Value::str(join(in, *self.s, a[0], false));
}

template <bool from_right>
Value str_partition(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "partition", Names1{"sep"}, 1);
  const Str* by = in.need_str(a[0], "partition: separator");
  if (by->size == 0) fail("ValueError", "empty separator");
  const size_t at = from_right ? self.s->view().rfind(by->view()) : self.s->view().find(by->view());
  if (at == std::string_view::npos) {
    return from_right ? in.tuple_of({in.text(""), in.text(""), self}) : in.tuple_of({self, in.text(""), in.text("")});
  }
  return in.tuple_of({Value::str(slice(in.heap(), *self.s, 0, at)), a[0],
                      Value::str(slice(in.heap(), *self.s, at + by->size, self.s->size))});
}

template <bool (*property)(uint32_t), bool empty = false>
Value str_all(Interp& in, const Value& self, const Args& args) {
  no_arguments(args, "str method");
  in.tick(self.s->size / 16);
  if (self.s->size == 0) return Value::boolean(empty);
  for (size_t i = 0; i < self.s->size;) {
    size_t n;
    if (!property(decode(self.s->view(), i, &n))) return Value::boolean(false);
    i += n;
  }
  return Value::boolean(true);
}

bool ascii_char(uint32_t c) { return c < 0x80; }

Value str_istitle(Interp&, const Value& self, const Args& args) {
  no_arguments(args, "str.istitle");
  bool cased = false, any = false;
  for (size_t i = 0; i < self.s->size;) {
    size_t n;
    const uint32_t c = decode(self.s->view(), i, &n);
    if (is_upper(c) || is_title(c)) {
      if (cased) return Value::boolean(false);
      cased = any = true;
    } else if (is_lower(c)) {
      if (!cased) return Value::boolean(false);
      any = true;
    } else {
      cased = false;
    }
    i += n;
  }
  return Value::boolean(any);
}

Value str_isidentifier(Interp&, const Value& self, const Args& args) {
  no_arguments(args, "str.isidentifier");
  for (size_t i = 0; i < self.s->size;) {
    size_t n;
    const uint32_t c = decode(self.s->view(), i, &n);
    if (c != '_' && !is_alpha(c) && (i == 0 || !is_decimal(c))) return Value::boolean(false);
    i += n;
  }
  return Value::boolean(self.s->size > 0);
}

enum class Side : uint8_t { kLeft, kRight, kCenter };

const Str* padded(Interp& in, const Str& s, int64_t width, const Str& fill, Side side) {
  const auto have = static_cast<int64_t>(char_count(s));
  if (width <= have) return &s;
  const int64_t total = width - have;
  if (static_cast<uint64_t>(total) > in.text_limit() / fill.size) fail_limit("a padded text grows beyond the limit");
  in.tick(total / 16);
  int64_t before = side == Side::kLeft ? 0 : total;
  if (side == Side::kCenter) before = total / 2 + (total & width & 1);
  StrBuilder out(in.text_limit());
  for (int64_t i = 0; i < before; ++i) out.append(fill);
  out.append(s);
  for (int64_t i = before; i < total; ++i) out.append(fill);
  return out.finish(in.heap());
}

template <Side side>
Value str_pad(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "ljust", Names2{"width", "fillchar"}, 1);
  const Str* fill = a[1].missing() ? in.str(" ") : in.need_str(a[1], "The fill character");
  if (char_count(*fill) != 1) fail("TypeError", "The fill character must be exactly one character long");
  return Value::str(padded(in, *self.s, in.need_int(a[0]), *fill, side));
}

Value str_zfill(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "zfill", Names1{"width"}, 1);
  const bool sign = self.s->size > 0 && (self.s->data[0] == '-' || self.s->data[0] == '+');
  const Str* digits = sign ? slice(in.heap(), *self.s, 1, self.s->size) : self.s;
  const Str* wide = padded(in, *digits, in.need_int(a[0]) - (sign ? 1 : 0), *in.str("0"), Side::kRight);
  return Value::str(sign ? concat(in.heap(), *slice(in.heap(), *self.s, 0, 1), *wide) : wide);
}

template <bool prefix>
Value str_remove(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "removeprefix", Names1{"prefix"}, 1);
  const std::string_view part = in.need_str(a[0], "removeprefix() argument")->view();
  const Str& s = *self.s;
  if (prefix) return s.view().starts_with(part) ? Value::str(slice(in.heap(), s, part.size(), s.size)) : self;
  return s.view().ends_with(part) ? Value::str(slice(in.heap(), s, 0, s.size - part.size())) : self;
}

Value str_expandtabs(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "expandtabs", Names1{"tabsize"}, 0);
  const int64_t size = a[0].missing() ? 8 : in.need_int(a[0]);
  StrBuilder out(in.text_limit());
  int64_t column = 0;
  for (size_t i = 0; i < self.s->size;) {
    const size_t n = char_size(self.s->view(), i);
    const char c = self.s->data[i];
    if (c == '\t') {
      const int64_t pad = size > 0 ? size - column % size : 0;
      in.tick(pad / 16);
      if (static_cast<uint64_t>(pad) > in.text_limit()) fail_limit("a text grows beyond the limit");
      out.append(std::string(static_cast<size_t>(pad), ' '), origin_at(*self.s, i));
      column += pad;
    } else {
      out.append_slice(*self.s, i, i + n);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    i += n;
  }
  return Value::str(out.finish(in.heap()));
}

Value str_format(Interp& in, const Value& self, const Args& args) {
  return Value::str(brace_format(in, *self.s, args));
}

Value str_format_map(Interp& in, const Value& self, const Args& args) {
  const auto a = in.bound(args, "format_map", Names1{"mapping"}, 1);
  if (!a[0].is_dict()) fail("TypeError", "format_map() needs a mapping");
  std::vector<KeyValue> named;
  for (const Dict::Entry& e : *a[0].dict) {
    if (e.key.is_str()) named.push_back({e.key.s, e.value});
  }
  return Value::str(brace_format(in, *self.s, {{}, named}));
}

constexpr Method kStrMethods[] = {
    {"upper", str_case<CaseOp::kUpper>},
    {"lower", str_case<CaseOp::kLower>},
    {"casefold", str_case<CaseOp::kLower>},
    {"title", str_case<CaseOp::kTitle>},
    {"capitalize", str_case<CaseOp::kCapitalize>},
    {"swapcase", str_case<CaseOp::kSwap>},
    {"strip", str_strip<true, true>},
    {"lstrip", str_strip<true, false>},
    {"rstrip", str_strip<false, true>},
    {"split", str_split<false>},
    {"rsplit", str_split<true>},
    {"splitlines", str_splitlines},
    {"startswith", str_affix<true>},
    {"endswith", str_affix<false>},
    {"find", str_find<false, false>},
    {"rfind", str_find<true, false>},
    {"index", str_find<false, true>},
    {"rindex", str_find<true, true>},
    {"count", str_count},
    {"replace", str_replace},
    {"join", str_join},
    {"partition", str_partition<false>},
    {"rpartition", str_partition<true>},
    {"isdigit", str_all<is_digit_char>},
    {"isdecimal", str_all<is_decimal>},
    {"isnumeric", str_all<is_numeric>},
    {"isalpha", str_all<is_alpha>},
    {"isalnum", str_all<is_alnum>},
    {"isspace", str_all<is_space>},
    {"isascii", str_all<ascii_char, true>},
    {"isprintable", str_all<printable, true>},
    {"isidentifier", str_isidentifier},
    {"istitle", str_istitle},
    {"isupper",
     [](Interp& in, const Value& s, const Args&) {
       return Value::boolean(in.call_test("upper", {{&s, 1}, {}}));
     }},
    {"islower",
     [](Interp& in, const Value& s, const Args&) {
       return Value::boolean(in.call_test("lower", {{&s, 1}, {}}));
     }},
    {"zfill", str_zfill},
    {"ljust", str_pad<Side::kLeft>},
    {"rjust", str_pad<Side::kRight>},
    {"center", str_pad<Side::kCenter>},
    {"removeprefix", str_remove<true>},
    {"removesuffix", str_remove<false>},
    {"expandtabs", str_expandtabs},
    {"format", str_format},
    {"format_map", str_format_map},
};

}  // namespace

const Method* find_container_method(Tag type, std::string_view name);  // methods_container.cc

const Method* find_method(Tag type, std::string_view name) {
  if (type != Tag::kStr) return find_container_method(type, name);
  for (const Method& m : kStrMethods) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

}  // namespace bora::text::jinja
