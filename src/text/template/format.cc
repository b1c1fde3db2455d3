// The three ways Python formats: `%`, str.format and format specifications; and dates as strftime prints them in the
// C locale.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/template/interp.h"

namespace bora::text::jinja {

std::string format_real(double v, char type, int precision, bool alternate) {
  if (std::isnan(v)) return type >= 'A' && type <= 'Z' ? "NAN" : "nan";
  if (std::isinf(v)) return std::string(v < 0 ? "-" : "") + (type >= 'A' && type <= 'Z' ? "INF" : "inf");
  precision = std::clamp(precision, 0, 400);
  char pattern[16];
  std::snprintf(pattern, sizeof pattern, alternate ? "%%#.*%c" : "%%.*%c", type);
  char buffer[1200];
  const int n = std::snprintf(buffer, sizeof buffer, pattern, precision, v);
  return {buffer, static_cast<size_t>(std::clamp(n, 0, static_cast<int>(sizeof buffer) - 1))};
}

namespace {

constexpr int64_t kMaxWidth = 1 << 20;

struct Spec {
  const Str* fill = nullptr;
  std::string fill_text = " ";
  char align = 0, sign = 0, type = 0, grouping = 0;
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
};

bool read_number(std::string_view* spec, int64_t* out) {
  if (spec->empty() || spec->front() < '0' || spec->front() > '9') return false;
  *out = 0;
  while (!spec->empty() && spec->front() >= '0' && spec->front() <= '9') {
    *out = *out * 10 + (spec->front() - '0');
    if (*out > kMaxWidth) fail_limit("a format width is too large");
    spec->remove_prefix(1);
  }
  return true;
}

Spec parse_spec(std::string_view spec) {
  Spec s;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (!spec.empty()) {
    const size_t n = char_size(spec, 0);
    if (spec.size() > n && is_align(spec[n])) {
      s.fill_text = std::string(spec.substr(0, n));
      s.align = spec[n];
      spec.remove_prefix(n + 1);
    } else if (is_align(spec[0])) {
      s.align = spec[0];
      spec.remove_prefix(1);
    }
  }
  const auto take = [&](char c) {
    if (spec.empty() || spec[0] != c) return false;
    spec.remove_prefix(1);
    return true;
  };
  for (const char c : {'+', '-', ' '}) {
    if (s.sign == 0 && take(c)) s.sign = c;
  }
  s.alternate = take('#');
  s.zero = take('0');
  read_number(&spec, &s.width);
  if (take(','))
    s.grouping = ',';
  else if (take('_'))
    s.grouping = '_';
  if (take('.') && !read_number(&spec, &s.precision)) fail("ValueError", "Format specifier missing precision");
  if (!spec.empty()) {
    s.type = spec[0];
    spec.remove_prefix(1);
  }
  if (!spec.empty()) fail("ValueError", "Invalid format specifier");
  return s;
}

std::string grouped(std::string digits, char separator, size_t every) {
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = end; at > every; at -= every) digits.insert(at - every, 1, separator);
  return digits;
}

void pad_out(const Str& body, const Spec& s, char fallback, std::string_view sign, StrBuilder* out) {
  const auto have = static_cast<int64_t>(char_count(body) + sign.size());
  const int64_t total = std::max<int64_t>(0, s.width - have);
  const char align = s.align != 0 ? s.align : s.zero ? '=' : fallback;
  const std::string fill = s.zero && s.align == 0 ? "0" : s.fill_text;
  const int64_t before = align == '<' ? 0 : align == '^' ? total / 2 : total;
  const auto repeat = [&](int64_t n) {
    for (int64_t i = 0; i < n; ++i) out->append(fill, true);
  };
  if (align == '=') out->append(sign, true);
  repeat(before);
  if (align != '=') out->append(sign, true);
  out->append(body);
  repeat(total - before);
}

std::string digits_of(Interp& in, const Value& v, const Spec& s, std::string* sign) {
  const bool real = v.tag == Tag::kFloat || std::string_view("eEfFgG%").find(s.type) != std::string_view::npos;
  std::string text;
  if (real && s.type != 0) {
    const double d = to_double(v) * (s.type == '%' ? 100 : 1);
    text = format_real(d, s.type == '%' ? 'f' : s.type, s.precision < 0 ? 6 : static_cast<int>(s.precision),
                       s.alternate);
    if (s.type == '%') text += '%';
  } else if (real) {
    text =
        s.precision < 0 ? float_repr(v.f) : format_real(v.f, 'g', std::max(1, static_cast<int>(s.precision)), false);
    if (s.precision >= 0 && text.find_first_of(".en") == std::string::npos) text += ".0";
  } else if (s.type == 'c') {
    const int64_t code = in.need_int(v);
    if (code < 0 || code > 0x10FFFF) fail("OverflowError", "%c arg not in range(0x110000)");
    encode(static_cast<uint32_t>(code), &text);
    return text;
  } else {
    const char t = static_cast<char>(s.type | 0x20);
    if (s.type != 0 && std::string_view("bdnox").find(t) == std::string_view::npos) {
      fail("ValueError", std::string("Unknown format code '") + s.type + "' for object of type 'int'");
    }
    if (s.precision >= 0) fail("ValueError", "Precision not allowed in integer format specifier");
    text = int_text_base(v, t == 'b' ? 2 : t == 'o' ? 8 : t == 'x' ? 16 : 10);
    if (s.type == 'X')
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  }
  if (!text.empty() && text[0] == '-') {
    *sign = "-";
    text.erase(0, 1);
  } else if (s.sign == '+' || s.sign == ' ') {
    *sign = std::string(1, s.sign);
  }
  if (s.grouping != 0)
    text = grouped(std::move(text), s.grouping, s.type == 'x' || s.type == 'X' || s.type == 'b' ? 4 : 3);
  if (!real && s.alternate && std::string_view("boxX").find(s.type) != std::string_view::npos)
    *sign += std::string("0") + s.type;
  return text;
}

}  // namespace

