// Which row of the experts is whose, for the cases of ops on a plan of dispatch.
#pragma once
#include "test/ops/tensors.h"

namespace mbench::test {

// Of `tokens` tokens with k experts each; more rows than pairs, so that some are padding.
struct PlanSizes {
  std::int64_t tokens, k, width;
  std::int64_t pairs() const { return tokens * k; }
  std::int64_t rows() const { return pairs() + (pairs() % 7 == 5 ? 3 : 2); }  // 7 does not divide it
};

// Each other's inverse; every fifth pair is dropped, some rows are padding.
struct PlanValues {
  Values rows, pairs;
  explicit PlanValues(const PlanSizes& z)
      : rows(static_cast<std::size_t>(z.pairs()), -1), pairs(static_cast<std::size_t>(z.rows()), -1) {
    for (std::int64_t pair = 0; pair < z.pairs(); ++pair) {
      if (pair % 5 == 3) continue;
      const std::int64_t row = (7 * pair + 3) % z.rows();
      rows[static_cast<std::size_t>(pair)] = static_cast<double>(row);
      pairs[static_cast<std::size_t>(row)] = static_cast<double>(pair);
    }
  }
};

// One token, ragged rows, rows of whole vectors, rows of several warps; the last is longer than a warp's vectors.
inline constexpr PlanSizes kPlans[] = {{1, 1, 1}, {3, 2, 31}, {9, 3, 64}, {5, 8, 33}, {4, 2, 1027}, {3, 2, 1032}};
inline constexpr PlanSizes kLargePlans[] = {{200, 2, 256}, {64, 8, 1000}};
inline constexpr PlanSizes kBenchPlan{1024, 2, 1024}, kSmallPlan{64, 2, 256};
// deepseek-v3 with samples of 64 Ki tokens.
inline constexpr PlanSizes kHugePlan{524288, 8, 7168};

}  // namespace mbench::test
