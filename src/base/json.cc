#include "base/json.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <unordered_map>

namespace bora {

// Members in text order; `index` exists above kIndexFrom members only.
struct Json::Object {
  static constexpr size_t kIndexFrom = 16;
  std::vector<Member> members;
  std::unordered_map<std::string, size_t> index;

  size_t position(std::string_view key) const {
    if (members.size() > kIndexFrom) {
      auto it = index.find(std::string(key));
      return it == index.end() ? members.size() : it->second;
    }
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i].first == key) return i;
    }
    return members.size();
  }

  void append(std::string key, Json value) {
    members.emplace_back(std::move(key), std::move(value));
    if (members.size() == kIndexFrom + 1) {
      for (size_t i = 0; i < members.size(); ++i) index.emplace(members[i].first, i);
    } else if (members.size() > kIndexFrom + 1) {
      index.emplace(members.back().first, members.size() - 1);
    }
  }

  void set(std::string_view key, Json value) {
    const size_t at = position(key);
    if (at < members.size()) {
      members[at].second = std::move(value);
    } else {
      append(std::string(key), std::move(value));
    }
  }
};

Json Json::array(std::vector<Json> items) {
  Json j;
  j.value_ = std::make_shared<std::vector<Json>>(std::move(items));
  return j;
}

Json Json::object() {
  Json j;
  j.value_ = std::make_shared<Object>();
  return j;
}

Json Json::from_uint64(uint64_t v) {
  if (v <= static_cast<uint64_t>(INT64_MAX)) return Json(static_cast<int64_t>(v));
  Json j;
  j.value_ = v;
  return j;
}

Json::~Json() = default;
Json::Json(Json&& other) noexcept : value_(std::move(other.value_)) { other.value_ = std::monostate{}; }

Json& Json::operator=(Json&& other) noexcept {
  if (this != &other) {
    value_ = std::move(other.value_);
    other.value_ = std::monostate{};
  }
  return *this;
}

// Copies are deep: two values never share children.
Json::Json(const Json& other) : value_(other.value_) {
  if (auto* a = std::get_if<std::shared_ptr<std::vector<Json>>>(&value_))
    *a = std::make_shared<std::vector<Json>>(**a);
  if (auto* o = std::get_if<std::shared_ptr<Object>>(&value_)) *o = std::make_shared<Object>(**o);
}

Json& Json::operator=(const Json& other) {
  if (this != &other) *this = Json(other);
  return *this;
}

bool Json::as_bool() const {
  BORA_CHECK(is_bool(), "Json value is no bool");
  return std::get<bool>(value_);
}

int64_t Json::as_int() const {
  BORA_CHECK(is_int(), "Json value is no integer");
  return std::get<int64_t>(value_);
}

double Json::as_double() const {
  if (is_int()) return static_cast<double>(std::get<int64_t>(value_));
  BORA_CHECK(is_double(), "Json value is no number");
  if (is_uint64()) return static_cast<double>(as_uint64());
  return std::get<double>(value_);
}

uint64_t Json::as_uint64() const {
  BORA_CHECK(is_uint64(), "Json value is no integer above INT64_MAX");
  return std::get<uint64_t>(value_);
}

const std::string& Json::as_string() const {
  BORA_CHECK(is_string(), "Json value is no string");
  return std::get<std::string>(value_);
}

const std::vector<Json>& Json::items() const {
  BORA_CHECK(is_array(), "Json value is no array");
  return *std::get<std::shared_ptr<std::vector<Json>>>(value_);
}

std::vector<Json>& Json::items() {
  BORA_CHECK(is_array(), "Json value is no array");
  return *std::get<std::shared_ptr<std::vector<Json>>>(value_);
}

const std::vector<Json::Member>& Json::members() const {
  BORA_CHECK(is_object(), "Json value is no object");
  return std::get<std::shared_ptr<Object>>(value_)->members;
}

size_t Json::size() const {
  if (is_array()) return items().size();
  if (is_object()) return members().size();
  return 0;
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const Object& object = *std::get<std::shared_ptr<Object>>(value_);
  const size_t at = object.position(key);
  return at < object.members.size() ? &object.members[at].second : nullptr;
}

void Json::set(std::string_view key, Json value) {
  BORA_CHECK(is_object(), "Json value is no object");
  std::get<std::shared_ptr<Object>>(value_)->set(key, std::move(value));
}

void Json::push_back(Json value) { items().push_back(std::move(value)); }

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (is_int() && other.is_int()) return as_int() == other.as_int();
    if (is_uint64() && other.is_uint64()) return as_uint64() == other.as_uint64();
    return as_double() == other.as_double();
  }
  if (type() != other.type()) return false;
  switch (type()) {
    case Type::kNull:
      return true;
    case Type::kBool:
      return as_bool() == other.as_bool();
    case Type::kString:
      return as_string() == other.as_string();
    case Type::kArray:
      return items() == other.items();
    case Type::kObject: {
      if (size() != other.size()) return false;
      for (const Member& m : members()) {
        const Json* theirs = other.find(m.first);
        if (theirs == nullptr || !(m.second == *theirs)) return false;
      }
      return true;
    }
    case Type::kInt:
    case Type::kDouble:
      break;  // handled above
  }
  return false;
}

