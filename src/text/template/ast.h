// The parsed form of a template: nodes in one heap, names as numbers, scopes resolved to slots.
//
// Scopes follow Jinja2's: the root, a loop's body, a macro, a call block, `with`, block set, filter block. `if` has
// none. A name that a scope stores owns a slot there; a read lists the slots to try from the inside out (a slot that
// was not set yet is skipped), then the context. This gives what Jinja2's symbol analysis gives, with no look-up by
// text while rendering.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/number.h"
#include "text/template/value.h"

namespace bora::text::jinja {

class Interp;
struct Args;

using Function = Value (*)(Interp&, const Args&);
using TestFunction = bool (*)(Interp&, const Args&);
using MethodFunction = Value (*)(Interp&, const Value& self, const Args&);

struct Filter {
  std::string_view name;
  Function call;
};
struct Test {
  std::string_view name;
  TestFunction call;
};
struct Builtin {
  std::string_view name;
  Function call;
};
struct Method {
  std::string_view name;
  MethodFunction call;   // null: changes its object and is always refused
  bool changes = false;  // changes its object: refused in the strict mode, as in the immutable sandbox
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
const Builtin* find_builtin(std::string_view name);
// Methods of str, list, tuple and dict; null for other types and unknown names.
const Method* find_method(Tag type, std::string_view name);

enum class Kind : uint8_t {
  // expressions
  kConst,
  kName,
  kTuple,
  kList,
  kDict,
  kCond,
  kAnd,
  kOr,
  kNot,
  kCompare,
  kArith,
  kConcat,
  kNegate,
  kPlus,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNsRef,
  // statements
  kData,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScoped,
  kAutoescape,
  kBreak,
  kContinue,
  kLoader,
};

enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Node;
struct NodeList {
  Node** items = nullptr;
  uint32_t size = 0;
  Node** begin() const { return items; }
  Node** end() const { return items + size; }
  Node* operator[](size_t i) const { return items[i]; }
};

struct Slot {
  uint16_t hops;
  uint16_t index;
};

// Which fields a kind uses is said where the parser makes it.
struct Node {
  Kind kind = Kind::kConst;
  bool flag = false;   // recursive loop, negated test, …
  uint16_t depth = 1;  // height of the tree below
  int32_t line = 0;
  uint32_t name = 0;        // number of a name
  uint32_t slot = 0;        // where a store goes, in its own scope
  uint32_t slot_count = 0;  // of the scope this node opens
  Value value;
  Node* a = nullptr;
  Node* b = nullptr;
  Node* c = nullptr;
  NodeList list, body, other;        // other: else branch, keyword values, …
  const Str* text = nullptr;         // attribute, filter or test name, data
  const Str* const* keys = nullptr;  // keyword names, beside `other`
  const uint8_t* ops = nullptr;      // kArith, kCompare: one an element of list
  const Slot* slots = nullptr;       // kName: where to look, slot_count of them
  union {
    const Filter* filter;
    const Test* test;
    const void* none = nullptr;
  };
  const Method* str_method = nullptr;  // kAttribute
  const Method* list_method = nullptr;
  const Method* dict_method = nullptr;
  uint8_t catches = 0;  // kMacro, kCallBlock: kCatch… bits
};

inline constexpr uint8_t kCatchCaller = 1, kCatchKwargs = 2, kCatchVarargs = 4, kExplicitCaller = 8;

struct Program {
  explicit Program(size_t memory) : heap(memory) {}
  Heap heap;
  std::string source;  // line ends normalized; data nodes point into it
  std::vector<std::string> names;
  std::unordered_map<std::string, uint32_t> name_numbers;
  std::vector<bool> read;    // by name: read as a variable
  std::vector<bool> tested;  // by name: asked whether it is defined
  NodeList body;
  uint32_t root_slots = 0;
};

// Throws Failure. `depth` bounds nesting.
void parse_program(std::string_view source, int32_t depth, Program* out);

}  // namespace bora::text::jinja
