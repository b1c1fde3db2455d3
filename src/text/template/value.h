// Values of the template language and the memory of one render.
//
// Everything a render makes lives in its Heap and dies with it: no reference counts, so no destructor recursion on
// deep values and no leaks on cycles. Strings carry provenance as the starts of runs; a start list can be extended in
// place together with the bytes, which makes `s = s + piece` cost the piece only.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace bora::text::jinja {

// How a parse or a render stops. Thrown inside this module only, caught at its border.
struct Failure {
  std::string type;     // Python's name of the exception
  std::string message;  // Python's wording where templates can see it
  bool raised = false;  // by raise_exception
  bool limit = false;   // a limit of ours
};
[[noreturn]] void fail(std::string_view type, std::string message);
[[noreturn]] void fail_limit(std::string message);

struct RunStart {
  uint32_t start;  // byte offset
  bool from_template;
};

// Immutable. `runs` is empty (count 0) when the whole string has one origin.
struct Str {
  const char* data = "";
  uint32_t size = 0;
  uint32_t run_count = 0;
  const RunStart* runs = nullptr;
  bool origin = true;  // from_template, when run_count == 0
  bool ascii = true;
  bool markup = false;  // already escaped for HTML

  std::string_view view() const { return {data, size}; }
  size_t runs_size() const { return run_count == 0 ? 1 : run_count; }
  RunStart run(size_t i) const { return run_count == 0 ? RunStart{0, origin} : runs[i]; }
  uint32_t run_end(size_t i) const { return i + 1 < run_count ? runs[i + 1].start : size; }
};

enum class Tag : uint8_t {
  kMissing,  // no value at all: an unset slot, an absent argument
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBig,
  kStr,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,
  kIter,
  kNamespace,
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
  kBuiltin,
  kMethod,
  kSelf,
};

struct BigInt;
struct List;
struct Dict;
struct Range;
struct View;
class Iter;
struct Namespace;
struct Macro;
struct Loop;
struct Cycler;
struct Joiner;
struct Builtin;
struct BoundMethod;
struct Undefined;

struct Value {
  Tag tag = Tag::kMissing;
  union {
    bool b;
    int64_t i = 0;
    double f;
    const BigInt* big;
    const Str* s;
    List* list;
    Dict* dict;
    const Range* range;
    const View* dict_view;
    Iter* iter;
    Namespace* ns;
    const Macro* macro;
    Loop* loop;
    Cycler* cycler;
    Joiner* joiner;
    const Builtin* builtin;
    const BoundMethod* method;
    const Undefined* undefined;
  };
  Value() = default;
  static Value none() { return of(Tag::kNone); }
  static Value boolean(bool v) {
    Value x = of(Tag::kBool);
    x.b = v;
    return x;
  }
  static Value integer(int64_t v) {
    Value x = of(Tag::kInt);
    x.i = v;
    return x;
  }
  static Value real(double v) {
    Value x = of(Tag::kFloat);
    x.f = v;
    return x;
  }
  static Value str(const Str* v) {
    Value x = of(Tag::kStr);
    x.s = v;
    return x;
  }
  static Value seq(Tag tag, List* v) {
    Value x = of(tag);
    x.list = v;
    return x;
  }
  static Value dictionary(Dict* v) {
    Value x = of(Tag::kDict);
    x.dict = v;
    return x;
  }
  static Value of(Tag tag) {
    Value x;
    x.tag = tag;
    return x;
  }

  bool missing() const { return tag == Tag::kMissing; }
  bool is_undefined() const { return tag == Tag::kUndefined; }
  bool is_none() const { return tag == Tag::kNone; }
  bool is_str() const { return tag == Tag::kStr; }
  bool is_dict() const { return tag == Tag::kDict; }
  bool is_list() const { return tag == Tag::kList; }
  bool is_seq() const { return tag == Tag::kList || tag == Tag::kTuple; }
  bool is_integral() const { return tag == Tag::kInt || tag == Tag::kBool; }
  bool is_number() const { return is_integral() || tag == Tag::kFloat || tag == Tag::kBig; }
};

// Bump memory with a budget; running out is a Failure.
class Heap {
 public:
  explicit Heap(size_t limit) : limit_(limit) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void* allocate(size_t bytes);
  template <typename T, typename... A>
  T* make(A&&... args) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    return new (allocate(sizeof(T))) T{std::forward<A>(args)...};
  }
  template <typename T>
  T* array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
    if (n > limit_ / sizeof(T)) too_much();
    T* items = static_cast<T*>(allocate(n * sizeof(T)));
    for (size_t i = 0; i < n; ++i) new (items + i) T();
    return items;
  }
  // A buffer of size + extra bytes that begins with data[0, size): `data` itself when it ends where free space
  // begins.
  char* extend(const char* data, size_t size, size_t extra);
  RunStart* extend_runs(const RunStart* data, size_t count, size_t extra);
  size_t used() const { return used_; }

 private:
  struct Bump {
    char* top = nullptr;
    char* end = nullptr;
  };
  [[noreturn]] void too_much();
  void refill(Bump* bump, size_t bytes, size_t chunk);
  char* extend_in(Bump* bump, const char* data, size_t size, size_t extra);

  std::vector<std::unique_ptr<char[]>> chunks_;
  Bump objects_, bytes_, runs_;
  size_t used_ = 0, limit_;
};