void format_value(Interp& in, const Value& v, std::string_view spec, StrBuilder* out) {
  if (spec.empty()) return append_str(in, v, out);
  const Spec s = parse_spec(spec);
  in.tick(s.width / 16);
  if (v.is_number() && v.tag != Tag::kBool) {
    std::string sign;
    const std::string text = digits_of(in, v, s, &sign);
    return pad_out(*in.str(text), s, '>', sign, out);
  }
  if (v.tag == Tag::kBool && s.type != 0 && s.type != 's') {
    std::string sign;
    const std::string text = digits_of(in, Value::integer(v.b), s, &sign);
    return pad_out(*in.str(text), s, '>', sign, out);
  }
  if (!v.is_str() && v.tag != Tag::kBool) {
    fail("TypeError", "unsupported format string passed to " + std::string(type_name(v)) + ".__format__");
  }
  if (s.type != 0 && s.type != 's') {
    fail("ValueError", std::string("Unknown format code '") + s.type + "' for object of type 'str'");
  }
  const Str* text = in.to_str(v);
  if (s.precision >= 0) text = slice(in.heap(), *text, 0, byte_of_char(*text, static_cast<size_t>(s.precision)));
  pad_out(*text, s, '<', {}, out);
}

// ---- %

namespace {

// One conversion of a % format.
struct Percent {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  int64_t width = 0, precision = -1;
};

class PercentFormatter {
 public:
  PercentFormatter(Interp& in, const Str& format, const Value& args)
      : in_(in), format_(format), args_(args), out_(in.text_limit()) {
    if (args.tag == Tag::kTuple) {
      items_ = args.list->items;
      count_ = args.list->size;
    } else {
      items_ = &args_;
      count_ = 1;
    }
  }

  const Str* run() {
    const std::string_view f = format_.view();
    size_t plain = 0;
    for (size_t i = f.find('%'); i != std::string_view::npos; i = f.find('%', plain)) {
      out_.append_slice(format_, plain, i);
      plain = conversion(i + 1);
    }
    out_.append_slice(format_, plain, f.size());
    if (used_ < count_ && !mapped_ && !(args_.is_dict() || args_.is_list()) &&
        !(count_ == 1 && args_.is_undefined())) {
      fail("TypeError", "not all arguments converted during string formatting");
    }
    return out_.finish(in_.heap());
  }

 private:
  Value next() {
    if (used_ >= count_) fail("TypeError", "not enough arguments for format string");
    return items_[used_++];
  }

  size_t conversion(size_t i) {
    const std::string_view f = format_.view();
    Percent p;
    Value v;
    if (i < f.size() && f[i] == '(') {
      const size_t close = f.find(')', i);
      if (close == std::string_view::npos) fail("ValueError", "incomplete format key");
      if (!args_.is_dict()) fail("TypeError", "format requires a mapping");
      const Value* found = args_.dict->find(f.substr(i + 1, close - i - 1));
      if (found == nullptr) fail("KeyError", "'" + std::string(f.substr(i + 1, close - i - 1)) + "'");
      v = *found;
      mapped_ = true;
      i = close + 1;
    }
    for (; i < f.size(); ++i) {
      if (f[i] == '-')
        p.left = true;
      else if (f[i] == '0')
        p.zero = true;
      else if (f[i] == '+')
        p.plus = true;
      else if (f[i] == ' ')
        p.space = true;
      else if (f[i] == '#')
        p.alternate = true;
      else
        break;
    }
    i = number(i, &p.width);
    if (p.width < 0) {
      p.left = true;
      p.width = -p.width;
    }
    if (i < f.size() && f[i] == '.') {
      p.precision = 0;
      i = number(i + 1, &p.precision);
    }
    while (i < f.size() && (f[i] == 'l' || f[i] == 'h' || f[i] == 'L')) ++i;
    if (i >= f.size()) fail("ValueError", "incomplete format");
    if (f[i] == '%') {
      out_.push('%', origin_at(format_, i));
    } else {
      convert(f[i], p, v.missing() ? next() : v);
    }
    return i + 1;
  }

