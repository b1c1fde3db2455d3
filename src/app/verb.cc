#include "app/verb.h"

#include <cstdlib>
#include <istream>
#include <limits>
#include <ostream>

namespace bora::app {

const std::string& Args::text(std::string_view name) const {
  static const std::string kNone;
  auto it = values_.find(std::string(name));
  return it == values_.end() ? kNone : it->second;
}

int64_t Args::integer(std::string_view name) const { return std::strtoll(text(name).c_str(), nullptr, 10); }
double Args::real(std::string_view name) const { return std::strtod(text(name).c_str(), nullptr); }

Status each_line(Streams& io, LineFn fn, void* state) {
  std::string text;
  int64_t failed = 0;
  while (std::getline(io.in, text)) {
    if (text.empty()) continue;
    Json answer = Json::object(), extra = Json::object();
    auto line = Json::parse(text);
    Status status = line.status();
    if (line.ok() && !line->is_object()) status = invalid_argument("a line must hold a JSON object");
    if (status.ok()) {
      auto result = fn(*line, state, &extra);
      if (result.ok()) {
        answer = *std::move(result);
      } else {
        status = std::move(result).take_status();
      }
    }
    if (!status.ok()) {
      ++failed;
      answer.set("error", status.message());
      for (const Json::Member& m : extra.members()) answer.set(m.first, m.second);
    }
    io.out << answer.dump() << '\n';
    if (io.in.rdbuf()->in_avail() == 0) io.out.flush();
  }
  io.out.flush();
  if (failed > 0) return invalid_argument(std::to_string(failed) + " lines failed; each has its error in the output");
  return {};
}

Result<std::vector<int32_t>> read_ids(const Json& line, std::string_view key) {
  const Json* v = line.find(key);
  if (v == nullptr || !v->is_array())
    return invalid_argument("'" + std::string(key) + "' must be a list of token ids");
  std::vector<int32_t> ids;
  for (const Json& id : v->items()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > std::numeric_limits<int32_t>::max()) {
      return invalid_argument("'" + std::string(key) + "' holds what is no token id");
    }
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

}  // namespace bora::app
