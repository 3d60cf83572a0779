// The largest of several draws from one normal distribution.
#pragma once
#include <cstdint>

namespace mbench {

// Of n standard normal deviates, n >= 1, the largest that is expected: the quantile of (n - 3/8) / (n + 1/4) (Blom 1958, Statistical
// Estimates and Transformed Beta-Variables). 1.43 for 8, 3.23 for 1,024.
double expected_largest(std::int64_t n);

}  // namespace mbench
