// y = x times a factor for each run of columns: what a projection makes of several parts, each with a multiplier of its own (Falcon-H1).
// It is its own gradient.
#pragma once
#include <algorithm>
#include <array>

#include "engine/ops/arguments.h"

namespace mbench::ops {

// Runs of columns: run i ends before column ends[i], and ends where the next one begins. The last end is the width of a row.
struct ColumnFactors {
  static constexpr std::size_t kRuns = 5;
  std::array<std::int64_t, kRuns> ends{};
  std::array<float, kRuns> factors{};
  std::int64_t width() const { return ends.back(); }
  float at(std::int64_t column) const {
    std::size_t run = 0;
    while (column >= ends[run]) ++run;
    return factors[run];
  }
};

struct ScaleColumns {
  static constexpr std::string_view name = "scale_columns";
  Tensor x;
  Tensor y;  // like x; may be x itself
  ColumnFactors columns;
  void check() const {
    need_float(name, "x", x);
    need_same(name, "y", y, x);
    mbench::check(std::is_sorted(columns.ends.begin(), columns.ends.end()) && columns.ends.front() >= 0 &&
                      columns.width() > 0 && x.numel() % columns.width() == 0,
                  name, "rows of {} columns, need rows of {}", columns.width(), x.shape());
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

}  // namespace mbench::ops
