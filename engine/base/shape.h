// The extents of a tensor, at most four dims, outermost first; row-major and contiguous.
#pragma once
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "engine/base/error.h"

namespace mbench {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    check(dims.size() <= dims_.size(), "shape", "{} dims, at most {}", dims.size(), dims_.size());
    for (std::int64_t d : dims) dims_[rank_++] = d;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  std::int64_t& operator[](int i) { return dims_[i < 0 ? i + rank_ : i]; }
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // cols() is the extent of the last dim, rows() the number of such rows: numel = rows() * cols().
  std::int64_t cols() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  std::int64_t rows() const { return cols() == 0 ? 0 : numel() / cols(); }
  bool operator==(const Shape& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (dims_[i] != o.dims_[i]) return false;
    return true;
  }
  std::string str() const {
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) s += fmt::format("{}{}", i ? ", " : "", dims_[i]);
    return s + "]";
  }

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

}  // namespace mbench

// As str(). An argument of check() is formatted only where the check fails: to make a string for every op would be expensive.
template <>
struct fmt::formatter<mbench::Shape> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const mbench::Shape& shape, Context& context) const {
    return fmt::formatter<std::string>::format(shape.str(), context);
  }
};
