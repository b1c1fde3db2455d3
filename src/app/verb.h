// Verbs are records in a list: name, flags, examples, and a function. The command line, help, completion and the
// manual follow from the records; a verb or flag exists when it works.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace bora::app {

struct Flag {
  enum class Kind : uint8_t { kText, kInt, kReal, kSwitch, kPositional, kOptionalPositional };
  std::string_view name;  // "--model", "-p", or the placeholder of a positional ("MODEL")
  Kind kind = Kind::kText;
  std::string_view help;
  std::string_view fallback = "";  // shown in the help
  bool secret = false;             // its value is overwritten in the process's arguments once read
};

// Parsed values by flag name; numbers were checked.
class Args {
 public:
  void set(std::string_view name, std::string value) { values_[std::string(name)] = std::move(value); }
  bool has(std::string_view name) const { return values_.count(std::string(name)) != 0; }
  // The value, or empty when not given and without fallback.
  const std::string& text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;

 private:
  std::map<std::string, std::string> values_;
};

struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

struct Verb {
  std::string_view name;
  std::string_view summary;
  std::span<const Flag> flags;
  std::string_view examples;  // lines
  Status (*run)(const Args& args, Streams& io);
};

std::span<const Verb* const> verbs();

// Reads a JSON object a line and writes one a line, in order. A line that fails gives {"error": …} (with what `fn`
// added to *extra) and the tool goes on; at the end kInvalidArgument if any did.
using LineFn = Result<Json> (*)(const Json& line, void* state, Json* extra);
Status each_line(Streams& io, LineFn fn, void* state);

// {"ids": […]} under `key` as integers.
Result<std::vector<int32_t>> read_ids(const Json& line, std::string_view key);

}  // namespace bora::app
