// Stop strings in a stream of text: what may still become one is held back, what cannot is let go at once.
//
// The match that ends first wins, of several that end there the longest: how the text was cut into pieces never
// matters. One answer, one thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace bora::engine {

class StopText {
 public:
  StopText() = default;
  // `stops` outlive this and are not empty strings.
  StopText(std::span<const std::string> stops, bool include) : stops_(stops), include_(include) {}
  // Appends what became certain to *out. Returns the stop that was found (nothing may be pushed after it), or null.
  const std::string* push(std::string_view piece, std::string* out);
  // Appends what is held back.
  void flush(std::string* out);

 private:
  std::span<const std::string> stops_;
  bool include_ = false;
  std::string held_;
};

}  // namespace bora::engine
