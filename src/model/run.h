// Runs one sequence through the float64 interpreter: what `--device reference` and the tests do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "ir/interpreter.h"
#include "model/family.h"

namespace bora::model {

// One sequence with positions from 0. `model` and `checkpoint` outlive this. One thread.
class ReferenceRun {
 public:
  static Result<std::unique_ptr<ReferenceRun>> create(const formats::Checkpoint& checkpoint, const Model& model,
                                                      int32_t max_positions);
  // Feeds `ids` at the next positions; logits are wanted of the last `rows` of them.
  Status feed(std::span<const int32_t> ids, int32_t rows);
  // [rows, vocab] of the last feed.
  Result<std::span<const double>> logits() const { return interpreter_->output("logits"); }
  Result<std::span<const double>> output(std::string_view name) const { return interpreter_->output(name); }
  int32_t length() const { return length_; }

 private:
  ReferenceRun() = default;
  const Model* model_ = nullptr;
  std::unique_ptr<ir::Interpreter> interpreter_;
  int32_t length_ = 0, max_positions_ = 0;
  std::vector<std::vector<int32_t>> tables_;
};

// The id with the largest logit; the first of equals.
int32_t argmax(std::span<const double> logits);

}  // namespace bora::model
