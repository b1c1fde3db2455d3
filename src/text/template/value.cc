#include "text/template/value.h"

#include <algorithm>
#include <cstddef>

#include "text/template/number.h"

namespace bora::text::jinja {

void fail(std::string_view type, std::string message) { throw Failure{std::string(type), std::move(message)}; }
void fail_limit(std::string message) { throw Failure{"limit", std::move(message), false, true}; }

// ---- Heap

namespace {
constexpr size_t kChunk = 16 << 10;
}

void Heap::too_much() { fail_limit("the template needs more than " + std::to_string(limit_) + " bytes of memory"); }

void Heap::refill(Bump* bump, size_t bytes, size_t chunk) {
  // Chunks grow with use, so that their number stays logarithmic in what a render needs.
  size_t size = std::max(bytes, std::max(chunk, std::min<size_t>(used_ / 2, 4 << 20)));
  if (bytes > limit_ || used_ + bytes > limit_) too_much();
  size = std::min(size, limit_ - used_);
  size = (size + 7) & ~size_t{7};
  chunks_.push_back(std::unique_ptr<char[]>(new char[size]));
  bump->top = chunks_.back().get();
  bump->end = bump->top + size;
  used_ += size;
}

void* Heap::allocate(size_t bytes) {
  bytes = (bytes + 7) & ~size_t{7};
  if (static_cast<size_t>(objects_.end - objects_.top) < bytes) refill(&objects_, bytes, kChunk);
  void* at = objects_.top;
  objects_.top += bytes;
  return at;
}

char* Heap::extend_in(Bump* bump, const char* data, size_t size, size_t extra) {
  const size_t room = static_cast<size_t>(bump->end - bump->top);
  if (size > 0 && data + size == bump->top && room >= extra) {
    bump->top += extra;
    return const_cast<char*>(data);  // our own memory; only bytes past the old end are written
  }
  if (room < size + extra) refill(bump, size + extra, std::max(kChunk, 2 * (size + extra)));
  char* at = bump->top;
  if (size > 0) std::memcpy(at, data, size);
  bump->top += size + extra;
  return at;
}

char* Heap::extend(const char* data, size_t size, size_t extra) { return extend_in(&bytes_, data, size, extra); }

RunStart* Heap::extend_runs(const RunStart* data, size_t count, size_t extra) {
  static_assert(sizeof(RunStart) == 8 && std::is_trivially_copyable_v<RunStart>);
  char* at =
      extend_in(&runs_, reinterpret_cast<const char*>(data), count * sizeof(RunStart), extra * sizeof(RunStart));
  return reinterpret_cast<RunStart*>(at);
}

// ---- Containers

void List::push(Heap& heap, Value v) {
  if (size == capacity) {
    const uint32_t wider = capacity == 0 ? 4 : capacity * 2;
    Value* moved = heap.array<Value>(wider);
    std::copy(items, items + size, moved);
    items = moved;
    capacity = wider;
  }
  items[size++] = v;
}

template <typename Match>
Value* Dict::lookup(uint64_t hash, Match match) const {
  if (index_size == 0) {
    for (uint32_t i = 0; i < size; ++i) {
      if (entries[i].hash == hash && match(entries[i].key)) return &entries[i].value;
    }
    return nullptr;
  }
  for (uint64_t at = hash;; ++at) {
    const uint32_t slot = index[at & (index_size - 1)];
    if (slot == 0) return nullptr;
    Entry& e = entries[slot - 1];
    if (e.hash == hash && match(e.key)) return &e.value;
  }
}

namespace {
uint64_t hash_text(std::string_view text) {
  // Mixed with an address, so that no input can be prepared to collide.
  static const char salt = 0;
  uint64_t h = std::hash<std::string_view>()(text) ^ (reinterpret_cast<uintptr_t>(&salt) >> 4);
  h *= 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}
}  // namespace

Value* Dict::find(const Value& key) const {
  return lookup(hash_of(key), [&](const Value& k) { return equal_keys(k, key); });
}

Value* Dict::find(std::string_view key) const {
  return lookup(hash_text(key), [&](const Value& k) { return k.is_str() && k.s->view() == key; });
}

void Dict::rebuild(Heap& heap) {
  if (size <= 8) {
    index_size = 0;
    return;
  }
  uint32_t wanted = index_size;
  while (wanted < 2 * capacity) wanted = wanted == 0 ? 32 : wanted * 2;
  if (wanted != index_size) {
    index = heap.array<uint32_t>(wanted);
    index_size = wanted;
  } else {
    std::fill(index, index + index_size, 0u);
  }
  for (uint32_t i = 0; i < size; ++i) {
    uint64_t at = entries[i].hash;
    while (index[at & (index_size - 1)] != 0) ++at;
    index[at & (index_size - 1)] = i + 1;
  }
}

void Dict::set(Heap& heap, const Value& key, Value value) {
  const uint64_t hash = hash_of(key);
  if (Value* old = lookup(hash, [&](const Value& k) { return equal_keys(k, key); })) {
    *old = value;
    return;
  }
  if (size == capacity) {
    const uint32_t wider = capacity == 0 ? 4 : capacity * 2;
    Entry* moved = heap.array<Entry>(wider);
    std::copy(entries, entries + size, moved);
    entries = moved;
    capacity = wider;
    entries[size++] = {key, value, hash};
    rebuild(heap);
    return;
  }
  entries[size++] = {key, value, hash};
  if (size == 9) {
    rebuild(heap);
  } else if (index_size > 0) {
    uint64_t at = hash;
    while (index[at & (index_size - 1)] != 0) ++at;
    index[at & (index_size - 1)] = size;
  }
}

bool Dict::erase(const Value& key) {
  Value* found = find(key);
  if (found == nullptr) return false;
  const size_t at = static_cast<size_t>(
      reinterpret_cast<Entry*>(reinterpret_cast<char*>(found) - offsetof(Entry, value)) - entries);
  std::copy(entries + at + 1, entries + size, entries + at);
  --size;
  if (index_size > 0) {
    std::fill(index, index + index_size, 0u);
    for (uint32_t i = 0; i < size; ++i) {
      uint64_t probe = entries[i].hash;
      while (index[probe & (index_size - 1)] != 0) ++probe;
      index[probe & (index_size - 1)] = i + 1;
    }
  }
  return true;
}

int64_t Range::size() const {
  const __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 by = step > 0 ? step : -static_cast<__int128>(step);
  return span <= 0 ? 0 : static_cast<int64_t>(std::min<__int128>((span + by - 1) / by, INT64_MAX));
}

// ---- Strings

void StrBuilder::append_slice(const Str& s, size_t from, size_t to) {
  if (from >= to) return;
  if (s.run_count == 0) {
    append({s.data + from, to - from}, s.origin);
    return;
  }
  for (size_t i = 0; i < s.run_count; ++i) {
    const size_t begin = std::max<size_t>(s.runs[i].start, from), end = std::min<size_t>(s.run_end(i), to);
    if (begin < end) append({s.data + begin, end - begin}, s.runs[i].from_template);
  }
}

void StrBuilder::truncate(size_t size) {
  text_.resize(std::min(size, text_.size()));
  while (!runs_.empty() && runs_.back().start >= text_.size()) runs_.pop_back();
}

const Str* StrBuilder::finish(Heap& heap) const {
  if (runs_.size() <= 1) return make_str(heap, text_, runs_.empty() || runs_[0].from_template);
  Str* s = heap.make<Str>();
  char* data = heap.extend(nullptr, 0, text_.size());
  std::memcpy(data, text_.data(), text_.size());
  RunStart* runs = heap.extend_runs(nullptr, 0, runs_.size());
  std::copy(runs_.begin(), runs_.end(), runs);
  s->data = data;
  s->size = static_cast<uint32_t>(text_.size());
  s->runs = runs;
  s->run_count = static_cast<uint32_t>(runs_.size());
  s->ascii = is_ascii(text_);
  return s;
}

const Str* borrow_str(Heap& heap, std::string_view text, bool from_template) {
  if (text.size() > 0x7FFFFFFF) fail_limit("a text is larger than 2 GB");
  Str* s = heap.make<Str>();
  s->data = text.data();
  s->size = static_cast<uint32_t>(text.size());
  s->origin = from_template;
  s->ascii = is_ascii(text);
  return s;
}

const Str* make_str(Heap& heap, std::string_view text, bool from_template) {
  char* data = heap.extend(nullptr, 0, text.size());
  if (!text.empty()) std::memcpy(data, text.data(), text.size());
  return borrow_str(heap, {data, text.size()}, from_template);
}

const Str* concat(Heap& heap, const Str& a, const Str& b) {
  if (b.size == 0 && !b.markup) return &a;
  if (a.size == 0 && !a.markup) return &b;
  if (size_t{a.size} + b.size > 0x7FFFFFFF) fail_limit("a text grows beyond 2 GB");
  Str* s = heap.make<Str>();
  char* data = heap.extend(a.data, a.size, b.size);
  if (b.size > 0) std::memcpy(data + a.size, b.data, b.size);
  s->data = data;
  s->size = a.size + b.size;
  s->ascii = a.ascii && b.ascii;
  s->markup = a.markup;
  if (a.run_count == 0 && b.run_count == 0 && a.origin == b.origin) {
    s->origin = a.origin;
    return s;
  }
  if (a.size == 0 || b.size == 0) {
    const Str& only = a.size == 0 ? b : a;
    s->origin = only.origin;
    s->runs = only.runs;
    s->run_count = only.run_count;
    return s;
  }
  const RunStart lone{0, a.origin};
  const RunStart* head = a.run_count == 0 ? &lone : a.runs;
  const size_t heads = a.runs_size();
  const bool joins = head[heads - 1].from_template == b.run(0).from_template;
  const size_t extra = b.runs_size() - (joins ? 1 : 0);
  RunStart* runs = heap.extend_runs(head, heads, extra);
  for (size_t i = 0; i < extra; ++i) {
    const RunStart r = b.run(i + (joins ? 1 : 0));
    runs[heads + i] = {r.start + a.size, r.from_template};
  }
  s->runs = runs;
  s->run_count = static_cast<uint32_t>(heads + extra);
  return s;
}

bool origin_at(const Str& s, size_t byte) {
  if (s.run_count == 0) return s.origin;
  const RunStart* after =
      std::upper_bound(s.runs, s.runs + s.run_count, byte, [](size_t at, const RunStart& r) { return at < r.start; });
  return after == s.runs ? s.runs[0].from_template : after[-1].from_template;
}

const Str* slice(Heap& heap, const Str& s, size_t from, size_t to) {
  to = std::min<size_t>(to, s.size);
  from = std::min(from, to);
  if (from == 0 && to == s.size) return &s;
  Str* part = heap.make<Str>();
  part->data = s.data + from;
  part->size = static_cast<uint32_t>(to - from);
  part->markup = s.markup;
  part->ascii = s.ascii || is_ascii(part->view());
  if (s.run_count == 0 || from == to) {
    part->origin = s.run_count == 0 ? s.origin : true;
    return part;
  }
  const auto before = [](size_t at, const RunStart& r) { return at < r.start; };
  const RunStart* first = std::upper_bound(s.runs, s.runs + s.run_count, from, before) - 1;
  const RunStart* last = std::upper_bound(first, s.runs + s.run_count, to - 1, before) - 1;
  part->origin = first->from_template;
  if (first == last) return part;
  const size_t count = static_cast<size_t>(last - first) + 1;
  RunStart* runs = heap.extend_runs(nullptr, 0, count);
  for (size_t i = 0; i < count; ++i) {
    runs[i] = {first[i].start <= from ? 0 : static_cast<uint32_t>(first[i].start - from), first[i].from_template};
  }
  part->runs = runs;
  part->run_count = static_cast<uint32_t>(count);
  return part;
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all = static_cast<unsigned char>(all | static_cast<unsigned char>(c));
  return all < 0x80;
}

uint32_t decode(std::string_view text, size_t at, size_t* size) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const uint32_t b = byte(at);
  *size = 1;
  if (b < 0xC2 || b > 0xF4) return b;
  const size_t want = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
  uint32_t code = b & (0x7Fu >> want);
  for (size_t k = 1; k < want; ++k) {
    if ((byte(at + k) & 0xC0u) != 0x80u) return b;
    code = code << 6 | (byte(at + k) & 0x3Fu);
  }
  *size = want;
  return code;
}

