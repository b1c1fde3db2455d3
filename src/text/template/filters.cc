// The list of filters, and those on numbers and objects.
#include "text/template/filters.h"

#include <algorithm>
#include <cmath>

namespace bora::text::jinja {

namespace filters {

Value abs(Interp& in, const Args& args) {
  const Value v = in.bound(args, "abs", Names1{"x"}, 1)[0];
  in.need_defined(v);
  if (!v.is_number()) fail("TypeError", "bad operand type for abs(): '" + std::string(type_name(v)) + "'");
  if (v.tag == Tag::kFloat) return Value::real(std::fabs(v.f));
  return compare_numbers(v, Value::integer(0)) < 0 ? negate(in.heap(), v)
         : v.tag == Tag::kBool                     ? Value::integer(v.b)
                                                   : v;
}

Value attr(Interp& in, const Args& args) {
  const auto a = in.bound(args, "attr", Names2{"obj", "name"}, 2);
  const Str* name = in.need_str(a[1], "attribute name");
  // An attribute only, never an item.
  if (a[0].is_dict() && find_method(Tag::kDict, name->view()) == nullptr) {
    return in.undefined({.kind = Undefined::Kind::kAttribute, .object = a[0], .element = {}, .name = name->view()});
  }
  return in.attribute(a[0], name, nullptr);
}

Value default_value(Interp& in, const Args& args) {
  const auto a = in.bound(args, "default", Names3{"value", "default_value", "boolean"}, 1);
  const bool replaces = a[0].is_undefined() || (!a[2].missing() && in.truth(a[2]) && !in.truth(a[0]));
  if (!replaces) return a[0];
  return a[1].missing() ? in.text("") : a[1];
}

Value to_float(Interp& in, const Args& args) {
  const auto a = in.bound(args, "float", Names2{"value", "default"}, 1);
  in.need_defined(a[0]);
  double d;
  if (a[0].is_number()) return Value::real(to_double(a[0]));
  if (a[0].is_str() && parse_float(a[0].s->view(), &d)) return Value::real(d);
  return a[1].missing() ? Value::real(0) : a[1];
}

Value to_int(Interp& in, const Args& args) {
  const auto a = in.bound(args, "int", Names3{"value", "default", "base"}, 1);
  in.need_defined(a[0]);
  const Value fallback = a[1].missing() ? Value::integer(0) : a[1];
  const int64_t base = a[2].missing() ? 10 : in.need_int(a[2]);
  Value out;
  double d;
  if (a[0].is_str()) {
    const bool good_base = base == 0 || (base >= 2 && base <= 36);
    if (good_base && parse_int(in.heap(), a[0].s->view(), static_cast<int>(base), &out)) return out;
    if (!parse_float(a[0].s->view(), &d) || !std::isfinite(d)) return fallback;
    return float_to_int(in.heap(), d);
  }
  if (a[0].tag == Tag::kBool) return Value::integer(a[0].b);
  if (a[0].tag == Tag::kFloat) {
    if (std::isnan(a[0].f)) return fallback;
    return float_to_int(in.heap(), a[0].f);
  }
  return a[0].is_number() ? a[0] : fallback;
}

Value round(Interp& in, const Args& args) {
  const auto a = in.bound(args, "round", Names3{"value", "precision", "method"}, 1);
  const std::string_view method = a[2].missing() ? "common" : in.need_str(a[2], "method")->view();
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("FilterArgumentError", "method must be common, ceil or floor");
  }
  in.need_defined(a[0]);
  if (!a[0].is_number())
    fail("TypeError", "type " + std::string(type_name(a[0])) + " doesn't define __round__ method");
  const int64_t precision = a[1].missing() ? 0 : std::clamp<int64_t>(in.need_int(a[1]), -400, 400);
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision)), v = to_double(a[0]) * scale;
    return Value::real((method == "ceil" ? std::ceil(v) : std::floor(v)) / scale);
  }
  if (a[0].tag != Tag::kFloat) {
    if (precision >= 0) return a[0].tag == Tag::kBool ? Value::integer(a[0].b) : a[0];
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return float_to_int(in.heap(), std::nearbyint(to_double(a[0]) / scale) * scale);
  }
  if (!std::isfinite(a[0].f)) return a[0];
  if (precision >= 0) {
    // The decimal expansion rounds exactly, half to even, as Python's.
    double rounded = 0;
    parse_float(format_real(a[0].f, 'f', static_cast<int>(precision), false), &rounded);
    return Value::real(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return Value::real(std::nearbyint(a[0].f / scale) * scale);
}

}  // namespace filters

namespace {

constexpr Filter kFilters[] = {
    {"abs", filters::abs},
    {"attr", filters::attr},
    {"batch", filters::batch},
    {"capitalize", filters::capitalize},
    {"center", filters::center},
    {"count", filters::length},
    {"d", filters::default_value},
    {"default", filters::default_value},
    {"dictsort", filters::dictsort},
    {"e", filters::escape},
    {"escape", filters::escape},
    {"filesizeformat", filters::filesizeformat},
    {"first", filters::first},
    {"float", filters::to_float},
    {"forceescape", filters::forceescape},
    {"format", filters::format},
    {"groupby", filters::groupby},
    {"indent", filters::indent},
    {"int", filters::to_int},
    {"items", filters::items},
    {"join", filters::join_items},
    {"last", filters::last},
    {"length", filters::length},
    {"list", filters::list},
    {"lower", filters::lower},
    {"map", filters::map},
    {"max", filters::max},
    {"min", filters::min},
    {"pprint", filters::pprint},
    {"random", filters::random},
    {"reject", filters::reject},
    {"rejectattr", filters::rejectattr},
    {"replace", filters::replace_text},
    {"reverse", filters::reverse},
    {"round", filters::round},
    {"safe", filters::safe},
    {"select", filters::select},
    {"selectattr", filters::selectattr},
    {"slice", filters::slices},
    {"sort", filters::sort},
    {"string", filters::string},
    {"striptags", filters::striptags},
    {"sum", filters::sum},
    {"title", filters::title},
    {"tojson", filters::tojson},
    {"trim", filters::trim},
    {"truncate", filters::truncate},
    {"unique", filters::unique},
    {"upper", filters::upper},
    {"urlencode", filters::urlencode},
    {"urlize", filters::urlize},
    {"wordcount", filters::wordcount},
    {"wordwrap", filters::wordwrap},
    {"xmlattr", filters::xmlattr},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Filter& f) { return f.name == name; });
  return at == std::end(kFilters) ? nullptr : at;
}

}  // namespace bora::text::jinja
