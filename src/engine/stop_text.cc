#include "engine/stop_text.h"

#include <algorithm>

namespace bora::engine {

const std::string* StopText::push(std::string_view piece, std::string* out) {
  if (stops_.empty()) {
    *out += piece;
    return nullptr;
  }
  held_ += piece;
  const std::string* found = nullptr;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t its_end = at + stop.size();
    if (found != nullptr && (its_end > end || (its_end == end && stop.size() <= found->size()))) continue;
    found = &stop;
    end = its_end;
  }
  if (found != nullptr) {
    out->append(held_, 0, include_ ? end : end - found->size());
    held_.clear();
    return found;
  }
  // The longest end of the text that begins a stop.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) {
        keep = n;
        break;
      }
    }
  }
  out->append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return nullptr;
}

void StopText::flush(std::string* out) {
  *out += held_;
  held_.clear();
}

}  // namespace bora::engine