  size_t number(size_t i, int64_t* out) {
    const std::string_view f = format_.view();
    if (i < f.size() && f[i] == '*') {
      *out = in_.need_int(next());
      if (*out > kMaxWidth || *out < -kMaxWidth) fail_limit("a format width is too large");
      return i + 1;
    }
    std::string_view rest = f.substr(i);
    read_number(&rest, out);
    return f.size() - rest.size();
  }

  void convert(char type, const Percent& p, const Value& v) {
    in_.tick(p.width / 16);
    if (type == 's' || type == 'r' || type == 'a') {
      StrBuilder text(in_.text_limit());
      if (type == 's')
        append_str(in_, v, &text);
      else
        append_repr(in_, v, &text, 0);
      const Str* s = text.finish(in_.heap());
      if (p.precision >= 0) s = slice(in_.heap(), *s, 0, byte_of_char(*s, static_cast<size_t>(p.precision)));
      return pad(*s, {}, p, false);
    }
    if (type == 'c') return character(p, v);
    if (std::string_view("diuoxXeEfFgG").find(type) == std::string_view::npos) {
      fail("ValueError", std::string("unsupported format character '") + type + "'");
    }
    if (v.is_undefined()) in_.fail_undefined(v);
    if (!v.is_number()) {
      const bool real = std::string_view("eEfFgG").find(type) != std::string_view::npos;
      fail("TypeError",
           real ? "must be real number, not " + std::string(type_name(v))
                : std::string("%") + type + " format: a real number is required, not " + std::string(type_name(v)));
    }
    std::string text = digits(type, p, v), sign;
    if (text[0] == '-') {
      sign = "-";
      text.erase(0, 1);
    } else if (p.plus || p.space) {
      sign = p.plus ? "+" : " ";
    }
    if (p.alternate && (type == 'x' || type == 'X' || type == 'o')) sign += std::string("0") + type;
    pad(*in_.str(text), sign, p, p.zero);
  }

  std::string digits(char type, const Percent& p, const Value& v) {
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      return format_real(to_double(v), type, p.precision < 0 ? 6 : static_cast<int>(p.precision), p.alternate);
    }
    if (v.tag == Tag::kFloat && (type == 'o' || type == 'x' || type == 'X')) {
      fail("TypeError", std::string("%") + type + " format: an integer is required, not float");
    }
    const Value whole = v.tag == Tag::kFloat ? float_to_int(in_.heap(), v.f) : v;
    std::string text = int_text_base(whole, type == 'o' ? 8 : (type | 0x20) == 'x' ? 16 : 10);
    if (type == 'X')
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
    const size_t sign = text[0] == '-' ? 1 : 0;
    if (p.precision > static_cast<int64_t>(text.size() - sign)) {
      text.insert(sign, static_cast<size_t>(p.precision) - (text.size() - sign), '0');
    }
    return text;
  }

  void character(const Percent& p, const Value& v) {
    if (v.is_str()) {
      if (char_count(*v.s) != 1) fail("TypeError", "%c requires int or char");
      return pad(*v.s, {}, p, false);
    }
    const int64_t code = in_.need_int(v);
    if (code < 0 || code > 0x10FFFF) fail("OverflowError", "%c arg not in range(0x110000)");
    std::string text;
    encode(static_cast<uint32_t>(code), &text);
    pad(*in_.str(text), {}, p, false);
  }

  void pad(const Str& body, std::string_view sign, const Percent& p, bool zero) {
    const int64_t total = std::max<int64_t>(0, p.width - static_cast<int64_t>(char_count(body) + sign.size()));
    const std::string fill(static_cast<size_t>(total), zero && !p.left ? '0' : ' ');
    if (!p.left && !zero) out_.append(fill, true);
    out_.append(sign, true);
    if (!p.left && zero) out_.append(fill, true);
    out_.append(body);
    if (p.left) out_.append(fill, true);
  }

