// Shape: up to six extents, outermost first, row-major. A value; no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"

namespace bora {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> dims) { assign(std::span(dims.begin(), dims.size())); }
  explicit Shape(std::span<const int64_t> dims) { assign(dims); }

  int rank() const { return rank_; }
  // Negative i counts from the innermost: dim(-1) is the row length.
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i < 0 ? i + rank_ : i)]; }
  int64_t operator[](int i) const { return dim(i); }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  // Product of the extents. Readers of files check for overflow before they build a Shape.
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if (dim(i) != other.dim(i)) return false;
    }
    return true;
  }
  // "[2, 3]"
  std::string to_string() const;

 private:
  void assign(std::span<const int64_t> dims) {
    BORA_CHECK(dims.size() <= kMaxRank, "more than six dimensions");
    for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
    rank_ = static_cast<int>(dims.size());
  }

  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace bora
