// Logic of schemas: expansion into alternatives.
#include "text/grammar/schema_model.h"

#include <algorithm>

namespace bora::text {
namespace {

constexpr size_t kMaxAlternatives = 512;

std::string pointer_token(std::string_view key) {
  std::string out = "/";
  for (char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

// The JSON pointer of a node of the document, found by address.
std::string pointer_of(const Json& root, const Json* node) {
  struct Entry {
    const Json* at;
    std::string path;
  };
  std::vector<Entry> work = {{&root, "#"}};
  while (!work.empty()) {
    Entry e = std::move(work.back());
    work.pop_back();
    if (e.at == node) return e.path;
    if (e.at->is_object()) {
      for (const auto& [key, value] : e.at->members()) {
        if (value.is_object() || value.is_array() || &value == node)
          work.push_back({&value, e.path + pointer_token(key)});
      }
    } else if (e.at->is_array()) {
      for (size_t i = 0; i < e.at->size(); ++i) {
        const Json& item = e.at->items()[i];
        if (item.is_object() || item.is_array() || &item == node)
          work.push_back({&item, e.path + "/" + std::to_string(i)});
      }
    }
  }
  return "#";
}

}  // namespace

SchemaModel::SchemaModel(const Json& root, const GrammarLimits& limits) : root_(root), limits_(limits) {}

Status SchemaModel::fail(const Json* node, std::string_view keyword, std::string_view what) const {
  std::string path = pointer_of(root_, node);
  if (!keyword.empty()) path += pointer_token(keyword);
  return invalid_argument("schema " + path + ": " + std::string(what));
}

Status SchemaModel::multiply(Alternatives* into, const Alternatives& with, const Json* node) const {
  Alternatives out;
  for (const Alternative& a : *into) {
    for (const Alternative& b : with) {
      auto merged = merge(a, b);
      if (!merged.ok()) return fail(node, "", merged.status().message());
      if (*merged) out.push_back(std::move(**merged));
      if (out.size() > kMaxAlternatives) return fail(node, "", "too many combinations of alternatives");
    }
  }
  *into = std::move(out);
  return ok_status();
}

Result<Alternatives> SchemaModel::expand(const RefSet& refs) {
  // A new value: references that are open around it are no cycle here.
  Refs outer;
  outer.swap(open_refs_);
  Alternatives out(1);
  for (SchemaRef r : refs) {
    BORA_ASSIGN(Alternatives one, expand_one(r, 0));
    BORA_TRY(multiply(&out, one, r.node));
  }
  open_refs_.swap(outer);
  return out;
}

Result<Alternatives> SchemaModel::expand_one(SchemaRef ref, int depth) {
  const Json& s = *ref.node;
  if (s.is_bool()) return Alternatives(s.as_bool() != ref.negated ? 1 : 0);
  if (!s.is_object()) return fail(&s, "", "a schema is an object or a boolean");
  if (depth > limits_.depth) return fail(&s, "", "nested too deeply");
  BORA_TRY(check_keywords(s));
  return ref.negated ? expand_negated(s, depth) : expand_plain(s, depth);
}

Result<Alternatives> SchemaModel::expand_plain(const Json& s, int depth) {
  Alternatives out(1);
  BORA_TRY(read_simple(s, &out[0]));
  if (out[0].types == 0) return Alternatives();
  if (s.find("$ref")) {
    BORA_ASSIGN(const Json* target, resolve(s));
    open_refs_.push_back(target);
    BORA_ASSIGN(Alternatives a, expand_one({target, false}, depth + 1));
    open_refs_.pop_back();
    BORA_TRY(multiply(&out, a, &s));
  }
  for (std::string_view key : {"allOf", "anyOf"}) {
    if (!s.find(key)) continue;
    BORA_ASSIGN(Alternatives a, expand_list(s, key, false, depth));
    BORA_TRY(multiply(&out, a, &s));
  }
  if (s.find("oneOf")) {
    BORA_ASSIGN(Alternatives a, expand_one_of(s, depth));
    BORA_TRY(multiply(&out, a, &s));
  }
  if (const Json* n = s.find("not")) {
    BORA_ASSIGN(Alternatives a, expand_one({n, true}, depth + 1));
    BORA_TRY(multiply(&out, a, &s));
  }
  if (s.find("if")) {
    BORA_ASSIGN(Alternatives a, expand_if(s, false, depth));
    BORA_TRY(multiply(&out, a, &s));
  }
  return out;
}

// allOf multiplies and anyOf joins; negated the other way round, each member negated.
Result<Alternatives> SchemaModel::expand_list(const Json& s, std::string_view key, bool negated, int depth) {
  const Json& list = *s.find(key);
  if (!list.is_array() || list.size() == 0) return fail(&s, key, "needs a list of schemas");
  bool all = (key == "allOf") != negated;
  Alternatives out(all ? 1 : 0);
  for (const Json& item : list.items()) {
    BORA_ASSIGN(Alternatives a, expand_one({&item, negated}, depth + 1));
    if (all) {
      BORA_TRY(multiply(&out, a, &s));
    } else {
      out.insert(out.end(), std::make_move_iterator(a.begin()), std::make_move_iterator(a.end()));
    }
    if (out.size() > kMaxAlternatives) return fail(&s, key, "too many alternatives");
  }
  return out;
}

// Branches that provably exclude each other are joined; else each is taken together with "not the others".
Result<Alternatives> SchemaModel::expand_one_of(const Json& s, int depth) {
  const Json& list = *s.find("oneOf");
  if (!list.is_array() || list.size() == 0) return fail(&s, "oneOf", "needs a list of schemas");
  std::vector<Alternatives> branches;
  for (const Json& item : list.items()) {
    BORA_ASSIGN(Alternatives a, expand_one({&item, false}, depth + 1));
    branches.push_back(std::move(a));
  }
  size_t count = branches.size();
  if (count > 64) return fail(&s, "oneOf", "more than 64 branches are not supported");
  std::vector<char> overlap(count * count, 0);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      Alternatives both = branches[i];
      BORA_TRY(multiply(&both, branches[j], &s));
      for (const Alternative& a : both) {
        BORA_ASSIGN(bool none, impossible(a, 0));
        if (!none) overlap[i * count + j] = overlap[j * count + i] = 1;
      }
    }
  }
  Alternatives out;
  for (size_t i = 0; i < count; ++i) {
    Alternatives mine = std::move(branches[i]);
    for (size_t j = 0; j < count; ++j) {
      if (!overlap[i * count + j]) continue;
      auto others = expand_one({&list.items()[j], true}, depth + 1);
      if (!others.ok()) {
        return fail(&s, "oneOf", "branches overlap and cannot be told apart (" + others.status().message() + ")");
      }
      BORA_TRY(multiply(&mine, *others, &s));
    }
    out.insert(out.end(), std::make_move_iterator(mine.begin()), std::make_move_iterator(mine.end()));
  }
  return out;
}

Result<Alternatives> SchemaModel::expand_if(const Json& s, bool negated, int depth) {
  Alternatives out;
  for (bool holds : {true, false}) {
    BORA_ASSIGN(Alternatives branch, expand_one({s.find("if"), !holds}, depth + 1));
    const Json* then = s.find(holds ? "then" : "else");
    BORA_ASSIGN(Alternatives rest, expand_one({then ? then : &true_, negated}, depth + 1));
    BORA_TRY(multiply(&branch, rest, &s));
    out.insert(out.end(), std::make_move_iterator(branch.begin()), std::make_move_iterator(branch.end()));
  }
  return out;
}

Result<Alternatives> SchemaModel::expand_negated(const Json& s, int depth) {
  for (std::string_view key : {"items", "prefixItems", "additionalProperties", "patternProperties", "propertyNames",
                               "format", "multipleOf", "oneOf"}) {
    if (s.find(key)) return fail(&s, key, "is not supported under \"not\" or \"if\"");
  }
  Alternatives out;
  BORA_TRY(negate_simple(s, &out));
  auto join = [&out](Result<Alternatives> more) -> Status {
    if (!more.ok()) return std::move(more).take_status();
    out.insert(out.end(), more->begin(), more->end());
    return ok_status();
  };
  if (s.find("$ref")) {
    BORA_ASSIGN(const Json* target, resolve(s));
    open_refs_.push_back(target);
    BORA_TRY(join(expand_one({target, true}, depth + 1)));
    open_refs_.pop_back();
  }
  if (s.find("allOf")) BORA_TRY(join(expand_list(s, "allOf", true, depth)));
  if (s.find("anyOf")) BORA_TRY(join(expand_list(s, "anyOf", true, depth)));
  if (const Json* n = s.find("not")) BORA_TRY(join(expand_one({n, false}, depth + 1)));
  if (s.find("if")) BORA_TRY(join(expand_if(s, true, depth)));
  if (out.size() > kMaxAlternatives) return fail(&s, "", "too many combinations of alternatives");
  return out;
}

Status SchemaModel::negate_simple(const Json& s, Alternatives* out) {
  Alternative plain;
  BORA_TRY(read_simple(s, &plain));
  auto add = [out](uint8_t types) -> Alternative& {
    out->emplace_back();
    out->back().types = types;
    return out->back();
  };
  Alternative typed;
  BORA_TRY(read_types(s, &typed));
  if (typed.types != kAllTypes) add(static_cast<uint8_t>(kAllTypes & ~typed.types));
  if (const Json* e = s.find("enum")) {
    for (const Json& v : e->items()) typed.excluded.push_back(&v);
    add(kAllTypes).excluded = std::move(typed.excluded);
  }
  if (const Json* c = s.find("const")) add(kAllTypes).excluded = {c};
  if (plain.number.min) {
    Alternative& a = add(kNumeric);
    a.number.max = plain.number.min;
    a.number.open_max = !plain.number.open_min;
  }
  if (plain.number.max) {
    Alternative& a = add(kNumeric);
    a.number.min = plain.number.max;
    a.number.open_min = !plain.number.open_max;
  }
  if (plain.min_length > 0) add(kText).max_length = plain.min_length - 1;
  if (plain.max_length != kUnbounded) add(kText).min_length = plain.max_length + 1;
  if (plain.min_items > 0) add(kList).max_items = plain.min_items - 1;
  if (plain.max_items != kUnbounded) add(kList).min_items = plain.max_items + 1;
  if (plain.min_members > 0) add(kObject).max_members = plain.min_members - 1;
  if (plain.max_members != kUnbounded) add(kObject).min_members = plain.max_members + 1;
  for (const PatternRef& p : plain.patterns) add(kText).patterns.push_back({p.text, true});
  for (const std::string& name : plain.required) add(kObject).members.emplace_back(name, never());
  if (const Json* props = s.find("properties")) {
    for (const auto& [name, schema] : props->members()) {
      Alternative& a = add(kObject);
      a.required.push_back(name);
      a.members.emplace_back(name, SchemaRef{&schema, true});
    }
  }
  return ok_status();
}

Result<bool> SchemaModel::impossible(const Alternative& alt, int depth) {
  if (alt.values) {
    for (const Json* v : *alt.values) {
      BORA_ASSIGN(bool ok, admits_shape(alt, *v));
      if (ok) return false;
    }
    return true;
  }
  if ((alt.types & (kNull | kBool)) != 0) return false;
  if ((alt.types & kNumeric) != 0) {
    NumberRange range = alt.number;
    if ((alt.types & kFraction) == 0 && range.multiple == 0) range.multiple = 1;
    if (satisfiable(range)) return false;
  }
  if ((alt.types & kText) != 0 && alt.min_length <= alt.max_length) return false;
  if ((alt.types & kList) != 0 && alt.min_items <= alt.max_items) return false;
  if ((alt.types & kObject) == 0 || alt.min_members > alt.max_members) return true;
  if (alt.required.size() > alt.max_members) return true;
  if (depth >= 3) return false;
  for (const std::string& name : alt.required) {
    BORA_ASSIGN(RefSet refs, member_refs(alt, name));
    BORA_ASSIGN(Alternatives inner, expand(refs));
    bool none = true;
    for (const Alternative& a : inner) {
      BORA_ASSIGN(bool dead, impossible(a, depth + 1));
      none = none && dead;
    }
    if (none) return true;
  }
  return false;
}

RefSet SchemaModel::element_refs(const Alternative& alt, size_t index) const {
  RefSet out;
  for (const Json* layer : alt.list_layers) {
    const Json* prefix = layer->find("prefixItems");
    if (prefix && index < prefix->size()) {
      out.push_back({&prefix->items()[index], false});
    } else if (const Json* items = layer->find("items")) {
      out.push_back({items, false});
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<RefSet> SchemaModel::member_refs(const Alternative& alt, const std::string& name) {
  RefSet out;
  for (const Json* layer : alt.object_layers) {
    bool covered = false;
    const Json* props = layer->find("properties");
    if (const Json* p = props ? props->find(name) : nullptr) {
      out.push_back({p, false});
      covered = true;
    }
    if (const Json* patterns = layer->find("patternProperties")) {
      for (const auto& [pattern, schema] : patterns->members()) {
        BORA_ASSIGN(bool match, pattern_matches(pattern, name));
        if (match) out.push_back({&schema, false});
        covered = covered || match;
      }
    }
    const Json* rest = layer->find("additionalProperties");
    if (!covered && rest) out.push_back({rest, false});
  }
  for (const auto& [member, ref] : alt.members) {
    if (member == name) out.push_back(ref);
  }
  if (!alt.names.empty()) {
    BORA_ASSIGN(bool ok, admits(alt.names, Json(name)));
    if (!ok) out.push_back(never());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace bora::text
