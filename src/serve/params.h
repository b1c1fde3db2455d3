// Parameters of generating requests: the one place where a field of a body is read, checked and turned into what the
// engine takes. A field is honoured or refused by name; null counts as absent; unknown ones are listed.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/route.h"
#include "serve/services.h"

namespace bora::serve {

// A generating request, checked.
struct Ask {
  std::shared_ptr<const ServedModel> model;
  engine::Request request;                    // of each prompt; `prompt` itself is empty
  std::vector<std::vector<int32_t>> prompts;  // at least one, each not empty
  std::vector<std::string> prompt_texts;      // with echo: what is returned before the answer
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, echo = false, skip_special = true;
  bool reasoning_open = false;        // the prompt ends inside a reasoning block
  std::optional<int64_t> max_tokens;  // as asked
  int64_t seed = 0;                   // as reported
};

// Reads one body. The first fault stays; later reads do nothing harmful.
class Fields {
 public:
  // `body` outlives this.
  explicit Fields(const Json& body) : body_(body) {}

  bool ok() const { return fault_.status.ok(); }
  const Fault& fault() const { return fault_; }
  void refuse(std::string_view param, std::string message, std::string_view code = "");
  void refuse(std::string_view param, Status status, std::string_view code = "");

  // Null when absent or null.
  const Json* get(std::string_view name) const;
  // The value in [low, high]; nullopt when absent or refused.
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  // `open_low`: low itself is refused.
  std::optional<double> number(std::string_view name, double low, double high, bool open_low = false);
  std::optional<bool> boolean(std::string_view name);
  // A string of at most `most` bytes.
  std::optional<std::string> text(std::string_view name, size_t most);
  // A string or a list of strings, each of 1 to `each` bytes.
  std::vector<std::string> texts(std::string_view name, size_t count, size_t each);
  // A list of ids below `vocab`.
  std::vector<int32_t> ids(std::string_view name, size_t count, int32_t vocab);

 private:
  const Json& body_;
  Fault fault_;
};

// Fields that chat and completions share; `fields` of a route is a concatenation.
std::span<const FieldSpec> common_fields();
// Fields that are understood and not offered: refused unless their value asks for nothing.
std::span<const FieldSpec> unsupported_fields();

// Names of the body that no field of the route has, at most 64, made safe for a header. Linear in the body.
std::vector<std::string> unknown_fields(const Json& body, std::span<const FieldSpec> known);

// Fills model, sampling, stream and limits from `fields`. On a fault fields->ok() is false.
void read_common(Services& services, const HttpRequest& request, Fields* fields, Ask* ask);
// After the prompts are known: their length against the context, max_tokens (`fallback` < 0: the rest).
void fit_to_context(std::string_view param, int64_t fallback, Fields* fields, Ask* ask);

// The JSON object in a body, or the fault.
bool parse_body(const HttpRequest& request, Json* body, Fault* fault);
// Lists the unknown fields in the reply's header, or refuses them when the server is strict.
bool note_unknown(Services& services, const Json& body, std::span<const FieldSpec> known, Responder& responder);

}  // namespace bora::serve
