// One render: evaluation of nodes, with limits. An Interp serves one call of render and one thread.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/template/ast.h"
#include "text/template/template.h"

namespace bora::text::jinja {

// Variables of one scope; hops of a Slot walk `parent`.
struct Frame {
  Frame* parent;
  Value* slots;
};

struct KeyValue {
  const Str* key;
  Value value;
};

struct Args {
  std::span<const Value> pos;
  std::span<const KeyValue> named;
};

struct Macro {
  const Node* node;
  Frame* frame;     // where it was defined
  const Str* name;  // null: a caller
};

struct BoundMethod {
  const Method* method;
  Value self;
};

// What `for` and the filters walk. next() is false at the end.
class Iter {
 public:
  virtual bool next(Interp& in, Value* out) = 0;
  virtual int64_t size() const { return -1; }  // -1: unknown until walked

 protected:
  ~Iter() = default;
};

struct Loop {
  const Node* node;
  Frame* frame;  // around the loop
  Iter* source;
  int64_t index0 = -1;
  int64_t length = -1;
  int32_t depth0 = 0;
  bool peeked = false, at_end = false;
  Value before{}, current{}, after{};
  Value changed{};  // a tuple, or missing
};

struct Cycler {
  List* items;
  uint32_t at = 0;
};

struct Joiner {
  Value separator{};
  bool used = false;
};

class Interp {
 public:
  Interp(const Program& program, const RenderOptions& options);

  // A value for a name of the template that is no variable of its own.
  void set_global(uint32_t name, Value value) { globals_[name] = value; }
  void run() { exec_all(program_.body, &root_); }
  StrBuilder& out() { return *out_; }

  Heap& heap() { return heap_; }
  const RenderOptions& options() const { return options_; }
  bool lenient() const { return options_.mode == RenderOptions::Mode::kLenient; }
  void adapted(std::string_view name);
  const std::vector<std::string>& adaptations() const { return adaptations_; }
  size_t text_limit() const { return static_cast<size_t>(options_.limits.output_bytes); }

  // Accounts for `work` units (about a node, or 64 bytes).
  void tick(int64_t work = 1) {
    steps_ -= work;
    if (steps_ < 0) out_of_steps();
  }

  Value eval(const Node* n, Frame* f);

  // Helpers for filters, tests and methods; each throws Failure with Python's wording.
  const Str* str(std::string_view text, bool from_template = true) { return make_str(heap_, text, from_template); }
  Value text(std::string_view t, bool from_template = true) { return Value::str(str(t, from_template)); }
  Value undefined(Undefined u);
  Value undefined_hint(std::string_view hint);
  Value list_value(List* l) { return Value::seq(Tag::kList, l); }
  Value tuple_of(std::initializer_list<Value> items);
  Value method_value(const Method* m, const Value& self);
  [[noreturn]] void fail_undefined(const Value& v);
  // Undefined values do not take part in operations.
  void need_defined(const Value& v) {
    if (v.is_undefined()) fail_undefined(v);
  }

  const Str* to_str(const Value& v);  // Python's str()
  const Str* soft_str(const Value& v) { return v.is_str() ? v.s : to_str(v); }
  const Str* need_str(const Value& v, std::string_view what);
  int64_t need_int(const Value& v);
  bool truth(const Value& v);
  bool same(const Value& a, const Value& b);  // ==
  bool less(const Value& a, const Value& b);  // <
  bool compare(Compare op, const Value& a, const Value& b);
  bool contains(const Value& item, const Value& in);
  int64_t length(const Value& v);  // len()
  Iter* iterate(const Value& v);   // iter()
  bool iterable(const Value& v) const;
  List* listed(const Value& v);  // list()
  Value attribute(const Value& base, const Str* name, const Node* known);
  Value item(const Value& base, const Value& key);
  Value slice_of(const Value& base, const Value& from, const Value& to, const Value& step);
  Value binary(Arith op, const Value& a, const Value& b);
  Value call(const Value& callee, const Args& args);
  Value call_filter(std::string_view name, const Args& args);
  bool call_test(std::string_view name, const Args& args);
  void assign(const Node* target, const Value& v, Frame* f);
  Frame* new_frame(Frame* parent, uint32_t slots);
  bool peek(Loop* loop);
  bool advance(Loop* loop);
  int64_t loop_length(Loop* loop);
  Value run_loop(const Node* n, Frame* f, const Value& items, int32_t depth0);

  // Binds to named parameters; the first `required` must be given. Missing ones stay missing.
  void bind(const Args& args, std::string_view function, std::span<const std::string_view> names, size_t required,
            Value* out);
  template <size_t N>
  std::array<Value, N> bound(const Args& args, std::string_view function,
                             const std::array<std::string_view, N>& names, size_t required) {
    std::array<Value, N> out;
    bind(args, function, names, required, out.data());
    return out;
  }