  Interp& in_;
  const Str& format_;
  Value args_;
  StrBuilder out_;
  const Value* items_;
  size_t count_, used_ = 0;
  bool mapped_ = false;
};

}  // namespace

const Str* percent_format(Interp& in, const Str& format, const Value& args) {
  return PercentFormatter(in, format, args).run();
}

// ---- str.format

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Interp& in, const Args& args) : in_(in), args_(args) {}

  void run(const Str& format, StrBuilder* out, int depth) {
    if (depth > 2) fail("ValueError", "Max string recursion exceeded");
    const std::string_view f = format.view();
    size_t plain = 0;
    for (size_t i = 0; i < f.size();) {
      if (f[i] != '{' && f[i] != '}') {
        ++i;
        continue;
      }
      out->append_slice(format, plain, i);
      if (i + 1 < f.size() && f[i + 1] == f[i]) {
        out->append_slice(format, i, i + 1);
        i += 2;
      } else if (f[i] == '}') {
        fail("ValueError", "Single '}' encountered in format string");
      } else {
        i = field(format, i + 1, out, depth);
      }
      plain = i;
    }
    out->append_slice(format, plain, f.size());
  }

 private:
  size_t field(const Str& format, size_t begin, StrBuilder* out, int depth) {
    const std::string_view f = format.view();
    int open = 1;
    size_t end = begin;
    for (; end < f.size() && open > 0; ++end) open += f[end] == '{' ? 1 : f[end] == '}' ? -1 : 0;
    if (open > 0) fail("ValueError", "expected '}' before end of string");
    std::string_view body = f.substr(begin, end - 1 - begin);
    const size_t cut = body.find_first_of("!:");
    std::string_view name = body.substr(0, cut), spec;
    char conversion = 0;
    if (cut != std::string_view::npos && body[cut] == '!') {
      if (cut + 1 >= body.size()) fail("ValueError", "end of string while looking for conversion specifier");
      conversion = body[cut + 1];
      if (cut + 2 < body.size() && body[cut + 2] == ':')
        spec = body.substr(cut + 3);
      else if (cut + 2 < body.size())
        fail("ValueError", "expected ':' after conversion specifier");
    } else if (cut != std::string_view::npos) {
      spec = body.substr(cut + 1);
    }
    Value v = lookup(name);
    if (conversion == 'r' || conversion == 'a') {
      StrBuilder text(in_.text_limit());
      append_repr(in_, v, &text, 0);
      v = Value::str(text.finish(in_.heap()));
    } else if (conversion == 's') {
      v = Value::str(in_.to_str(v));
    } else if (conversion != 0) {
      fail("ValueError", std::string("Unknown conversion specifier ") + conversion);
    }
    StrBuilder inner(4096);
    run(*in_.str(spec), &inner, depth + 1);
    format_value(in_, v, inner.view(), out);
    return end;
  }

  Value lookup(std::string_view name) {
    const size_t cut = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, cut));
    name.remove_prefix(cut);
    while (!name.empty()) {
      in_.tick();
      if (name[0] == '.') {
        const size_t end = std::min(name.find_first_of(".[", 1), name.size());
        v = in_.attribute(v, in_.str(name.substr(1, end - 1)), nullptr);
        name.remove_prefix(end);
      } else {
        const size_t end = name.find(']');
        if (name[0] != '[' || end == std::string_view::npos) fail("ValueError", "Missing ']' in format string");
        v = in_.item(v, key_of(name.substr(1, end - 1)));
        name.remove_prefix(end + 1);
      }
    }
    return v;
  }

  Value key_of(std::string_view text) {
    Value v;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && parse_int(in_.heap(), text, 10, &v)) return v;
    return in_.text(text);
  }

  Value first(std::string_view name) {
    Value key = name.empty() ? Value::integer(next_++) : key_of(name);
    if (key.tag == Tag::kInt) {
      if (static_cast<uint64_t>(key.i) >= args_.pos.size()) {
        fail("IndexError", "Replacement index " + std::to_string(key.i) + " out of range for positional args tuple");
      }
      return args_.pos[static_cast<size_t>(key.i)];
    }
    for (const KeyValue& kv : args_.named) {
      if (kv.key->view() == name) return kv.value;
    }
    fail("KeyError", "'" + std::string(name) + "'");
  }

  Interp& in_;
  const Args& args_;
  int64_t next_ = 0;
};

}  // namespace

const Str* brace_format(Interp& in, const Str& format, const Args& args) {
  StrBuilder out(in.text_limit());
  BraceFormatter(in, args).run(format, &out, 0);
  return out.finish(in.heap());
}

}  // namespace bora::text::jinja