size_t char_size(std::string_view text, size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0x80) return 1;
  size_t size;
  decode(text, at, &size);
  return size;
}

void encode(uint32_t code, std::string* out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | code >> 18));
    out->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

size_t char_count(const Str& s) {
  if (s.ascii) return s.size;
  size_t count = 0;
  for (size_t i = 0; i < s.size; i += char_size(s.view(), i)) ++count;
  return count;
}

size_t byte_of_char(const Str& s, size_t index) {
  if (s.ascii) return std::min<size_t>(index, s.size);
  size_t at = 0;
  for (; index > 0 && at < s.size; --index) at += char_size(s.view(), at);
  return at;
}

bool is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

// ---- Equality and hashing, as Python's: 1 == 1.0 == True, lists and tuples differ, order of dict entries does not
// matter.

namespace {

bool equal_lists(const List& a, const List& b, int64_t* budget, int depth) {
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.size; ++i) {
    if (!equal(a.items[i], b.items[i], budget, depth)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, int64_t* budget, int depth) {
  if (a.size != b.size) return false;
  for (const Dict::Entry& e : a) {
    const Value* other = b.find(e.key);
    if (other == nullptr || !equal(e.value, *other, budget, depth)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  const int64_t n = a.size();
  if (n != b.size()) return false;
  return n == 0 || (a.start == b.start && (n == 1 || a.step == b.step));
}

void count_parts(const Value& v, int* left, bool* ok) {
  if (--*left < 0) fail_limit("a tuple that serves as a key has too many parts");
  if (v.tag == Tag::kTuple) {
    for (const Value& x : *v.list) count_parts(x, left, ok);
  } else if (v.is_list() || v.is_dict() || v.tag == Tag::kView || v.missing()) {
    *ok = false;
  }
}

}  // namespace

bool equal(const Value& a, const Value& b, int64_t* budget, int depth) {
  if (depth > 300) fail("RecursionError", "maximum recursion depth exceeded in comparison");
  if (--*budget < 0) fail_limit("a comparison visits too many values");
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.tag != b.tag) return false;
  switch (a.tag) {
    case Tag::kNone:
    case Tag::kUndefined: return true;
    case Tag::kStr: return a.s == b.s || a.s->view() == b.s->view();
    case Tag::kList:
    case Tag::kTuple: return a.list == b.list || equal_lists(*a.list, *b.list, budget, depth + 1);
    case Tag::kDict: return a.dict == b.dict || equal_dicts(*a.dict, *b.dict, budget, depth + 1);
    case Tag::kRange: return equal_ranges(*a.range, *b.range);
    default: return a.i == b.i;  // objects: identity
  }
}

bool equal_keys(const Value& a, const Value& b) {
  int64_t budget = 4096;
  return equal(a, b, &budget);
}

bool hashable(const Value& v) {
  int left = 256;
  bool ok = true;
  count_parts(v, &left, &ok);
  return ok;
}

uint64_t hash_of(const Value& v) {
  if (v.is_str()) return hash_text(v.s->view());
  uint64_t h = 0;
  if (v.is_integral()) {
    h = static_cast<uint64_t>(v.tag == Tag::kBool ? v.b : v.i);
  } else if (v.tag == Tag::kFloat) {
    // A float equal to an integer must hash as that integer.
    if (v.f >= -9.2e18 && v.f <= 9.2e18 && v.f == static_cast<double>(static_cast<int64_t>(v.f))) {
      h = static_cast<uint64_t>(static_cast<int64_t>(v.f));
    } else {
      std::memcpy(&h, &v.f, 8);
      if (v.f > 9.2e18 || v.f < -9.2e18) h = 77;  // may equal a big integer
    }
  } else if (v.tag == Tag::kBig) {
    h = 77;
  } else if (v.tag == Tag::kTuple) {
    for (const Value& x : *v.list) h = h * 1099511628211u + hash_of(x);
  } else if (v.tag != Tag::kNone && v.tag != Tag::kUndefined) {
    h = static_cast<uint64_t>(v.i);
  }
  h *= 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

}  // namespace bora::text::jinja