namespace {

// Length of the valid UTF-8 sequence at text[i], or 0. Overlong forms, surrogates and values above U+10FFFF are
// invalid.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const auto tail = [&](size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
  const unsigned b = byte(i);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    const unsigned c = byte(i + 1);
    if (!tail(i + 1) || !tail(i + 2) || (b == 0xE0 && c < 0xA0) || (b == 0xED && c > 0x9F)) return 0;
    return 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    const unsigned c = byte(i + 1);
    if (!tail(i + 1) || !tail(i + 2) || !tail(i + 3) || (b == 0xF0 && c < 0x90) || (b == 0xF4 && c > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

void append_escape(unsigned char c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\b':
      out->append("\\b");
      return;
    case '\f':
      out->append("\\f");
      return;
    default:
      break;
  }
  static constexpr char kHex[] = "0123456789abcdef";
  out->append("\\u00");
  out->push_back(kHex[c >> 4]);
  out->push_back(kHex[c & 15]);
}

void append_double(double v, std::string* out) {
  if (!std::isfinite(v)) {
    out->append("null");
    return;
  }
  char buffer[40];
  auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  out->append(text);
  if (text.find_first_of(".en") == std::string_view::npos) out->append(".0");
}

void newline(int indent, int level, std::string* out) {
  if (indent < 0) return;
  out->push_back('\n');
  out->append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
}

void dump_value(const Json& j, int indent, int level, std::string* out) {
  switch (j.type()) {
    case Json::Type::kNull:
      out->append("null");
      return;
    case Json::Type::kBool:
      out->append(j.as_bool() ? "true" : "false");
      return;
    case Json::Type::kInt:
      out->append(std::to_string(j.as_int()));
      return;
    case Json::Type::kDouble:
      if (j.is_uint64())
        out->append(std::to_string(j.as_uint64()));
      else
        append_double(j.as_double(), out);
      return;
    case Json::Type::kString:
      json_quote(j.as_string(), out);
      return;
    case Json::Type::kArray: {
      out->push_back('[');
      for (size_t i = 0; i < j.size(); ++i) {
        if (i > 0) out->push_back(',');
        newline(indent, level + 1, out);
        dump_value(j.items()[i], indent, level + 1, out);
      }
      if (j.size() > 0) newline(indent, level, out);
      out->push_back(']');
      return;
    }
    case Json::Type::kObject: {
      out->push_back('{');
      bool first = true;
      for (const Json::Member& m : j.members()) {
        if (!first) out->push_back(',');
        first = false;
        newline(indent, level + 1, out);
        json_quote(m.first, out);
        out->push_back(':');
        if (indent >= 0) out->push_back(' ');
        dump_value(m.second, indent, level + 1, out);
      }
      if (!first) newline(indent, level, out);
      out->push_back('}');
      return;
    }
  }
}

Json convert(simdjson::dom::element e) {
  using simdjson::dom::element_type;
  switch (e.type()) {
    case element_type::NULL_VALUE:
      return {};
    case element_type::BOOL:
      return Json(static_cast<bool>(e));
    case element_type::INT64:
      return Json(static_cast<int64_t>(e));
    case element_type::UINT64:
      return Json::from_uint64(static_cast<uint64_t>(e));
    case element_type::DOUBLE:
      return Json(static_cast<double>(e));
    case element_type::STRING:
      return Json(static_cast<std::string_view>(e));
    case element_type::ARRAY: {
      std::vector<Json> items;
      const simdjson::dom::array array = e;
      for (simdjson::dom::element child : array) items.push_back(convert(child));
      return Json::array(std::move(items));
    }
    case element_type::OBJECT: {
      Json object = Json::object();
      const simdjson::dom::object fields = e;
      for (auto field : fields) object.set(field.key, convert(field.value));
      return object;
    }
  }
  return {};
}

}  // namespace

void json_quote(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t begin = 0;  // first byte not yet copied
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    const size_t length = c < 0x80 ? 0 : utf8_length(text, i);
    if (length > 0) {
      i += length;
      continue;
    }
    out->append(text.substr(begin, i - begin));
    if (c < 0x80) {
      append_escape(c, out);
    } else {
      out->append("\xEF\xBF\xBD");
    }
    begin = ++i;
  }
  out->append(text.substr(begin));
  out->push_back('"');
}

void Json::dump_to(std::string* out, int indent) const { dump_value(*this, indent, 0, out); }

std::string Json::dump(int indent) const {
  std::string out;
  dump_to(&out, indent);
  return out;
}

Result<Json> Json::parse(std::string_view text) {
  if (text.size() > 0xFFFFFFF0u) return invalid_argument("JSON text is larger than 4 GB");
  simdjson::dom::parser parser;
  // The parser counts nesting against this bound before it recurses anywhere, so conversion below is bounded too.
  if (parser.allocate(text.size() + simdjson::SIMDJSON_PADDING, 512) != simdjson::SUCCESS) {
    return resource_exhausted("no memory to parse a JSON text of " + std::to_string(text.size()) + " bytes");
  }
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(text.data(), text.size(), true).get(root);
  if (error != simdjson::SUCCESS) {
    return invalid_argument(std::string("not valid JSON: ") + simdjson::error_message(error));
  }
  return convert(root);
}

}  // namespace bora
