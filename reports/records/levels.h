// Whether a series stays at one level, changes it once, or goes on rising or falling. These are three models by least squares. The
// Bayesian information criterion (Schwarz, 1978) says how much evidence there is for each. Less is better; a difference of 6 is strong
// evidence, one of 10 very strong (Kass and Raftery, 1995). The criterion counts parameters, also the place of a change, so a model does not win by
// fitting anything. It assumes that the values' noise is independent.
#pragma once
#include <cstddef>
#include <vector>

namespace mbench::reports {

struct Levels {
  static constexpr double kStrong = 6, kVeryStrong = 10;

  double constant_bic = 0;
  // A step: the first value of the new level, and the levels.
  double step_bic = 0;
  std::size_t at = 0;
  double before = 0, after = 0;
  // A line, flat until `since` (the last value at the old level) and straight from there on.
  double line_bic = 0;
  std::size_t since = 0;
  double start = 0, slope = 0;  // the level until then; what each value adds
  double explained = 0;         // share of the variance that the line explains

  // `evidence`: by how much another model must be better.
  bool is_constant(double evidence = kVeryStrong) const {
    return constant_bic - evidence < step_bic && constant_bic - evidence < line_bic;
  }
  bool is_line() const { return !is_constant() && line_bic <= step_bic; }
  bool is_step() const { return !is_constant() && step_bic < line_bic; }
};

// `least`: values that a level has on either side of a step. `may_begin_later`: the line need not begin with the first value. At
// least 4 values.
Levels levels_of(const std::vector<double>& values, std::size_t least, bool may_begin_later);

// The criterion of a model with so many parameters that leaves so much of the squares of n values. `scale`: the size of the values;
// what is below its rounding counts as nothing left.
double information(double squares_left, std::size_t n, double parameters, double scale);

}  // namespace mbench::reports
