// What steps cost, measured: seconds of a step that only decodes, and of a row of prefill beside it. From them
// follows how many rows a mixed step may have to stay under its target. Private to the module; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bora::engine {

class CostTable {
 public:
  explicit CostTable(int64_t target_us) : target_us_(static_cast<double>(target_us)) {}

  void measured(int32_t decode_rows, int32_t prefill_rows, int64_t took_us) {
    const double took = static_cast<double>(took_us);
    if (prefill_rows == 0) {
      blend(&decode_us_, took);
    } else if (prefill_rows >= 8) {
      const double rest = decode_rows > 0 ? took - decode_us_ : took;
      blend(&row_us_, std::max(rest, 0.0) / prefill_rows);
    }
  }

  // Prefill rows beside `decoding` sequences. Nobody waits for a step without decode rows: it may be full.
  int32_t prefill_rows(int32_t decoding, int32_t least, int32_t most) const {
    if (decoding == 0) return most;
    if (row_us_ <= 0) return std::clamp(4 * least, least, most);
    return static_cast<int32_t>(std::clamp((target_us_ - decode_us_) / row_us_, double(least), double(most)));
  }

 private:
  static void blend(double* old, double now) { *old = *old <= 0 ? now : *old + 0.2 * (now - *old); }
  double target_us_, decode_us_ = 0, row_us_ = 0;
};

}  // namespace bora::engine