struct List {
  Value* items = nullptr;
  uint32_t size = 0, capacity = 0;
  bool group = false;  // a tuple of groupby, with .grouper and .list

  Value* begin() const { return items; }
  Value* end() const { return items + size; }
  void push(Heap& heap, Value v);
};

// Insertion-ordered; indexed above eight entries. Keys are hashable values (checked by the caller).
struct Dict {
  struct Entry {
    Value key, value;
    uint64_t hash;
  };
  Entry* entries = nullptr;
  uint32_t size = 0, capacity = 0;
  uint32_t* index = nullptr;  // entry + 1, or 0
  uint32_t index_size = 0;    // a power of two, or 0

  const Entry* begin() const { return entries; }
  const Entry* end() const { return entries + size; }
  Value* find(const Value& key) const;
  Value* find(std::string_view key) const;
  void set(Heap& heap, const Value& key, Value value);
  bool erase(const Value& key);  // linear

 private:
  template <typename Match>
  Value* lookup(uint64_t hash, Match match) const;
  void rebuild(Heap& heap);
};

struct Range {
  int64_t start, stop, step;
  int64_t size() const;
};

struct View {
  enum class Kind : uint8_t { kKeys, kValues, kItems };
  Dict* dict;
  Kind kind;
};

struct Namespace {
  Dict* attrs;
};

struct Undefined {
  enum class Kind : uint8_t { kName, kAttribute, kElement, kHint, kUnsafe, kParameter };
  Kind kind;
  Value object;   // kAttribute, kElement, kUnsafe
  Value element;  // kElement
  std::string_view name;
};

// Text under construction, with provenance.
class StrBuilder {
 public:
  explicit StrBuilder(size_t limit) : limit_(limit) {}
  void append(std::string_view text, bool from_template) {
    if (text.empty()) return;
    start_run(from_template);
    grow(text.size());
    text_.append(text);
  }
  void append(const Str& s) { append_slice(s, 0, s.size); }
  // Bytes [from, to) of s.
  void append_slice(const Str& s, size_t from, size_t to);
  void push(char c, bool from_template) { append(std::string_view(&c, 1), from_template); }
  size_t size() const { return text_.size(); }
  void truncate(size_t size);
  std::string_view view() const { return text_; }
  const std::vector<RunStart>& runs() const { return runs_; }
  std::string take_text() { return std::move(text_); }
  const Str* finish(Heap& heap) const;
  void clear() {
    text_.clear();
    runs_.clear();
  }

 private:
  void start_run(bool from_template) {
    if (runs_.empty() || runs_.back().from_template != from_template) {
      runs_.push_back({static_cast<uint32_t>(text_.size()), from_template});
    }
  }
  void grow(size_t bytes) {
    if (text_.size() + bytes > limit_)
      fail_limit("the text grows beyond the limit of " + std::to_string(limit_) + " bytes");
  }
  std::string text_;
  std::vector<RunStart> runs_;
  size_t limit_;
};

// A string of one origin; bytes are copied.
const Str* make_str(Heap& heap, std::string_view text, bool from_template);
// The same without a copy: the bytes outlive the heap.
const Str* borrow_str(Heap& heap, std::string_view text, bool from_template);
const Str* concat(Heap& heap, const Str& a, const Str& b);
const Str* slice(Heap& heap, const Str& s, size_t from, size_t to);  // bytes
bool origin_at(const Str& s, size_t byte);

// UTF-8, lenient: a malformed byte counts as one character.
size_t char_size(std::string_view text, size_t at);
uint32_t decode(std::string_view text, size_t at, size_t* size);
void encode(uint32_t code, std::string* out);
size_t char_count(const Str& s);
size_t byte_of_char(const Str& s, size_t index);  // index may be the count
bool is_ascii(std::string_view text);
bool is_space(uint32_t code);  // str.isspace of one character

// Visited nodes are taken from *budget (shared parts can make a small value look huge); running out is a Failure.
bool equal(const Value& a, const Value& b, int64_t* budget, int depth = 0);
bool equal_keys(const Value& a, const Value& b);
uint64_t hash_of(const Value& v);
// Whether v can be a key. A tuple of more than 256 parts is refused as a Failure.
bool hashable(const Value& v);

}  // namespace bora::text::jinja