  // Nesting of calls and of evaluation, so that the stack is bounded.
  class Deeper {
   public:
    explicit Deeper(Interp& in) : in_(in) {
      if (++in.depth_ > in.max_depth_) in.too_deep();
    }
    ~Deeper() { --in_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Interp& in_;
  };

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class Capture;

  [[noreturn]] void out_of_steps();
  [[noreturn]] void too_deep();
  Value load(const Node* n, Frame* f);
  Value load_global(const Node* n);
  Value eval_list(const Node* n, Frame* f);
  Value eval_dict(const Node* n, Frame* f);
  Value eval_logic(const Node* n, Frame* f);
  Value eval_compare(const Node* n, Frame* f);
  Value eval_arith(const Node* n, Frame* f);
  Value eval_concat(const Node* n, Frame* f);
  Value eval_sign(const Node* n, Frame* f);
  Value eval_item(const Node* n, Frame* f);
  Value eval_cond(const Node* n, Frame* f);
  Value eval_call(const Node* n, Frame* f, const Value* caller);
  Value eval_filter(const Node* n, Frame* f, const Value* block);
  Value eval_test(const Node* n, Frame* f);
  struct Arguments;
  void collect(const Node* n, Frame* f, Arguments* out);
  Value call_macro(const Macro& m, const Args& args);
  Value call_loop(Loop* loop, const Args& args);
  void bind_macro(const Macro& m, const Args& args, Frame* f);
  Value attribute_fallback(const Value& base, const Str* name);
  const Method* method_of(const Value& base, const Str* name, const Node* known) const;
  Value special_attribute(const Value& base, std::string_view name);
  Value loop_attribute(Loop* loop, std::string_view name);
  Value add(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);

  void emit(const Value& v);
  Flow exec_all(const NodeList& body, Frame* f);
  Flow exec(const Node* n, Frame* f);
  Flow exec_if(const Node* n, Frame* f);
  Flow exec_with(const Node* n, Frame* f);
  Flow exec_autoescape(const Node* n, Frame* f);
  void exec_set_block(const Node* n, Frame* f);
  void exec_call_block(const Node* n, Frame* f);
  void exec_filter_block(const Node* n, Frame* f);
  void run_loop_into(const Node* n, Frame* f, const Value& items, int32_t depth0, Flow* flow);
  const Str* captured(const NodeList& body, Frame* f);

  const Program& program_;
  const RenderOptions& options_;
  Heap heap_;
  int64_t steps_;
  int32_t depth_ = 0, max_depth_;
  int32_t calls_ = 0;
  bool autoescape_ = false;
  std::vector<Value> globals_;
  Frame root_;
  StrBuilder main_;
  StrBuilder* out_ = &main_;
  std::vector<std::string> adaptations_;
};

// Python's names and texts of values.
std::string_view type_name(const Value& v);
std::string object_name(const Value& v);  // as in "'X' has no attribute"
// repr() with provenance; `sorted`: dict keys in order, as pprint
void append_repr(Interp& in, const Value& v, StrBuilder* out, int depth, bool sorted = false);
void append_str(Interp& in, const Value& v, StrBuilder* out);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false, indented = false;
  const Str* indent = nullptr;  // one level
  const Str* item = nullptr;    // separators
  const Str* key = nullptr;
};
void append_json(Interp& in, const Value& v, const JsonStyle& style, StrBuilder* out, int depth);

// `value % args` and value.format(args)
const Str* percent_format(Interp& in, const Str& format, const Value& args);
const Str* brace_format(Interp& in, const Str& format, const Args& args);
// format(value, spec)
void format_value(Interp& in, const Value& v, std::string_view spec, StrBuilder* out);
std::string format_real(double v, char type, int precision, bool alternate);

const Str* escape_html(Interp& in, const Value& v);
// A date as strftime of the C locale prints it.
std::string format_time(const CivilTime& t, std::string_view format);
// Builds the iterators of filters.
Iter* iterate_list(Heap& heap, List* list);
Value iter_value(Iter* iter);
// Splits a dotted attribute and walks it; make_attrgetter of Jinja2.
Value walk_attribute(Interp& in, const Value& item, const Value& path);
// Sorted copy, stable; keys by `key_of`.
void sort_values(Interp& in, std::vector<std::pair<Value, Value>>* keyed, bool reverse);

enum class CaseOp : uint8_t { kUpper, kLower, kCapitalize, kTitle, kSwap };
const Str* change_case(Interp& in, const Str& s, CaseOp op);
const Str* strip(Interp& in, const Str& s, const Value& chars, bool left, bool right);
const Str* replace(Interp& in, const Str& s, const Str& from, const Str& to, int64_t count);
const Str* join(Interp& in, const Str& separator, const Value& items, bool convert);
const Str* reversed(Interp& in, const Str& s);
List* split_lines(Interp& in, const Str& s, bool keep);

}  // namespace bora::text::jinja
